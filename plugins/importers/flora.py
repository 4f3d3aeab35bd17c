"""FLoRA's public code: `<run>/<epoch>/`, with a stacked adapter of all clients in each epoch.

`<epoch>/adapter_config.json`, `<epoch>/adapter_model.bin`, what clients sent
(`<epoch>/local_output_<client>/pytorch_model.bin`) and mostly a whole model, `<epoch>/final/`.
After each epoch the stacked adapter is merged into the model with which the next epoch begins, and
older epochs are often deleted. So the adapter of epoch 0 belongs to the base that its configuration
names, and that of a later one to this base with all earlier epochs merged in, as in `final/`.
"""

import re
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
)

from .adapter_folders import CONFIG, WEIGHTS, below, parent
from .shepherd import TEMPLATE, is_averaged, sent_in

_WEIGHTS = re.compile(r"(?:.*/)?\d{1,9}/adapter_model\.(?:bin|safetensors)")
FINAL = "final/"


@dataclass(frozen=True, kw_only=True)
class Flora(Importer):
    """Read the first epoch of FLoRA's public code; later ones belong to a base of their own."""

    name: ClassVar[str] = "flora"

    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folders of epochs, each with its configuration or a whole model in it."""
        return sorted({parent(epoch) for epoch in stacked_epochs(folder)})

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return epoch 0; raises InputError where a later one was kept."""
        epochs = {int(epoch): epoch for epoch in stacked_epochs(run) if epoch.isdecimal()}
        last = max(epochs)
        if last > 0:
            whole = any(name.startswith(f"{epochs[last]}/{FINAL}") for name in run.files)
            instead = (
                f"audit the whole model, {run.name}/{epochs[last]}/final, as --target"
                if whole
                else "merge the epochs into the base in order, and audit the result as --target"
            )
            raise InputError(
                f"{run.name} was left by FLoRA, which merges each epoch's adapter into the model: "
                f"that of epoch {last} belongs to the base with epochs 0 to {last - 1} merged in, "
                f"not to the one that its configuration names. Please {instead}."
            )
        epoch = epochs[0]
        weights = next(name for n in WEIGHTS if (name := below(epoch, n)) in run.files)
        config = next((n for n in (below(epoch, CONFIG), CONFIG) if n in run.files), "")
        notes = ["Epoch 0 is the only one: later ones would belong to a base of their own."]
        if sent_in(run, epoch):
            notes.append(
                "What clients sent is left out: the global adapter stacks or pads it, and no file "
                "has the clients' own settings."
            )
        return ForeignFederation(
            rounds=[ForeignRound(round=0, adapter=ForeignAdapter(weights=weights, config=config))],
            aggregation="flora",
            template=TEMPLATE,
            notes=tuple(notes),
        )


def stacked_epochs(folder: ForeignFolder) -> list[str]:
    """Return the folders of epochs whose adapter FLoRA merges.

    Shepherd's have no configuration of their own and no whole model, nor those that FLoRA's code
    averages a whole model; FlowerTune's, also called by a number, hold what PEFT saves in
    safetensors and nothing else.
    """
    files = set(folder.files)
    found = []
    for weights in filter(_WEIGHTS.fullmatch, folder.files):
        epoch = parent(weights)
        own = below(epoch, CONFIG) in files
        inside = [name for name in folder.files if name.startswith(f"{epoch}/")]
        sent = bool(sent_in(folder, epoch))
        whole = any(name.startswith(f"{epoch}/{FINAL}") for name in inside)
        stacked = own and (sent or weights.endswith(".bin")) and not is_averaged(folder, epoch)
        if whole or stacked:
            found.append(epoch)
    return found
