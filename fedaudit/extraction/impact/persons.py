"""People behind the strings: how many are exposed, by how many kinds of data, at what cost.

A person is a group of records (a case file, a patient). Records without groups say of nobody whose
they are, and have no such rows.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fedaudit.api.records import Measurement
from fedaudit.metrics.budget_sweep import budget_steps
from fedaudit.metrics.persons import ExposedPersons, expected_persons, exposed

if TYPE_CHECKING:
    from fedaudit.extraction.exact.sources import ExactSources
    from fedaudit.extraction.scoring import ExtractionResult

KIND = "persons"
NOBODY = "nobody is exposed"
SOURCES = ("tuned", "base", "tuned-not-base")


def sampled_rows(tally: "ExtractionResult") -> Iterator[Measurement]:
    """Yield who was exposed by a sampling audit, and by its first prefixes alone."""
    if not (whose := tally.truth.subjects):
        return
    labels, queries = tally.truth.labels, tally.size * tally.samples
    found = tally.found()
    for source in (one for one in SOURCES if one in found):
        told = exposed(found[source], labels, whose)
        if told.people:
            yield from _rows(tally.plugin, told, queries, {"source": source})
    for budget in budget_steps(tally.size):
        some = exposed(tally.found(budget)["tuned"], labels, whose)
        if some.people:
            at = {"source": "tuned", "budget": budget, "samples": tally.samples}
            yield _persons(tally.plugin, some, at)


def expected_rows(exact: "ExactSources") -> Iterator[Measurement]:
    """Yield how many people are expected to be exposed, by any number of samples."""
    if not (whose := exact.truth.subjects):
        return
    people = len({whose[string] for string in exact.truth.labels if string in whose})
    for n in dict.fromkeys((exact.samples, *exact.grid)) if people else ():
        for source, chances in _chances(exact, n).items():
            found = expected_persons(chances, whose)
            at: dict[str, object] = {"source": source, "estimator": "exact"}
            if n != exact.samples:
                at |= {"budget": exact.size, "samples": n}
            yield Measurement.mean(
                found, people, kind=KIND, plugin=exact.plugin, metric="persons", scope=at
            )


def _chances(exact: "ExactSources", n: int) -> dict[str, dict[str, float]]:
    sources = exact.sets()["all"]
    found = sources.chances(n)
    return {
        name: dict(zip(sources.strings(name), found[name].value.tolist(), strict=True))
        for name in ("tuned", "base")
        if name in found
    }


def _rows(
    plugin: str, told: ExposedPersons, queries: int, at: Mapping[str, object]
) -> Iterator[Measurement]:
    yield _persons(plugin, told, at)
    count = len(told.kinds)
    costs = {
        "kinds": told.mean_kinds,
        "most_kinds": float(told.most_kinds),
        "queries_per_person": queries / count if count else 0.0,
    }
    for metric, value in costs.items():
        yield Measurement(
            kind=KIND,
            plugin=plugin,
            metric=metric,
            value=value if count else None,
            n=count,
            reason="" if count else NOBODY,
            scope=at,
        )


def _persons(plugin: str, told: ExposedPersons, at: Mapping[str, object]) -> Measurement:
    """Return how many of the people are exposed, as a number with Wilson's interval."""
    from fedaudit.api.estimates import Estimate, wilson

    share, n = wilson(len(told.kinds), told.people), told.people
    count = Estimate(float(len(told.kinds)), share.low * n, share.high * n)
    return Measurement.mean(
        count, n, hits=len(told.kinds), kind=KIND, plugin=plugin, metric="persons", scope=at
    )
