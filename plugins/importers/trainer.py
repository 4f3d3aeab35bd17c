"""Checkpoints of transformers' Trainer and TRL's SFTTrainer: `checkpoint-<step>/`.

They are of one training, without clients; steps take the place of rounds.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import ForeignFederation, ForeignFolder

from .adapter_folders import CONFIG, STATE, NumberedFolders, below, parent
from .openfedllm import LOSS


@dataclass(frozen=True, kw_only=True)
class TrainerCheckpoints(NumberedFolders):
    """Read the adapters of a Trainer's or SFTTrainer's checkpoints, checkpoint-<step>/."""

    name: ClassVar[str] = "trainer"
    pattern: ClassVar[str] = r"checkpoint-(\d{1,9})"

    def holds(self, folder: ForeignFolder, path: str) -> bool:
        """Take those with the trainer's state file, but not OpenFedLLM's clients'."""
        files = set(folder.files)
        return below(path, STATE) in files and below(parent(path), LOSS) not in files

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return the checkpoints as rounds."""
        federation = super().read(run)
        notes = [
            "The checkpoints are of one training: each round is a step of it, and no client "
            "sent it."
        ]
        if CONFIG in run.files:
            notes.append(
                "The adapter beside the checkpoints is left out: nothing says which step it is of."
            )
        return replace(federation, notes=(*notes, *federation.notes))
