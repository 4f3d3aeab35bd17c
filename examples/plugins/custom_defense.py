"""A defence: `fedaudit simulate --profile fed_pii --set defenses=top_share`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import Defense, Update, hookimpl


@dataclass(frozen=True, kw_only=True)
class TopShare(Defense):
    """Send only the largest changes of each tensor; the rest stays as the round began."""

    name: ClassVar[str] = "top_share"
    paper: ClassVar[str] = "Shokri and Shmatikov 2015, doi:10.1145/2810103.2813687"

    share: float = 0.1
    """The share of a tensor's entries that is sent."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError("share must be above 0 and at most 1.")

    def upload(self, start: Update, trained: Update, private: Mapping[str, Update]) -> Update:
        """Return the global adapter with the largest of this client's changes."""
        sent = {}
        for name, before in start.items():
            change = (trained[name] - before).abs().flatten()
            most = max(1, round(self.share * change.numel()))
            least = change.topk(most).values[-1]
            kept = (trained[name] - before).abs() >= least
            sent[name] = trained[name].where(kept, before)
        return sent


@hookimpl
def fedaudit_defenses() -> list[type[Defense]]:
    """Return our defence."""
    return [TopShare]
