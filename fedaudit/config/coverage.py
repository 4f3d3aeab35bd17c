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
    """Of a contrary one: the claims that it goes against."""
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
    return [re.sub(r" \([a-z]\)$|(?<=\d)[a-z]$", "", part) for part in text.split(", ")]


@dataclass(frozen=True, slots=True)
class PaperCoverage:
    """A paper's tables and figures with the claims (source by id) and figures (sources) of it."""

    covered: Sequence[CoverageEntry]
    claims: Mapping[str, str]
    figures: Sequence[str]

    def __post_init__(self) -> None:
        """Refuse a list that what it is about does not agree with; no list agrees with all."""
        for wrong in self._mistakes() if self.covered else ():
            raise ValueError(wrong)

    def claims_of(self, one: CoverageEntry) -> list[str]:
        """Return the claims about a source."""
        return [name for name, source in self.claims.items() if one.source in sources(source)]

    def figures_of(self, one: CoverageEntry) -> int:
        """Return how many published figures of a source stand beside ours."""
        return sum(one.source in sources(source) for source in self.figures)

    def _mistakes(self) -> Iterator[str]:
        listed = Counter(one.source for one in self.covered)
        yield from (f"coverage has {name} twice." for name, n in listed.items() if n > 1)
        named = [(f"claim {name}", source) for name, source in self.claims.items()]
        for who, source in [*named, *(("a figure", source) for source in self.figures)]:
            if source != BEYOND and not listed.keys() & {*sources(source)}:
                yield f"{who} is about {source}, which coverage does not have."
        yield from _gaps(listed)
        for one in self.covered:
            yield from self._disagreements(one)

    def _disagreements(self, one: CoverageEntry) -> Iterator[str]:
        own = self.claims_of(one)
        something = bool(own or self.figures_of(one))
        if one.state in ("shown", "contrary") and not something:
            yield f"{one.source} is {one.state}, but no claim and no figure is about it."
        if one.state == "not covered" and something:
            yield f"{one.source} is not covered, but a claim or a figure is about it."
        for name in one.claims:
            if name not in own:
                yield f"{one.source} goes against {name}, which is no claim about it."


def _gaps(listed: Collection[str]) -> Iterator[str]:
    """Yield tables and figures that are missing below the highest number."""
    for kind in ("table", "figure"):
        numbers = {int(n) for name in listed for n in re.findall(rf"^{kind} (\d+)$", name)}
        missing = set(range(1, max(numbers, default=0))) - numbers
        yield from (f"coverage lacks {kind} {number}." for number in sorted(missing))


def summary(covered: Sequence[CoverageEntry]) -> str:
    """Return how many tables and figures there are, and how many of each state."""
    counted = [one for one in covered if re.match(r"(table|figure) \d+$", one.source)]
    states = Counter(one.state for one in counted)
    parts = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    return f"{len(counted)} tables and figures: {parts}"


def table(coverage: PaperCoverage) -> list[str]:
    """Return the lines of a Markdown table: every source, its state, and what is here about it."""
    head = ["| source | what it shows | state | here |", "| --- | --- | --- | --- |"]
    return head + [
        f"| {one.source} | {one.what} | {one.state} | {_here(one, coverage)} |"
        for one in coverage.covered
    ]


def _here(one: CoverageEntry, coverage: PaperCoverage) -> str:
    against = ", ".join(f"`{name}`" for name in one.claims)
    others = ", ".join(f"`{name}`" for name in coverage.claims_of(one) if name not in one.claims)
    figures = coverage.figures_of(one)
    parts = [
        f"against it: {against}" if against else "",
        f"claims: {others}" if others else "",
        f"{figures} figure{'s' * (figures > 1)} beside ours" if figures else "",
        one.reason,
    ]
    return "; ".join(part.replace("|", "\\|") for part in parts if part)
