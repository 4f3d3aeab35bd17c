"""What becomes of every table and figure of a profile's paper."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["shown", "contrary", "not at this scale", "not covered"]

STATES: Mapping[State, str] = {
    "shown": "measured here, as claims or as figures beside ours",
    "contrary": "measured here, and some of it comes out otherwise than published",
    "not at this scale": "what it needs is in the profile, but not at nano scale",
    "not covered": "nothing here measures it",
}

BEYOND = "beyond the paper"
"""The source of a claim that is not the paper's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageEntry:
    """A table, a figure or a passage of the paper, and what becomes of it here."""

    source: str
    """"table 3", "figure 2", or whatever else claims name as their source."""
    what: str
    """What it shows, in a few words."""
    state: State
    claims: tuple[str, ...] = ()
    """For a contrary entry: the claims that it contradicts."""
    reason: str = ""

    def __post_init__(self) -> None:
        if self.state in ("not at this scale", "not covered") and not self.reason:
            raise ValueError(f"{self.source} is {self.state}: say why, reason = ...")
        if (self.state == "contrary") != bool(self.claims):
            raise ValueError(
                f"{self.source}: claims = [...] names those that a contrary one fails."
            )


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
        claims = self.claims_of(entry)
        something = bool(claims or self.figures_of(entry))
        if entry.state in ("shown", "contrary") and not something:
            yield f"{entry.source} is {entry.state}, but no claim and no figure is about it."
        if entry.state == "not covered" and something:
            yield f"{entry.source} is not covered, but a claim or a figure is about it."
        for name in entry.claims:
            if name not in claims:
                yield f"{entry.source} goes against {name}, which is no claim about it."


def _gaps(listed: Collection[str]) -> Iterator[str]:
    """Yield tables and figures that are missing below the highest number."""
    for kind in ("table", "figure"):
        numbers = {int(n) for name in listed for n in re.findall(rf"^{kind} (\d+)$", name)}
        missing = set(range(1, max(numbers, default=0))) - numbers
        yield from (f"coverage lacks {kind} {number}." for number in sorted(missing))


def summary(covered: Sequence[CoverageEntry]) -> str:
    """Return how many tables and figures there are, and how many of each state."""
    counted = [entry for entry in covered if re.match(r"(table|figure) \d+$", entry.source)]
    states = Counter(entry.state for entry in counted)
    counts = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    return f"{len(counted)} tables and figures: {counts}"


def table(coverage: PaperCoverage) -> list[str]:
    """Return the lines of a Markdown table: every source, its state, and what is here about it."""
    head = ["| source | what it shows | state | here |", "| --- | --- | --- | --- |"]
    return head + [
        f"| {entry.source} | {entry.what} | {entry.state} | {_notes_cell(entry, coverage)} |"
        for entry in coverage.covered
    ]


def _notes_cell(entry: CoverageEntry, coverage: PaperCoverage) -> str:
    against = ", ".join(f"`{name}`" for name in entry.claims)
    claims = ", ".join(
        f"`{name}`" for name in coverage.claims_of(entry) if name not in entry.claims
    )
    figures = coverage.figures_of(entry)
    notes = [
        f"against it: {against}" if against else "",
        f"claims: {claims}" if claims else "",
        f"{figures} figure{'s' * (figures > 1)} beside ours" if figures else "",
        entry.reason,
    ]
    return "; ".join(note.replace("|", "\\|") for note in notes if note)
