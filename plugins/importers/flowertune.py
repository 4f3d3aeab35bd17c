"""FlowerTune LLM, of Flower's examples: `results/<time>/peft_<round>/`, or `<round>/` since 2025.

The server saves the global adapter every few rounds and after the last; clients' adapters are not
kept. Records are rendered as its `dataset.py` does; they have no input.
"""

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import ClassVar

from fedaudit.api import ForeignFederation, ForeignFolder, PromptTemplate

from .adapter_folders import CLIENTS, WEIGHTS, NumberedFolders, adapters, below

_TASK = (
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.\n### Instruction:\n{}\n### Response: "
)
TEMPLATE = PromptTemplate(
    "flowertune", _TASK.format("{instruction} {input}"), _TASK.format("{instruction}")
)

NUMBERS_ALONE = (
    "Folders whose name is only a number are read as rounds of one global adapter, as FlowerTune "
    "writes them: if they are clients, do not rely on anything said about rounds."
)


@dataclass(frozen=True, kw_only=True)
class FlowerTune(NumberedFolders):
    """Read FlowerTune's global adapters, peft_<round>/ or <round>/."""

    name: ClassVar[str] = "flowertune"
    pattern: ClassVar[str] = r"(?:peft_)?(\d{1,9})"

    def holds(self, folder: ForeignFolder, path: str) -> bool:
        """Take adapters in folders of that name; one called by a number alone only by itself.

        PEFT's own files have no folders beside them; FLoRA's epochs do. Where another adapter is
        called by a word, or a folder is called clients, numbers may be those of clients.
        """
        *above, name = path.split("/")
        more = any(
            "/" in file.removeprefix(f"{path}/")
            for file in folder.files
            if file.startswith(f"{path}/")
        )
        pickled = below(path, WEIGHTS[0]) not in folder.files
        named = any(not re.fullmatch(self.pattern, PurePosixPath(a).name) for a in adapters(folder))
        owned = not {CLIENTS, "local"}.isdisjoint(word.lower() for word in (folder.name, *above))
        return not (name.isdecimal() and (pickled or more or named or owned))

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the rounds, and the template of FlowerTune's records.

        Nothing in such a folder tells rounds from clients that someone numbered: it is said.
        """
        federation = replace(super().read(run), template=TEMPLATE)
        if any(name.isdecimal() for name in adapters(run)):
            federation = replace(federation, notes=(*federation.notes, NUMBERS_ALONE))
        return federation
