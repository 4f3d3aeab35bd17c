"""Comparison of an audit's attacks: what each found that others did not (FedPII, figure 6)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations

from fedaudit.api.records import Measurement
from fedaudit.api.target_sets import ALL
from fedaudit.extraction.scoring import ExtractionResult
from fedaudit.metrics.budget_sweep import budget_steps

METRIC = "overlap"
SOURCES = ("tuned", "tuned-not-base")
MAX_REGION_ATTACKS = 4
"""With more attacks than this, there are too many regions: only pairs are compared."""


def rows(extractions: Sequence[ExtractionResult]) -> Iterator[Measurement]:
    """Yield what the attacks found alone and together, and what each found that another did not.

    * scope.attacks A, scope.not B: of what A found, the share that B did not find; with a
      scope.budget, both are limited to that many of their first prefixes; scope.budgets is
      "equal" in the row of the largest budget that both have
    * scope.only "A, B": of what any attack found, the share that exactly these attacks found

    All attacks must have the same targets and distinct names; the order of `extractions` affects
    only the order of the rows.
    """
    if len(extractions) < 2:
        return
    hits = [extraction.strings_by_source() for extraction in extractions]
    for source in SOURCES:
        if all(source in by_source for by_source in hits):
            names = [extraction.plugin for extraction in extractions]
            by_attack = {n: by_source[source] for n, by_source in zip(names, hits, strict=True)}
            yield from _pairs(by_attack, {"source": source, "set": ALL})
            yield from _regions(by_attack, {"source": source, "set": ALL})
            yield from _budgets(extractions, source)


def _pairs(by_attack: Mapping[str, set[str]], scope: Mapping[str, object]) -> Iterator[Measurement]:
    for first, second in permutations(by_attack, 2):
        pair_scope = {**scope, "attacks": first, "not": second}
        yield _share(
            first, len(by_attack[first] - by_attack[second]), len(by_attack[first]), pair_scope
        )


def _regions(
    by_attack: Mapping[str, set[str]], scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield a row for every subset of the attacks: the regions of a Venn diagram."""
    names = list(by_attack)
    everything = set().union(*by_attack.values())
    for size in range(1, len(names) + 1) if len(names) <= MAX_REGION_ATTACKS else ():
        for chosen in combinations(names, size):
            inside = set.intersection(*(by_attack[name] for name in chosen))
            outside = set().union(*(by_attack[name] for name in names if name not in chosen))
            region_scope = {**scope, "only": ", ".join(chosen)}
            yield _share(METRIC, len(inside - outside), len(everything), region_scope)


def _budgets(extractions: Sequence[ExtractionResult], source: str) -> Iterator[Measurement]:
    """Yield the pairs at each budget that both have, if both take as many samples per prefix."""
    for first, second in permutations(extractions, 2):
        if first.samples != second.samples:
            continue
        most = min(first.size, second.size)
        for budget in budget_steps(most):
            by_attack = {
                extraction.plugin: extraction.strings_by_source(budget)[source]
                for extraction in (first, second)
            }
            scope = {"source": source, "set": ALL, "budget": budget, "samples": first.samples}
            scope |= {"budgets": "equal"} if budget == most else {}
            if by_attack[first.plugin] or budget == most:
                yield next(_pairs(by_attack, scope))


def _share(plugin: str, hits: int, n: int, scope: Mapping[str, object]) -> Measurement:
    return Measurement.rate(
        hits,
        n,
        kind="extraction",
        plugin=plugin,
        metric=METRIC,
        reason="nothing was found to compare",
        scope=scope,
    )
