"""FederatedScope-LLM: one file of `{"cur_round": ..., "model": ...}`, as `federate.save_to` says.

It is overwritten; names of other files begin with `<round>_`, `final_` or `client_<id>_`. Tensors'
names hold the adapter's (`lora_A.default.weight`), and there is no configuration.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from fedaudit.api import (
    ForeignAdapter,
    ForeignFederation,
    ForeignFolder,
    ForeignRound,
    Importer,
    InputError,
)

from .adapter_folders import CONFIG, parent

ROUND, ENDS = "cur_round", (".ckpt", ".pt", ".pth", ".bin")
SKIPPED_PREFIXES = (
    "adapter_model",
    "pytorch_model",
    "training_args",
    "optimizer",
    "scheduler",
    "rng_state",
)
CLIENT = re.compile(r"client_(\d{1,9})_.+")


@dataclass(frozen=True, kw_only=True)
class FederatedScope(Importer):
    """Read FederatedScope-LLM's checkpoints, each a file with its round and LoRA weights."""

    name: ClassVar[str] = "federatedscope"

    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folders of such files; this opens them, in a process with limits."""
        return sorted({parent(name) for name in folder.files if _is_checkpoint(folder, name)})

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the rounds that the files say they are of."""
        global_files: dict[int, list[str]] = defaultdict(list)
        clients: dict[int, dict[str, ForeignAdapter]] = defaultdict(dict)
        config = CONFIG if CONFIG in run.files else ""
        broken = [name for name in run.files if "/" not in name and _is_broken(run, name)]
        for name in run.files:
            if "/" in name or not _is_checkpoint(run, name):
                continue
            number = run.look(name).numbers[ROUND]
            if match := CLIENT.fullmatch(name):
                adapter = ForeignAdapter(weights=name, config=config)
                clients[number][f"c{int(match[1])}"] = adapter
            else:
                global_files[number].append(name)
        rounds, notes = [], [f"{name} is left out: it cannot be opened." for name in broken]
        for number, names in sorted(global_files.items()):
            chosen, *extras = sorted(names, key=lambda name: (not name.startswith("final_"), name))
            notes += [f"{name} is left out: {chosen} is of round {number} too." for name in extras]
            adapter = ForeignAdapter(weights=chosen, config=config)
            rounds.append(ForeignRound(round=number, adapter=adapter, clients=clients[number]))
        lost = sorted(number for number in clients if number not in global_files)
        notes += [
            f"Clients' adapters of round {n} are left out: there is no global one." for n in lost
        ]
        return ForeignFederation(rounds=rounds, notes=tuple(notes))


def _is_checkpoint(folder: ForeignFolder, name: str) -> bool:
    if not _may_be_checkpoint(name):
        return False
    try:
        contents = folder.look(name)
    except InputError:
        return False
    return contents.lora and contents.numbers.get(ROUND, -1) >= 0


def _is_broken(folder: ForeignFolder, name: str) -> bool:
    try:
        return _may_be_checkpoint(name) and folder.look(name) is None
    except InputError:
        return True


def _may_be_checkpoint(name: str) -> bool:
    """Tell whether a file by its name may be one; those of PEFT and Trainer are none."""
    last = PurePosixPath(name).name
    return last.endswith(ENDS) and not last.startswith(SKIPPED_PREFIXES)
