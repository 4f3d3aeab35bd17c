"""Expected coverage and efficiency for any number of samples, from one walk of each model.

Three kinds of uncertainty have intervals in different rows: that of other targets of the same kind
(coverage, efficiency), that of a single run (hits_of_one_run), and that of the walk's draws, from
which a part of the expected number is estimated (vx_pii).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fedaudit.api.records import Measurement
from fedaudit.api.target_sets import ALL
from fedaudit.extraction.exact.sources import ExactSources, SourceValues
from fedaudit.metrics.intervals import Estimate

PROBABILITIES = (0.5, 0.9)
"""The values of p for (n, p)-discoverable extraction."""
ESTIMATOR: Mapping[str, object] = {"estimator": "exact"}


def rows(exact: ExactSources) -> Iterator[Measurement]:
    """Yield the rows of the audit's number of samples, in total and by label, and of the grid."""
    sets = exact.sets()
    for name, sources in sets.items():
        yield from _rates(exact, sources, exact.samples, {"set": name})
        yield from _runs(exact, sources, exact.samples, {"set": name})
        yield from _counts(exact, sources, {"set": name})
    for label, targets in exact.target_set.by_label().items():
        sources = SourceValues(exact, targets, control=False)
        rates = _rates(exact, sources, exact.samples, {"set": ALL, "label": label})
        yield from (row for row in rates if row.metric == "coverage")
    for n in exact.grid:
        for name, sources in sets.items():
            scope = {"set": name, "budget": exact.size, "samples": n}
            yield from _rates(exact, sources, n, scope)
            yield from _runs(exact, sources, n, scope)
            yield from _extractable(exact, sources, n, scope)


def _rates(
    exact: ExactSources, sources: SourceValues, n: int, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield the expected coverage and efficiency of each source, without a number of hits."""
    estimates = {source: coverage.share() for source, coverage in sources.expected(n).items()}
    queries = exact.size * n
    share = {source: estimate.value for source, estimate in estimates.items()}
    for source, estimate in estimates.items():
        targets = sources.count(source)
        yield _row(
            exact,
            "coverage",
            {"source": source, **scope},
            n=targets,
            chance=None if source == "control" else share.get("control"),
            baseline=share.get("base") if source.startswith("tuned") else None,
            **_scaled_fields(estimate, 1.0),
        )
        yield _row(
            exact,
            "efficiency",
            {"source": source, **scope},
            n=queries,
            **_scaled_fields(estimate, targets / queries),
        )


def _runs(
    exact: ExactSources, sources: SourceValues, n: int, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield the number of targets that one run of n samples finds, with a 95 % range of runs."""
    for source, coverage in sources.expected(n).items():
        row_scope, (low, high) = {"source": source, **scope}, coverage.run
        values = {"value": coverage.value, "low": float(low), "high": float(high)}
        yield _row(exact, "hits_of_one_run", row_scope, n=coverage.n, **values)


def _counts(
    exact: ExactSources, sources: SourceValues, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield the expected number of targets, and how much branches given up may add to it."""
    for source, coverage in sources.expected(exact.samples).items():
        row_scope = {"source": source, **scope}
        yield _row(
            exact,
            "vx_pii",
            row_scope,
            n=coverage.n,
            value=coverage.value,
            low=coverage.low,
            high=coverage.high,
        )
    for source, chance in sources.chances(exact.samples).items():
        hidden = float((chance.most - chance.least).sum())
        drawn_hits = float((chance.value - chance.least).sum())
        amounts = {
            "mass": hidden,
            "draws": min(hidden, chance.unfollowed_bound()),
            "estimate": drawn_hits,
        }
        for method, value in amounts.items():
            row_scope = {"source": source, **scope, "by": method}
            yield _row(exact, "given_up", row_scope, n=sources.count(source), value=value)


def _extractable(
    exact: ExactSources, sources: SourceValues, n: int, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    for probability in PROBABILITIES:
        for source, (hits, estimate) in sources.extractable(n, probability).items():
            row_scope = {"source": source, **scope, "probability": probability}
            targets = sources.count(source)
            yield _row(
                exact,
                "extractable",
                row_scope,
                n=targets,
                hits=hits,
                **_scaled_fields(estimate, 1.0),
            )


def _scaled_fields(estimate: Estimate, unit: float) -> dict[str, float]:
    return {
        "value": estimate.value * unit,
        "low": estimate.low * unit,
        "high": estimate.high * unit,
    }


def _row(
    exact: ExactSources, metric: str, scope: Mapping[str, object], **values: Any
) -> Measurement:
    return Measurement(
        kind="extraction",
        plugin=exact.plugin,
        metric=metric,
        scope={**scope, **ESTIMATOR},
        **values,
    )
