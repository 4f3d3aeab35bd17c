"""Sums of a walk's results over prefixes, for one chunk of a query plan or for all of it.

Each chunk is summed by itself, and chunks are added in the order of the plan, whichever shard
walked them. So the sums of a resumed audit, and of merged shards, are the same to the last digit.
"""

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedaudit.api.engine import PrefixProbabilities
    from fedaudit.extraction.query_plan import Query

KEPT_PREFIXES = 5
"""The number of prefixes kept per target: those after which the target is likeliest."""
GIVES = 1e-3
"""The least probability of a target after a prefix at which the prefix counts as giving it."""
HEAVIEST = 4.0
"""Cap on a draw's inverse-probability weight 1 / (1 - followed probability)."""

_ADDED = ("log_least", "log_most", "prefixes", "drawn", "weight")
_COUNTS = ("prefixes", "drawn")


class WalkSums:
    """Sums over prefixes of what a walk finds of some strings; all arrays are (strings,)."""

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
        """Add the result for a query, which stands for `query.copies` prefixes of the plan.

        `start` prefixes of the plan precede it. `trials` is the number of draws that sampled the
        mass that the walk gave up.
        """
        import numpy as np

        with np.errstate(divide="ignore"):  # ln 0 for strings that are certain, so never missed
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
        """Return the sums as JSON values; floats keep all digits."""
        return {
            **{name: getattr(self, name).tolist() for name in (*_ADDED, "best")},
            "likeliest": [(i, *pair) for i, pairs in self.likeliest.items() for pair in pairs],
            "rows": self.rows,
            "questions": self.queries,
        }

    @classmethod
    def unpack(cls, content: Any, strings: int) -> "WalkSums":
        """Return sums from their packed form; raises ValueError if it is malformed."""
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
        """Keep the likeliest prefixes of a string; among equals, the first."""
        candidates = [*self.likeliest.get(index, ()), *pairs]
        self.likeliest[index] = sorted(candidates, key=lambda pair: (-pair[0], pair[1]))[
            :KEPT_PREFIXES
        ]


def _check(content: Any, strings: int) -> None:
    """Raise ValueError unless `content` has the form of `pack` for `strings` strings."""
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
    """Tell whether `entry` is (string index, probability, number of the prefix)."""
    if not isinstance(entry, list) or [type(field) for field in entry] != [int, float, int]:
        return False
    index, chance, number = entry
    return bool(0 <= index < strings and 0 <= chance <= 1 and number > 0)
