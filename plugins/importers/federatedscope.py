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

from .adapter_folders import CONFIG, lost_clients, parent

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
        numbers = {name: _round(folder, name) for name in folder.files}
        return sorted({parent(name) for name, n in numbers.items() if n is not None and n >= 0})

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the rounds that the files say they are of."""
        global_files: dict[int, list[str]] = defaultdict(list)
        clients: dict[int, dict[str, ForeignAdapter]] = defaultdict(dict)
        config = CONFIG if CONFIG in run.files else ""
        notes = []
        for name in run.files:
            number = -1 if "/" in name else _round(run, name)
            if number is None:
                notes.append(f"{name} is left out: it cannot be opened.")
            elif number < 0:
                continue
            elif match := CLIENT.fullmatch(name):
                adapter = ForeignAdapter(weights=name, config=config)
                clients[number][f"c{int(match[1])}"] = adapter
            else:
                global_files[number].append(name)
        rounds = []
        for number, names in sorted(global_files.items()):
            chosen, *extras = sorted(names, key=lambda name: (not name.startswith("final_"), name))
            notes += [f"{name} is left out: {chosen} is of round {number} too." for name in extras]
            adapter = ForeignAdapter(weights=chosen, config=config)
            rounds.append(ForeignRound(round=number, adapter=adapter, clients=clients[number]))
        notes += lost_clients(clients, global_files)
        return ForeignFederation(rounds=rounds, notes=tuple(notes))


def _round(folder: ForeignFolder, name: str) -> int | None:
    """Return the round that a file is of, -1 for another kind of file; None if it is broken."""
    last = PurePosixPath(name).name
    if not last.endswith(ENDS) or last.startswith(SKIPPED_PREFIXES):  # PEFT's or Trainer's
        return -1
    try:
        contents = folder.look(name)
    except InputError:
        return None
    return contents.numbers.get(ROUND, -1) if contents.lora else -1
