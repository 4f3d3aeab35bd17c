"""What walks find of some strings, added up over prefixes: one chunk of a plan, or all of it.

Each chunk is added up by itself and the chunks in the order of the plan, whoever walked them: so
the sums of a resumed audit, and of its merged shards, are the same to the last digit.
"""

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedaudit.api.engine import PrefixProbabilities
    from fedaudit.extraction.query_plan import Query

KEPT_PREFIXES = 5
"""How many of the prefixes that give a target most readily are kept."""
GIVES = 1e-3
"""A prefix gives a target where at least this share of its samples begins with it."""
HEAVIEST = 4.0
"""Cap on a draw's inverse-probability weight 1 / (1 - followed probability)."""

_ADDED = ("log_least", "log_most", "prefixes", "drawn", "weight")
_COUNTS = ("prefixes", "drawn")


class WalkSums:
    """Adds up over prefixes what a walk finds of some strings; all arrays are (strings,)."""

    def __init__(self, strings: int) -> None:
        import numpy as np

        self.log_least, self.log_most, self.best = (np.zeros(strings) for _ in range(3))
        self.prefixes, self.drawn = (np.zeros(strings, dtype=np.int64) for _ in range(2))
        self.weight = np.zeros(strings)
        self.likeliest: dict[int, list[tuple[float, int]]] = {}
        self.rows = self.queries = 0

    def add(
        self, start: int, query: "Query", probabilities: "PrefixProbabilities", trials: int
    ) -> None:
        """Add a query with as many copies as it stands for; `start` prefixes come before it.

        `trials` draws went into what the walk gave up.
        """
        import numpy as np

        with np.errstate(divide="ignore"):  # what is certain is never missed: ln 0
            self.log_least += query.copies * np.log1p(-probabilities.least)
            self.log_most += query.copies * np.log1p(-probabilities.most)
            self.weight += np.where(
                probabilities.drawn,
                probabilities.drawn * np.minimum(HEAVIEST, 1 / (1 - probabilities.least)),
                0.0,
            )
        np.maximum(self.best, probabilities.least, out=self.best)
        self.drawn += probabilities.drawn
        self.rows += probabilities.rows
        self.queries += 1
        chances = (probabilities.least + probabilities.drawn / max(1, trials)).clip(0, 1)
        for index in np.flatnonzero(chances >= GIVES).tolist():
            self.prefixes[index] += 1
            self._keep_likeliest(index, [(float(chances[index]), start + 1)])

    def join(self, chunk: "WalkSums") -> None:
        """Add the sums of the next chunk."""
        import numpy as np

        for name in _ADDED:
            total = getattr(self, name)
            total += getattr(chunk, name)
        np.maximum(self.best, chunk.best, out=self.best)
        self.rows += chunk.rows
        self.queries += chunk.queries
        for index, likeliest in chunk.likeliest.items():
            self._keep_likeliest(index, likeliest)

    def pack(self) -> dict[str, Any]:
        """Return the sums as JSON values; floats keep all their digits."""
        return {
            **{name: getattr(self, name).tolist() for name in (*_ADDED, "best")},
            "likeliest": [(i, *pair) for i, pairs in self.likeliest.items() for pair in pairs],
            "rows": self.rows,
            "questions": self.queries,
        }

    @classmethod
    def unpack(cls, content: Any, strings: int) -> "WalkSums":
        """Return the sums of some strings from their packed form; ValueError if malformed."""
        import numpy as np

        _check(content, strings)
        sums = cls(strings)
        for name in (*_ADDED, "best"):
            kind = np.int64 if name in _COUNTS else np.float64
            setattr(sums, name, np.array(content[name], dtype=kind))
        for index, chance, number in content["likeliest"]:
            sums.likeliest.setdefault(index, []).append((chance, number))
        sums.rows, sums.queries = content["rows"], content["questions"]
        return sums

    def _keep_likeliest(self, index: int, pairs: Sequence[tuple[float, int]]) -> None:
        """Keep the likeliest prefixes of a string, of equals the first."""
        candidates = [*self.likeliest.get(index, ()), *pairs]
        self.likeliest[index] = sorted(candidates, key=lambda pair: (-pair[0], pair[1]))[
            :KEPT_PREFIXES
        ]


def _check(content: Any, strings: int) -> None:
    """Raise ValueError unless `content` is what `pack` makes of some strings."""
    if not isinstance(content, dict) or content.keys() != WalkSums(0).pack().keys():
        raise ValueError("sums have other parts")
    for name in (*_ADDED, "best"):
        kind = int if name in _COUNTS else float
        numbers = content[name]
        if not isinstance(numbers, list) or len(numbers) != strings:
            raise ValueError("sums are of other strings")
        if {type(x) for x in numbers} - {kind} or any(map(isnan, numbers)):
            raise ValueError("sums are no numbers")
        if name in _COUNTS and any(not 0 <= n < 2**62 for n in numbers):
            raise ValueError("sums count what cannot be counted")
    if not isinstance(content["likeliest"], list) or not all(
        _is_likely(entry, strings) for entry in content["likeliest"]
    ):
        raise ValueError("the likeliest prefixes are none")
    if not all(type(content[name]) is int and content[name] >= 0 for name in ("rows", "questions")):
        raise ValueError("sums are of no number of questions")


def _is_likely(entry: Any, strings: int) -> bool:
    """Tell whether `entry` is (string, chance, number of the prefix)."""
    if not isinstance(entry, list) or [type(field) for field in entry] != [int, float, int]:
        return False
    index, chance, number = entry
    return bool(0 <= index < strings and 0 <= chance <= 1 and number > 0)
