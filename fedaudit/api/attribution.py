"""What attribution is: telling which clients trained on watermarked documents."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from fedaudit.api.engine import ModelEngine
from fedaudit.api.plugin import Aggregator, Plugin, Update
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.watermark import Mark, Score, Watermark

T = TypeVar("T")

Scores = Mapping[str, Score]
"""By the id of a mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """One round, as far as it was left on disk."""

    round: int
    start: Path
    """The global adapter that the round began with."""
    participants: tuple[str, ...]
    updates: Callable[[str], Update] | None = None
    """A client's plaintext update, as the aggregator defines it; None under secure aggregation."""


@dataclass(frozen=True, kw_only=True)
class ClientScore:
    """What an attributor holds against one client."""

    client: str
    flagged: bool
    z: float | None = None
    """A standard normal statistic, where the method has one."""
    p_value: float | None = None
    score: float | None = None
    """What the method goes by where that is not a z; larger is more suspicious."""
    mark: str = ""
    """The mark that it was found by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionResult:
    """Every client that took part, and what the method cannot tell."""

    clients: tuple[ClientScore, ...]
    limits: tuple[str, ...] = ()
    """Whole sentences that name the method."""
    marks: Mapping[str, Score] = field(default_factory=dict)
    """What the final global model itself shows of every mark, from a method that asked it."""


@dataclass(frozen=True, kw_only=True)
class AttributionContext:
    """What an attributor is given."""

    engine: ModelEngine
    """Of the base."""
    rounds: Sequence[RoundRecord]
    last: Path
    """The global adapter after the last round."""
    aggregator: Aggregator
    """Says what an update is, and where it leads from a round's start."""
    marks: Sequence[tuple[Mark, Watermark]]
    measure: Callable[[Sequence[Path]], list[Scores]]
    """Tests several adapters for every mark, asking them together."""
    write: Callable[[Path, Update], Path]
    """Writes the adapter that an update leads to from a start; returns its folder."""
    texts: Sequence[str] = ()
    """Texts that were never trained on, for a method that needs clean ones."""
    threshold: float = 4.0
    """The z above which a client is flagged."""
    seed: int = 0
    progress: Callable[[str], Progress] = field(default=lambda title: no_progress)
    _known: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, question: Hashable, answer: Callable[[], T]) -> T:
        """Return `answer()`, or what it was when another method of this run asked the same.

        A question begins with the name of the module that asks it.
        """
        if question not in self._known:
            self._known[question] = answer()
        known: T = self._known[question]
        return known


class Attributor(Plugin, ABC):
    """A method that names clients from what a federation's rounds left behind."""

    plaintext: ClassVar[bool] = True
    """Whether it needs single clients' updates, which secure aggregation hides."""

    @abstractmethod
    def attribute(self, context: AttributionContext) -> AttributionResult:
        """Return a suspicion of every client; a method that names no one returns none."""
