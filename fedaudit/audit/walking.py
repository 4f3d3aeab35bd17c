"""Walking from every prefix of a plan, and adding up what one model gives of each string."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedaudit.audit.asking import Manner
from fedaudit.audit.plan import Plan, Question, chunks
from fedaudit.interfaces import Case, Progress
from fedaudit.records import Target

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fedaudit.interfaces import Chances

PIECE = 2**21
"""Probabilities that are held at once."""
DRAWS = 8
"""For each sample of a prefix, so many draws go into what a walk gives up."""
MOST_DRAWS = 1000
"""Of a prefix: more would cost as much as sampling does."""
SHOWN = 5
"""Of the prefixes that give a target most readily."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What the walk of one model found of each string, over all prefixes: (strings,) each."""

    strings: tuple[str, ...]
    log_least: "npt.NDArray[np.float64]"
    """ln of the probability that one sample of every prefix misses it: by what was followed."""
    log_most: "npt.NDArray[np.float64]"
    """The same if all that was given up had spelt it."""
    best: "npt.NDArray[np.float64]"
    """The highest probability that any prefix gives it."""
    prefixes: "npt.NDArray[np.int64]"
    """How many different prefixes give it with at least the threshold."""
    drawn: "npt.NDArray[np.int64]"
    draws: int
    """How many draws of each prefix went into what was given up; `drawn` of all completed it."""
    likeliest: dict[int, list[tuple[float, int]]]
    """By string: probability and number of those prefixes, the likeliest first, a few."""
    rows: float
    """How many rows the model read for a prefix, in the mean."""


def walked(
    case: Case,
    target: Target,
    plan: Plan,
    strings: Sequence[str],
    manner: Manner,
    threshold: float,
) -> Walked:
    """Return what one model gives of `strings`, over all prefixes of a plan."""
    sums = Sums(strings, min(manner.samples * DRAWS, MOST_DRAWS), threshold)
    told = case.progress(f"walking {target.name}")
    for piece in chunks(plan, max(1, PIECE // max(1, len(strings)))):
        found = case.engine.begins_with(
            target,
            [question.prompt for _, question in piece],
            strings,
            new=manner.new_tokens,
            decoding=manner.decoding,
            threshold=threshold,
            trials=[sums.draws * question.copies for _, question in piece],
            seed=case.seed,
            progress=_from(told, piece, plan.size),
        )
        for (start, question), chances in zip(piece, found, strict=True):
            sums.add(start, question, chances)
    told(plan.size, plan.size)
    return sums.walked()


def _from(told: Progress, piece: Sequence[tuple[int, Question]], total: int) -> Progress:
    start = piece[0][0]
    size = sum(question.copies for _, question in piece)

    def progress(done: int, of: int) -> None:
        told(start + size * done // max(of, 1), total)

    return progress


class Sums:
    """Adds up over prefixes what a walk finds of some strings."""

    def __init__(self, strings: Sequence[str], draws: int, threshold: float) -> None:
        import numpy as np

        self.strings, self.draws, self.threshold = tuple(strings), draws, threshold
        self._least, self._most, self._best = (np.zeros(len(strings)) for _ in range(3))
        self._prefixes, self._drawn = (np.zeros(len(strings), dtype=np.int64) for _ in range(2))
        self._likeliest: dict[int, list[tuple[float, int]]] = {}
        self._rows: list[int] = []

    def add(self, start: int, question: Question, found: "Chances") -> None:
        """Add a question with as many copies as it stands for; `start` is its first's number."""
        import numpy as np

        with np.errstate(divide="ignore"):  # what is certain is never missed: ln 0
            self._least += question.copies * np.log1p(-found.least)
            self._most += question.copies * np.log1p(-found.most)
        np.maximum(self._best, found.least, out=self._best)
        self._drawn += found.drawn
        self._rows.append(found.rows)
        for index in np.flatnonzero(found.least >= self.threshold).tolist():
            self._prefixes[index] += 1
            known = [*self._likeliest.get(index, []), (float(found.least[index]), start + 1)]
            known.sort(key=lambda one: (-one[0], one[1]))
            self._likeliest[index] = known[:SHOWN]

    def walked(self) -> Walked:
        """Return what was added up."""
        return Walked(
            strings=self.strings,
            log_least=self._least,
            log_most=self._most,
            best=self._best,
            prefixes=self._prefixes,
            drawn=self._drawn,
            draws=self.draws,
            likeliest=self._likeliest,
            rows=sum(self._rows) / max(1, len(self._rows)),
        )
