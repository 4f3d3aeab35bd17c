"""What walks find of some strings, added up over prefixes: one piece of a plan, or all of it.

A piece is added up by itself and the pieces in the order of the plan, whoever walked them and when:
so the digits of the sums are the same of an audit that was stopped, and of its shards together.
"""

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedaudit.api.engine import PrefixProbabilities
    from fedaudit.extraction.query_plan import Query

SHOWN = 5
"""Of the prefixes that give a target most readily."""
GIVES = 1e-3
"""A prefix gives a target that a sample of it begins with so often at least."""
HEAVIEST = 4.0
"""A draw weighs what the others miss: so much at most, where a prefix gives 3 of 4 already."""

_ADDED = ("log_least", "log_most", "prefixes", "drawn", "weight")
_COUNTS = ("prefixes", "drawn")


class SearchSums:
    """Adds up over prefixes what a walk finds of some strings; all arrays are (strings,)."""

    def __init__(self, strings: int) -> None:
        import numpy as np

        self.log_least, self.log_most, self.best = (np.zeros(strings) for _ in range(3))
        self.prefixes, self.drawn = (np.zeros(strings, dtype=np.int64) for _ in range(2))
        self.weight = np.zeros(strings)
        self.likeliest: dict[int, list[tuple[float, int]]] = {}
        self.rows = self.questions = 0

    def add(self, start: int, question: "Query", found: "PrefixProbabilities", trials: int) -> None:
        """Add a question with as many copies as it stands for; `start` prefixes come before it.

        `trials` draws went into what the walk gave up.
        """
        import numpy as np

        with np.errstate(divide="ignore"):  # what is certain is never missed: ln 0
            self.log_least += question.copies * np.log1p(-found.least)
            self.log_most += question.copies * np.log1p(-found.most)
            self.weight += np.where(
                found.drawn, found.drawn * np.minimum(HEAVIEST, 1 / (1 - found.least)), 0.0
            )
        np.maximum(self.best, found.least, out=self.best)
        self.drawn += found.drawn
        self.rows += found.rows
        self.questions += 1
        chances = (found.least + found.drawn / max(1, trials)).clip(0, 1)
        for index in np.flatnonzero(chances >= GIVES).tolist():
            self.prefixes[index] += 1
            self._shown(index, [(float(chances[index]), start + 1)])

    def join(self, piece: "SearchSums") -> None:
        """Add the sums of the next piece."""
        import numpy as np

        for name in _ADDED:
            own = getattr(self, name)
            own += getattr(piece, name)
        np.maximum(self.best, piece.best, out=self.best)
        self.rows += piece.rows
        self.questions += piece.questions
        for index, likeliest in piece.likeliest.items():
            self._shown(index, likeliest)

    def packed(self) -> dict[str, Any]:
        """Return the sums as what JSON has; floats keep all their digits."""
        return {
            **{name: getattr(self, name).tolist() for name in (*_ADDED, "best")},
            "likeliest": [(i, *one) for i, some in self.likeliest.items() for one in some],
            "rows": self.rows,
            "questions": self.questions,
        }

    @classmethod
    def unpacked(cls, content: Any, strings: int) -> "SearchSums":
        """Return packed sums of some strings again; raises ValueError for what are none."""
        import numpy as np

        _check(content, strings)
        sums = cls(strings)
        for name in (*_ADDED, "best"):
            kind = np.int64 if name in _COUNTS else np.float64
            setattr(sums, name, np.array(content[name], dtype=kind))
        for index, chance, number in content["likeliest"]:
            sums.likeliest.setdefault(index, []).append((chance, number))
        sums.rows, sums.questions = content["rows"], content["questions"]
        return sums

    def _shown(self, index: int, more: Sequence[tuple[float, int]]) -> None:
        """Keep the likeliest prefixes of a string, of equals the first."""
        known = [*self.likeliest.get(index, ()), *more]
        self.likeliest[index] = sorted(known, key=lambda one: (-one[0], one[1]))[:SHOWN]


def _check(content: Any, strings: int) -> None:
    """Raise ValueError unless `content` is what `packed` makes of some strings."""
    if not isinstance(content, dict) or content.keys() != SearchSums(0).packed().keys():
        raise ValueError("sums have other parts")
    for name in (*_ADDED, "best"):
        kind = int if name in _COUNTS else float
        numbers = content[name]
        if not isinstance(numbers, list) or len(numbers) != strings:
            raise ValueError("sums are of other strings")
        if {type(one) for one in numbers} - {kind} or any(map(isnan, numbers)):
            raise ValueError("sums are no numbers")
        if name in _COUNTS and any(not 0 <= one < 2**62 for one in numbers):
            raise ValueError("sums count what cannot be counted")
    if not isinstance(content["likeliest"], list) or not all(
        _is_likely(one, strings) for one in content["likeliest"]
    ):
        raise ValueError("the likeliest prefixes are none")
    if not all(type(content[name]) is int and content[name] >= 0 for name in ("rows", "questions")):
        raise ValueError("sums are of no number of questions")


def _is_likely(one: Any, strings: int) -> bool:
    """Tell whether `one` is (string, chance, number of the prefix)."""
    if not isinstance(one, list) or [type(part) for part in one] != [int, float, int]:
        return False
    index, chance, number = one
    return bool(0 <= index < strings and 0 <= chance <= 1 and number > 0)
