"""Who found what others did not: several attacks of one audit compared (FedPII, figure 6)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations

from fedaudit.api.records import Measurement
from fedaudit.extraction.scoring import ExtractionResult
from fedaudit.extraction.targets import ALL
from fedaudit.metrics.budget_sweep import budget_steps
from fedaudit.metrics.intervals import wilson

METRIC = "overlap"
SOURCES = ("tuned", "tuned-not-base")
MOST = 4
"""Of more attacks than these only the pairs are compared: there are too many regions."""


def rows(tallies: Sequence[ExtractionResult]) -> Iterator[Measurement]:
    """Yield what the attacks found alone and together, and each what each other did not.

    * scope.attacks A, scope.not B: of what A found, the share that B did not find; with a
      scope.budget, what the first prefixes of both find; scope.budgets is "equal" in the row of
      the largest budget that both have
    * scope.only "A, B": of what any attack found, the share that just these found

    All attacks are on the same targets and have names of their own; the order of `tallies` only
    orders the rows.
    """
    if len(tallies) < 2:
        return
    found = [tally.found() for tally in tallies]
    for source in SOURCES:
        if all(source in one for one in found):
            names = [tally.plugin for tally in tallies]
            by_attack = {n: one[source] for n, one in zip(names, found, strict=True)}
            yield from _pairs(by_attack, {"source": source, "set": ALL})
            yield from _regions(by_attack, {"source": source, "set": ALL})
            yield from _budgets(tallies, source)


def _pairs(found: Mapping[str, set[str]], scope: Mapping[str, object]) -> Iterator[Measurement]:
    for one, other in permutations(found, 2):
        own = {**scope, "attacks": one, "not": other}
        yield _share(one, len(found[one] - found[other]), len(found[one]), own)


def _regions(found: Mapping[str, set[str]], scope: Mapping[str, object]) -> Iterator[Measurement]:
    """Yield a row for every choice of attacks, as the regions of a Venn diagram."""
    names = list(found)
    everything = set().union(*found.values())
    for size in range(1, len(names) + 1) if len(names) <= MOST else ():
        for chosen in combinations(names, size):
            inside = set.intersection(*(found[name] for name in chosen))
            outside = set().union(*(found[name] for name in names if name not in chosen))
            own = {**scope, "only": ", ".join(chosen)}
            yield _share(METRIC, len(inside - outside), len(everything), own)


def _budgets(tallies: Sequence[ExtractionResult], source: str) -> Iterator[Measurement]:
    """Yield the pairs at budgets that both have, where they ask equally often."""
    for one, other in permutations(tallies, 2):
        if one.samples != other.samples:
            continue
        most = min(one.size, other.size)
        for budget in budget_steps(most):
            found = {tally.plugin: tally.found(budget)[source] for tally in (one, other)}
            scope = {"source": source, "set": ALL, "budget": budget, "samples": one.samples}
            scope |= {"budgets": "equal"} if budget == most else {}
            if found[one.plugin] or budget == most:
                yield next(_pairs(found, scope))


def _share(plugin: str, hits: int, n: int, scope: Mapping[str, object]) -> Measurement:
    estimate = wilson(hits, n) if n else None
    return Measurement(
        kind="extraction",
        plugin=plugin,
        metric=METRIC,
        value=estimate.value if estimate else None,
        low=estimate.low if estimate else None,
        high=estimate.high if estimate else None,
        n=n,
        hits=hits,
        reason="" if estimate else "nothing was found to compare",
        scope=scope,
    )
