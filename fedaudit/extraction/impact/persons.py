"""The people whom an attack exposes: their number, the kinds of data, and the queries per person.

A person is a group of records (a case file, a patient). Records without groups do not say whose
they are, so there are no such rows for them.
"""

from collections.abc import Iterator, Mapping

from fedaudit.api.estimates import Estimate, wilson
from fedaudit.api.records import Measurement
from fedaudit.api.target_sets import ALL
from fedaudit.extraction.exact.sources import ExactSources
from fedaudit.extraction.scoring import ExtractionResult
from fedaudit.metrics.budget_sweep import budget_steps
from fedaudit.metrics.persons import ExposedPersons, expected_persons, exposed

KIND = "persons"
NOBODY = "no one is exposed"
SOURCES = ("tuned", "base", "tuned-not-base")


def sampled_rows(extraction: ExtractionResult) -> Iterator[Measurement]:
    """Yield the number of people that a sampling audit exposed, in total and by budget."""
    if not (subjects := extraction.target_set.subjects):
        return
    labels, queries = extraction.target_set.labels, extraction.size * extraction.samples
    hits = extraction.strings_by_source()
    for source in (name for name in SOURCES if name in hits):
        persons = exposed(hits[source], labels, subjects)
        if persons.people:
            yield from _rows(extraction.plugin, persons, queries, {"source": source})
    for budget in budget_steps(extraction.size):
        budget_persons = exposed(extraction.strings_by_source(budget)["tuned"], labels, subjects)
        if budget_persons.people:
            scope = {"source": "tuned", "budget": budget, "samples": extraction.samples}
            yield _persons(extraction.plugin, budget_persons, scope)


def expected_rows(exact: ExactSources) -> Iterator[Measurement]:
    """Yield the expected number of exposed people, for each number of samples."""
    if not (subjects := exact.target_set.subjects):
        return
    people = len({subjects[string] for string in exact.target_set.labels if string in subjects})
    for n in dict.fromkeys((exact.samples, *exact.grid)) if people else ():
        for source, chances in exact.sets()[ALL].by_string(n).items():
            if source == "control":
                continue
            estimate = expected_persons(chances, subjects)
            scope: dict[str, object] = {"source": source, "estimator": "exact"}
            if n != exact.samples:
                scope |= {"budget": exact.size, "samples": n}
            yield Measurement.mean(
                estimate, people, kind=KIND, plugin=exact.plugin, metric="persons", scope=scope
            )


def _rows(
    plugin: str, persons: ExposedPersons, queries: int, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    yield _persons(plugin, persons, scope)
    count = len(persons.kinds)
    costs = {
        "kinds": persons.mean_kinds,
        "most_kinds": float(persons.most_kinds),
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
            scope=scope,
        )


def _persons(plugin: str, persons: ExposedPersons, scope: Mapping[str, object]) -> Measurement:
    """Return the number of exposed people, with Wilson's interval for the share scaled to it."""
    share, n = wilson(len(persons.kinds), persons.people), persons.people
    count = Estimate(float(len(persons.kinds)), share.low * n, share.high * n)
    return Measurement.mean(
        count, n, hits=len(persons.kinds), kind=KIND, plugin=plugin, metric="persons", scope=scope
    )
