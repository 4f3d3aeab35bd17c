"""NVFlare's `llm_hf` example: `FL_global_model.pt` in the server's folder, of the last round only.

The file has `model`, `train_conf` and `meta_props`; its tensors' names begin with `model.`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import (
    ForeignAdapter,
    ForeignFederation,
    ForeignFolder,
    ForeignRound,
    Importer,
)

from .adapter_folders import CONFIG, parent

LAST, BEST = "FL_global_model.pt", "best_FL_global_model.pt"


@dataclass(frozen=True, kw_only=True)
class NVFlare(Importer):
    """Read the global model that NVFlare's server saved, FL_global_model.pt."""

    name: ClassVar[str] = "nvflare"

    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folders with such a file."""
        return sorted({parent(n) for n in folder.files if n.rpartition("/")[2] in (LAST, BEST)})

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return one round: the file does not say which it was."""
        files = [name for name in (LAST, BEST) if name in run.files]
        config = CONFIG if CONFIG in run.files else ""
        kind = "the last" if files[0] == LAST else "the best"
        notes = [
            f"{files[0]} is of {kind} round, and does not say its number: it is imported as "
            "round 1."
        ]
        if files[1:]:
            notes.append(
                f"{BEST}, which the server judged best, is left out: to import it, move "
                f"{LAST} away."
            )
        entry = ForeignRound(round=1, adapter=ForeignAdapter(weights=files[0], config=config))
        return ForeignFederation(rounds=[entry], notes=tuple(notes))
