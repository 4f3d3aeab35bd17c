"""Expected coverage and efficiency for any number of samples, from one walk of each model."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fedaudit.audit.sources import Exact, Sources
from fedaudit.audit.truth import ALL
from fedaudit.records import Measurement

if TYPE_CHECKING:
    from fedaudit.metrics.intervals import Estimate

PROBABILITIES = (0.5, 0.9)
"""With which (n, p)-discoverable extraction asks for a target."""
ESTIMATOR: Mapping[str, object] = {"estimator": "exact"}


def rows(exact: Exact) -> Iterator[Measurement]:
    """Yield the totals with the samples that were chosen, each kind's, and every number's."""
    sets = exact.sets()
    for name, sources in sets.items():
        yield from _rates(exact, sources, exact.samples, {"set": name})
        yield from _counts(exact, sources, {"set": name})
    for label, targets in exact.truth.by_label().items():
        sources = Sources(exact, targets, control=False)
        found = _rates(exact, sources, exact.samples, {"set": ALL, "label": label})
        yield from (row for row in found if row.metric == "coverage")
    for n in exact.grid:
        for name, sources in sets.items():
            scope = {"set": name, "budget": exact.size, "samples": n}
            yield from _rates(exact, sources, n, scope)
            yield from _extractable(exact, sources, n, scope)


def _rates(
    exact: Exact, sources: Sources, n: int, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield coverage and efficiency of each source; none counts hits, which are expected ones."""
    found, queries = sources.coverage(n), exact.size * n
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


def _counts(exact: Exact, sources: Sources, scope: Mapping[str, object]) -> Iterator[Measurement]:
    """Yield how many targets are expected, and how many more what was given up may hide."""
    for source, one in sources.coverage(exact.samples).items():
        targets = sources.count(source)
        at, value = {"source": source, **scope}, one.value * targets
        yield _row(exact, "vx_pii", at, n=targets, value=value)
    for source, chance in sources.chances(exact.samples).items():
        hidden = float((chance.most - chance.least).sum())
        by = {"mass": hidden, "draws": min(hidden, chance.more())}
        for how, value in by.items():
            at = {"source": source, **scope, "by": how}
            yield _row(exact, "given_up", at, n=sources.count(source), value=value)


def _extractable(
    exact: Exact, sources: Sources, n: int, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    for probability in PROBABILITIES:
        for source, (hits, one) in sources.extractable(n, probability).items():
            own = {"source": source, **scope, "probability": probability}
            targets = sources.count(source)
            yield _row(exact, "extractable", own, n=targets, hits=hits, **_parts(one, 1.0))


def _parts(one: "Estimate", unit: float) -> dict[str, float]:
    return {"value": one.value * unit, "low": one.low * unit, "high": one.high * unit}


def _row(exact: Exact, metric: str, scope: Mapping[str, object], **own: Any) -> Measurement:
    return Measurement(
        kind="extraction",
        plugin=exact.plugin,
        metric=metric,
        scope={**scope, **ESTIMATOR},
        **own,
    )
