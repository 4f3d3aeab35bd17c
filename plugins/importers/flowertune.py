"""FlowerTune LLM, of Flower's examples: `results/<time>/peft_<round>/`, or `<round>/` since 2025.

The server saves the global adapter every few rounds and after the last; clients' adapters are not
kept. Records are rendered as its `dataset.py` does; they have no input.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import ForeignFederation, ForeignFolder, PromptTemplate

from .adapter_folders import WEIGHTS, NumberedFolders, adapters, below

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
        """Take adapters in folders of that name, but none called by a number alone with more in it.

        PEFT's own files have no folders beside them; FLoRA's epochs do.
        """
        name = path.rpartition("/")[2]
        more = any(
            "/" in file.removeprefix(f"{path}/")
            for file in folder.files
            if file.startswith(f"{path}/")
        )
        pickled = below(path, WEIGHTS[0]) not in folder.files
        return not (name.isdecimal() and (pickled or more))

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the rounds, and the template of FlowerTune's records.

        Nothing in such a folder tells rounds from clients that someone numbered: it is said.
        """
        federation = replace(super().read(run), template=TEMPLATE)
        if any(name.isdecimal() for name in adapters(run)):
            federation = replace(federation, notes=(*federation.notes, NUMBERS_ALONE))
        return federation
