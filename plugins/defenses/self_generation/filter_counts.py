"""What every filter saw and dropped of what a client made up in one round."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.system.files import atomic_text, read_json

FILTERS = {
    "too long": "its prompt does not fit the model's context",
    "unfinished": "nothing ends the instruction",
    "refusal": "it begins like an excuse",
    "short": "it has too few words",
    "local instruction": "it is too similar to an instruction of the client's",
    "repeated instruction": "it is too similar to another new one",
    "format": "no try gave an input and a response in the template's form",
    "overlong": "the example is longer than what is trained on",
    "local example": "the example is too similar to one of the client's",
    "repeated example": "it is the same as another new one",
    "surplus": "there are candidates enough",
    "selection": "other candidates score better",
}
"""The filters in their order, and what it means that one drops something."""

TRIES = ("too long", "no marker", "unfinished", "empty", "refusal")
"""Why a try at an input and a response fails."""


@dataclass(slots=True)
class FilterCounts:
    """Counts of one client's round; every new instruction asked for is dropped or kept."""

    asked: int = 0
    """New instructions asked for."""
    dropped: dict[str, int] = field(default_factory=dict)
    """By filter; a name that is not there dropped none."""
    failed: dict[str, int] = field(default_factory=dict)
    """Tries that failed, by reason."""
    tried: int = 0
    """Tries at an input and a response."""
    alike: int = 0
    """Kept examples whose response alone is more like a local one than an example may be."""
    highest: float = 0.0
    """The highest Rouge-L of a kept example with a local one."""

    def drop(self, name: str, count: int = 1) -> None:
        """Count what one of FILTERS dropped."""
        self.dropped[name] = self.dropped.get(name, 0) + count

    def fail(self, reason: str) -> None:
        """Count a try that failed for one of the reasons in TRIES."""
        self.failed[reason] = self.failed.get(reason, 0) + 1

    @property
    def kept_count(self) -> int:
        """What no filter dropped."""
        return self.asked - sum(self.dropped.values())

    def reached(self) -> dict[str, tuple[int, int]]:
        """Return of every filter how many reached it and how many of these it dropped."""
        remaining, counts = self.asked, {}
        for name in FILTERS:
            gone = self.dropped.get(name, 0)
            counts[name], remaining = (remaining, gone), remaining - gone
        return counts


NAME = "statistics.json"
"""The file of a turn's counts."""


def write(counts: FilterCounts, folder: Path) -> None:
    """Write the counts of a turn into its folder."""
    table = {
        "asked": counts.asked,
        "dropped": {name: counts.dropped.get(name, 0) for name in FILTERS},
        "tried": counts.tried,
        "failed": {name: counts.failed.get(name, 0) for name in TRIES},
        "kept": counts.kept_count,
        "alike": counts.alike,
        "highest": round(counts.highest, 6),
    }
    atomic_text(folder / NAME, json.dumps(table, indent=2) + "\n")


def read(folder: Path) -> FilterCounts | None:
    """Return the counts in a turn's folder; None where it has none."""
    if not (folder / NAME).is_file():
        return None
    table: Mapping[str, Any] = read_json(folder / NAME, "")
    return FilterCounts(
        asked=table["asked"],
        dropped={name: count for name, count in table["dropped"].items() if count},
        failed={name: count for name, count in table["failed"].items() if count},
        tried=table["tried"],
        alike=table["alike"],
        highest=table["highest"],
    )
