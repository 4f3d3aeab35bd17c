"""What an attack will ask of a model, counted before it runs."""

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Cost:
    """The requests to the tuned model; the base gets the same requests."""

    continuations: int = 0
    tokens: int = 0
    """The maximum number of tokens in all continuations together."""
    scored: int = 0
    """Texts whose probability is computed."""
    unknown: tuple[str, ...] = ()
    """Attacks whose cost is not known before they run."""
    estimated: bool = False
    """Whether the cost is estimated from what a detector finds in a sample of the documents."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.continuations + other.continuations,
            self.tokens + other.tokens,
            self.scored + other.scored,
            (*self.unknown, *other.unknown),
            self.estimated or other.estimated,
        )

    def __rmul__(self, times: int) -> "Cost":
        return replace(
            self,
            continuations=times * self.continuations,
            tokens=times * self.tokens,
            scored=times * self.scored,
        )

    @property
    def answer_bytes(self) -> int:
        """Approximate bytes on disk of the answers: of each one's key, and of its tokens."""
        return 100 * (self.continuations + self.scored) + 5 * self.tokens

    @property
    def is_counted(self) -> bool:
        """Whether any of it is known, or there is nothing to ask."""
        return bool(self.continuations or self.scored or not self.unknown)

    def describe(self) -> str:
        """Return the cost in words."""
        quantities = [
            f"{self.continuations:,} continuations of {self.tokens:,} tokens at most",
            f"{self.scored:,} texts scored",
        ]
        phrases = [
            phrase
            for phrase, n in zip(quantities, (self.continuations, self.scored), strict=True)
            if n
        ]
        known = ("roughly " if self.estimated and phrases else "") + ", ".join(phrases)
        if not self.unknown:
            return known or "nothing"
        verb = "asks" if len(self.unknown) == 1 else "ask"
        unknown = f"what {', '.join(self.unknown)} {verb} is not known before"
        return f"{known}; {unknown}" if known else unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of documents and spans from which an attack's cost follows."""

    spans: Callable[[], tuple[int, bool]]
    """Counts the PII spans that are asked about; true if estimated from a sample."""
    tried: int
    """Documents that are continued or scored."""
    held_out: int
    """Held-out records that they are compared with."""
    has_victim: bool
    rounds: int = 0
    """Earlier rounds' models at hand, if the documents' client did not train in all rounds."""
