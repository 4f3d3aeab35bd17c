"""FederatedGPT-Shepherd.

`<clients>/adapter_config.json`, `<clients>/<epoch>/adapter_model.bin`, and what each client sent:
`<clients>/<epoch>/local_output_<client>/pytorch_model.bin`. Epochs count from 0, and so do rounds
here: round 0 is the first that is known, since no one kept the adapter that training began with.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import (
    ForeignAdapter,
    ForeignFederation,
    ForeignFolder,
    ForeignRound,
    Importer,
    InputError,
    PromptTemplate,
)

from .adapter_folders import CONFIG, below, parent

GLOBAL = re.compile(r"(\d{1,9})/adapter_model\.bin")
CLIENT = re.compile(r"(\d{1,9})/local_output_(\d{1,9})/pytorch_model\.bin")
_TASK = "Below is an instruction that describes a task{}. Write a response that appropriately "
_TEXT = _TASK + "completes the request.\n\n### Instruction:\n{{instruction}}\n\n{}### Response:\n"
TEMPLATE = PromptTemplate(
    "shepherd_alpaca",
    _TEXT.format(", paired with an input that provides further context", "### Input:\n{input}\n\n"),
    _TEXT.format("", ""),
)


@dataclass(frozen=True, kw_only=True)
class Shepherd(Importer):
    """Read Shepherd's epochs: global adapters and those that each client sent."""

    name: ClassVar[str] = "shepherd"

    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folders of epochs with a configuration beside them or in each."""
        found = (parent(name) for name in folder.files if name.endswith("/adapter_model.bin"))
        epochs = {epoch for epoch in found if epoch.rpartition("/")[2].isdecimal()}
        files = set(folder.files)
        whole = {
            parent(name.partition("/final/")[0]) for name in folder.files if "/final/" in name
        }  # FLoRA's
        own = {parent(epoch) for epoch in epochs if is_averaged(folder, epoch)}
        beside = {parent(epoch) for epoch in epochs if below(parent(epoch), CONFIG) in files}
        return sorted((own | beside) - whole)

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the epochs as rounds, with their clients.

        Raises InputError for adapters that stack their clients', as FLoRA's do.
        """
        global_files: dict[int, str] = {}
        clients: dict[int, dict[str, ForeignAdapter]] = defaultdict(dict)
        for name in run.files:
            if match := GLOBAL.fullmatch(name):
                global_files[int(match[1])] = name
            elif match := CLIENT.fullmatch(name):
                clients[int(match[1])][f"c{int(match[2])}"] = _adapter(run, match[1], name)
        for number, name in global_files.items():
            if _stacks(run, name, [adapter.weights for adapter in clients[number].values()]):
                raise InputError(
                    f"{run.name}/{name} stacks what its clients sent, as FLoRA does: each epoch's "
                    "adapter belongs to the base with all earlier epochs merged in. Merge them in "
                    "their order, and audit the result as --target."
                )
        rounds = [
            ForeignRound(
                round=number,
                adapter=_adapter(run, parent(name), name),
                clients=clients[number],
            )
            for number, name in sorted(global_files.items())
        ]
        lost = [n for n in sorted(clients) if n not in global_files]
        notes = [
            f"Epoch {n} is left out: it has clients' adapters and no global one." for n in lost
        ]
        return ForeignFederation(rounds=rounds, template=TEMPLATE, notes=tuple(notes))


def is_averaged(folder: ForeignFolder, epoch: str) -> bool:
    """Tell whether an epoch has its own configuration and the mean of what several clients sent.

    FLoRA's public code leaves such epochs where it averages. An adapter that it stacks, or pads to
    the largest rank, has another shape than a client's.
    """
    files = set(folder.files)
    weights = below(epoch, "adapter_model.bin")
    sent = sent_in(folder, epoch)
    if len(sent) < 2 or not {weights, below(epoch, CONFIG)} <= files:
        return False
    whole = folder.look(weights).shapes
    return all(folder.look(name).shapes == whole for name in sent)


def sent_in(folder: ForeignFolder, epoch: str) -> list[str]:
    """Return the files that clients sent in an epoch."""
    above = len(parent(epoch)) + 1 if parent(epoch) else 0
    return [
        name
        for name in folder.files
        if name.startswith(f"{epoch}/") and CLIENT.fullmatch(name[above:])
    ]


def _stacks(run: ForeignFolder, name: str, sent: Sequence[str]) -> bool:
    """Tell whether an adapter's ranks are the sums of those that several clients sent."""
    if len(sent) < 2:
        return False

    def ranks(file: str) -> dict[str, int]:
        shapes = run.look(file).shapes
        return {key: shape[0] for key, shape in shapes.items() if "lora_A" in key and shape}

    whole, parts = ranks(name), [ranks(file) for file in sent]
    return bool(whole) and all(
        all(key in part for part in parts) and sum(part[key] for part in parts) == rank
        for key, rank in whole.items()
    )


def _adapter(run: ForeignFolder, epoch: str, weights: str) -> ForeignAdapter:
    own = below(epoch, CONFIG)
    return ForeignAdapter(weights=weights, config=own if own in run.files else CONFIG)
