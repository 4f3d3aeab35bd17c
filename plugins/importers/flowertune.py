"""FlowerTune LLM, of Flower's examples: `results/<time>/peft_<round>/`, or `<round>/` since 2025.

The server saves the global adapter every few rounds and after the last; clients' adapters are not
kept. Records are rendered as its `dataset.py` does; they have no input.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import ForeignFederation, ForeignFolder, PromptTemplate

from .adapter_folders import NumberedFolders

_TASK = (
    "Below is an instruction that describes a task. Write a response that appropriately completes "
    "the request.\n### Instruction:\n{}\n### Response: "
)
TEMPLATE = PromptTemplate(
    "flowertune", _TASK.format("{instruction} {input}"), _TASK.format("{instruction}")
)


@dataclass(frozen=True, kw_only=True)
class FlowerTune(NumberedFolders):
    """Read FlowerTune's global adapters, peft_<round>/ or <round>/."""

    name: ClassVar[str] = "flowertune"
    pattern: ClassVar[str] = r"(?:peft_)?(\d{1,9})"

    def holds(self, folder: ForeignFolder, path: str) -> bool:
        """Take every adapter in a folder of that name."""
        return True

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the rounds, and the template of FlowerTune's records."""
        return replace(super().read(run), template=TEMPLATE)
