"""Expected coverage and efficiency for any number of samples, from one walk of each model.

Three things are uncertain, and each has a row of its own: what other targets of their kind would
give (coverage, efficiency), what one run finds (hits_of_one_run), and what is only drawn of the
expected number (vx_pii).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fedaudit.api.records import Measurement
from fedaudit.extraction.exact.sources import ExactSources, SourceValues
from fedaudit.extraction.targets import ALL

if TYPE_CHECKING:
    from fedaudit.metrics.intervals import Estimate

PROBABILITIES = (0.5, 0.9)
"""With which (n, p)-discoverable extraction asks for a target."""
ESTIMATOR: Mapping[str, object] = {"estimator": "exact"}


def rows(exact: ExactSources) -> Iterator[Measurement]:
    """Yield the totals with the samples that were chosen, each kind's, and every number's."""
    sets = exact.sets()
    for name, sources in sets.items():
        yield from _rates(exact, sources, exact.samples, {"set": name})
        yield from _runs(exact, sources, exact.samples, {"set": name})
        yield from _counts(exact, sources, {"set": name})
    for label, targets in exact.truth.by_label().items():
        sources = SourceValues(exact, targets, control=False)
        found = _rates(exact, sources, exact.samples, {"set": ALL, "label": label})
        yield from (row for row in found if row.metric == "coverage")
    for n in exact.grid:
        for name, sources in sets.items():
            scope = {"set": name, "budget": exact.size, "samples": n}
            yield from _rates(exact, sources, n, scope)
            yield from _runs(exact, sources, n, scope)
            yield from _extractable(exact, sources, n, scope)


def _rates(
    exact: ExactSources, sources: SourceValues, n: int, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield coverage and efficiency of each source; none counts hits, which are expected ones."""
    found = {source: one.share() for source, one in sources.expected(n).items()}
    queries = exact.size * n
    share = {source: one.value for source, one in found.items()}
    for source, one in found.items():
        targets = sources.count(source)
        yield _row(
            exact,
            "coverage",
            {"source": source, **scope},
            n=targets,
            chance=None if source == "control" else share.get("control"),
            baseline=share.get("base") if source.startswith("tuned") else None,
            **_parts(one, 1.0),
        )
        yield _row(
            exact,
            "efficiency",
            {"source": source, **scope},
            n=queries,
            **_parts(one, targets / queries),
        )


def _runs(
    exact: ExactSources, sources: SourceValues, n: int, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield how many targets one run of n samples finds: of runs 95 % lie within the interval."""
    for source, one in sources.expected(n).items():
        at, (low, high) = {"source": source, **scope}, one.run
        own = {"value": one.value, "low": float(low), "high": float(high)}
        yield _row(exact, "hits_of_one_run", at, n=one.n, **own)


def _counts(
    exact: ExactSources, sources: SourceValues, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield how many targets are expected, and how many of them were not followed."""
    for source, one in sources.expected(exact.samples).items():
        at = {"source": source, **scope}
        yield _row(exact, "vx_pii", at, n=one.n, value=one.value, low=one.low, high=one.high)
    for source, chance in sources.chances(exact.samples).items():
        hidden = float((chance.most - chance.least).sum())
        drawn = float((chance.value - chance.least).sum())
        by = {"mass": hidden, "draws": min(hidden, chance.more()), "estimate": drawn}
        for how, value in by.items():
            at = {"source": source, **scope, "by": how}
            yield _row(exact, "given_up", at, n=sources.count(source), value=value)


def _extractable(
    exact: ExactSources, sources: SourceValues, n: int, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    for probability in PROBABILITIES:
        for source, (hits, one) in sources.extractable(n, probability).items():
            own = {"source": source, **scope, "probability": probability}
            targets = sources.count(source)
            yield _row(exact, "extractable", own, n=targets, hits=hits, **_parts(one, 1.0))


def _parts(one: "Estimate", unit: float) -> dict[str, float]:
    return {"value": one.value * unit, "low": one.low * unit, "high": one.high * unit}


def _row(exact: ExactSources, metric: str, scope: Mapping[str, object], **own: Any) -> Measurement:
    return Measurement(
        kind="extraction",
        plugin=exact.plugin,
        metric=metric,
        scope={**scope, **ESTIMATOR},
        **own,
    )
