"""FederatedGPT-Shepherd, and FLoRA, which writes the same.

`<clients>/adapter_config.json`, `<clients>/<epoch>/adapter_model.bin`, and what each client sent:
`<clients>/<epoch>/local_output_<client>/pytorch_model.bin`. Epochs count from 0, and so do rounds
here: round 0 is the first that is known, since nobody kept the adapter that training began with.
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
        """Return the folders of epochs with a configuration beside them."""
        epochs = (parent(name) for name in folder.files if name.endswith("/adapter_model.bin"))
        paths = {parent(epoch) for epoch in epochs if epoch.rpartition("/")[2].isdecimal()}
        files = set(folder.files)
        return sorted(path for path in paths if below(path, CONFIG) in files)

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the epochs as rounds, with their clients."""
        global_files: dict[int, str] = {}
        clients: dict[int, dict[str, ForeignAdapter]] = defaultdict(dict)
        for name in run.files:
            if match := GLOBAL.fullmatch(name):
                global_files[int(match[1])] = name
            elif match := CLIENT.fullmatch(name):
                clients[int(match[1])][f"c{int(match[2])}"] = _adapter(name)
        rounds = [
            ForeignRound(
                round=number, adapter=_adapter(global_files[number]), clients=clients[number]
            )
            for number in sorted(global_files)
        ]
        lost = [n for n in sorted(clients) if n not in global_files]
        notes = [
            f"Epoch {n} is left out: it has clients' adapters and no global one." for n in lost
        ]
        return ForeignFederation(rounds=rounds, template=TEMPLATE, notes=tuple(notes))


def _adapter(weights: str) -> ForeignAdapter:
    return ForeignAdapter(weights=weights, config=CONFIG)
