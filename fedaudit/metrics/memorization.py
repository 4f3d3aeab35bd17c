"""Who draws whose text out of a model: memorization ratios (specs: Lee et al., FL memorization)."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fedaudit.metrics.intervals import Estimate, wilson
from fedaudit.metrics.text_similarity import words

Categories = Collection[str] | None
"""The categories of hits that count; None: all."""


@dataclass(frozen=True, slots=True)
class PrefixHits:
    """One prefix, and the clients whose suffixes the model's continuation of it resembles."""

    client: str
    """Whose prefix it is."""
    hits: tuple[tuple[str, str], ...] = ()
    """(client whose suffix was found, category): "verbatim", "idea", "paraphrase_high" ..."""

    def reached(self, categories: Categories = None) -> set[str]:
        """Return the clients with a hit in one of the categories."""
        return {
            client for client, category in self.hits if categories is None or category in categories
        }


@dataclass(frozen=True, slots=True)
class Rate:
    """A memorization ratio: how many of n prefixes hit, with its 95 % interval."""

    estimate: Estimate | None
    """None if nothing was measured."""
    n: int
    hits: int
    """Prefixes with a hit. A weighted mean's estimate is not hits / n."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """All ratios of one model; `pairs[j, k]` is that of j's prefixes that drew a text of k."""

    pairs: dict[tuple[str, str], Rate]
    inter_of: dict[str, Rate]
    intra: Rate
    inter: Rate
    total: Rate
    unmeasured: tuple[str, ...]
    """Clients with documents and no prefix; the means leave them out."""


def ratios(
    prefix_hits: Iterable[PrefixHits],
    sizes: Mapping[str, int],
    categories: Categories = None,
    *,
    unsearched: Collection[tuple[str, str]] = (),
) -> Ratios:
    """Return MR of every pair of clients, intra, inter and total (Lee et al., section 3).

    `sizes` are the clients' documents: the weights |D_j| / sum |D_i| of intra and inter. Pairs in
    `unsearched`, of whose texts none was looked for, have no ratio and no part in inter. Total is
    the share of prefixes with any hit, a union: a prefix that hits two clients counts once.
    Pairs and total have Wilson intervals. inter_of[j] is a mean over clients hit by the same
    prefixes, so its bounds are the means of theirs, which are wide enough for any dependence;
    intra and inter, weighted means over independent prefixes, have MOVER intervals
    (Zou and Donner 2008). Raises ValueError for a prefix or hit of a client not in `sizes`.
    """
    rows = list(prefix_hits)
    strangers = {row.client for row in rows} | {client for row in rows for client in row.reached()}
    if strangers := strangers - sizes.keys():
        raise ValueError(f"No number of documents for {', '.join(sorted(strangers))}.")
    reached = {name: [r.reached(categories) for r in rows if r.client == name] for name in sizes}
    pairs = {
        (j, k): Rate(None, len(reached[j]), 0)
        if (j, k) in unsearched
        else _rate(sum(k in hit for hit in reached[j]), len(reached[j]))
        for j in sizes
        for k in sizes
    }
    inter_of = {j: _inter_of(j, pairs, reached[j]) for j in sizes}
    every = [hit for name in sizes for hit in reached[name]]
    return Ratios(
        pairs,
        inter_of,
        intra=_weighted_mean({j: pairs[j, j] for j in sizes}, sizes),
        inter=_weighted_mean(inter_of, sizes),
        total=_rate(sum(bool(hit) for hit in every), len(every)),
        unmeasured=tuple(sorted(j for j in sizes if sizes[j] and not reached[j])),
    )


def _rate(hits: int, n: int) -> Rate:
    return Rate(wilson(hits, n) if n else None, n, hits)


def _inter_of(name: str, pairs: Mapping[tuple[str, str], Rate], reached: list[set[str]]) -> Rate:
    """Return the mean over the other clients of MR name -> k."""
    estimates = [rate.estimate for (j, k), rate in pairs.items() if j == name != k]
    known_estimates = [estimate for estimate in estimates if estimate]
    hits = sum(bool(hit - {name}) for hit in reached)
    if not known_estimates:
        return Rate(None, len(reached), hits)
    sums = zip(*((e.value, e.low, e.high) for e in known_estimates), strict=True)
    return Rate(Estimate(*(math.fsum(s) / len(known_estimates) for s in sums)), len(reached), hits)


def _weighted_mean(rates: Mapping[str, Rate], sizes: Mapping[str, int]) -> Rate:
    """Return the mean of independent rates, weighted by size, with a MOVER interval."""
    pairs = [(sizes[j], rate.estimate) for j, rate in rates.items() if rate.estimate and sizes[j]]
    n, hits = (sum(getattr(rate, field) for rate in rates.values()) for field in ("n", "hits"))
    if not pairs:
        return Rate(None, n, hits)
    total = sum(size for size, _ in pairs)
    shares = [(size / total, estimate) for size, estimate in pairs]
    mean = math.fsum(w * e.value for w, e in shares)
    below = math.sqrt(math.fsum((w * (e.value - e.low)) ** 2 for w, e in shares))
    above = math.sqrt(math.fsum((w * (e.high - e.value)) ** 2 for w, e in shares))
    return Rate(Estimate(mean, max(0.0, mean - below), min(1.0, mean + above)), n, hits)


def has_repeats(text: str, *, length: int = 3, times: int = 10) -> bool:
    """Tell whether some sequence of `length` words occurs `times` or more (App. E.4).

    A Chinese character is a word. Such generations are left out of the ratios.
    """
    spoken = words(text)
    grams = zip(*(spoken[k:] for k in range(length)), strict=False)
    return max(Counter(grams).values(), default=0) >= times


def most_hit(hits: Iterable[tuple[str, str]], count: int) -> list[tuple[tuple[str, str], int]]:
    """Return the `count` (client, suffix) pairs hit most, with their hits; ties by pair."""
    counted = Counter(hits).items()
    return sorted(counted, key=lambda item: (-item[1], item[0]))[:count]
