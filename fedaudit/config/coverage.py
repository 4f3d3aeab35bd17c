"""What becomes of every table and figure of a profile's paper."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["measured", "not at this scale", "not covered"]

BEYOND = "beyond the paper"
"""The source of a claim that is not the paper's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageEntry:
    """A table, a figure or a passage of the paper, and what becomes of it here."""

    source: str
    """"table 3", "figure 2", or whatever else claims name as their source."""
    what: str
    """What it shows, in a few words."""
    state: State = "measured"
    """How a measurement came out is left to the studies: benchmarks/coverage.py derives it."""
    reason: str = ""

    def __post_init__(self) -> None:
        if self.state != "measured" and not self.reason:
            raise ValueError(f"{self.source} is {self.state}: say why, reason = ...")


def sources(text: str) -> list[str]:
    """Return the parts of a source: "section 5, figure 3 (a)" is of section 5 and of figure 3."""
    return [re.sub(r" \([a-z]\)$|(?<=\d)[a-z]$", "", source) for source in text.split(", ")]


@dataclass(frozen=True, slots=True)
class PaperCoverage:
    """A paper's tables and figures with the claims (source by id) and figures (sources) of it."""

    covered: Sequence[CoverageEntry]
    claims: Mapping[str, str]
    figures: Sequence[str]

    def __post_init__(self) -> None:
        """Refuse a list that contradicts the claims or figures; an empty list never does."""
        for mistake in self._mistakes() if self.covered else ():
            raise ValueError(mistake)

    def claims_of(self, entry: CoverageEntry) -> list[str]:
        """Return the claims about a source."""
        return [name for name, source in self.claims.items() if entry.source in sources(source)]

    def figures_of(self, entry: CoverageEntry) -> int:
        """Return how many published figures of a source stand beside ours."""
        return sum(entry.source in sources(source) for source in self.figures)

    def _mistakes(self) -> Iterator[str]:
        listed = Counter(entry.source for entry in self.covered)
        yield from (f"coverage has {name} twice." for name, n in listed.items() if n > 1)
        named = [(f"claim {name}", source) for name, source in self.claims.items()]
        for subject, source in [*named, *(("a figure", source) for source in self.figures)]:
            if source != BEYOND and not listed.keys() & {*sources(source)}:
                yield f"{subject} is about {source}, which coverage does not have."
        yield from _gaps(listed)
        for entry in self.covered:
            yield from self._disagreements(entry)

    def _disagreements(self, entry: CoverageEntry) -> Iterator[str]:
        something = bool(self.claims_of(entry) or self.figures_of(entry))
        if entry.state == "measured" and not something:
            yield f"{entry.source} is measured, but no claim and no figure is about it."
        if entry.state == "not covered" and something:
            yield f"{entry.source} is not covered, but a claim or a figure is about it."


def _gaps(listed: Collection[str]) -> Iterator[str]:
    """Yield tables and figures that are missing below the highest number."""
    for kind in ("table", "figure"):
        numbers = {int(n) for name in listed for n in re.findall(rf"^{kind} (\d+)$", name)}
        missing = set(range(1, max(numbers, default=0))) - numbers
        yield from (f"coverage lacks {kind} {number}." for number in sorted(missing))
