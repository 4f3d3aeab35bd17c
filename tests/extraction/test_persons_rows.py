"""Who is exposed in the worked example, where each record is a person."""

from dataclasses import replace

import pytest
import worked

from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.report.kinds.persons import Persons

PEOPLE = [replace(one, group=f"p{n}") for n, one in enumerate(worked.VICTIM)]


def run(victim=PEOPLE, **options):
    own = {"context": 3, "samples": 2, **options}
    return registry.create("attack", "contextual", own).run(worked.case(victim=victim))


def people(result, **scope):
    rows = [r for r in result.measurements if r.kind == "persons"]
    return {r.metric: r for r in rows if dict(r.scope) == scope}


def test_who_came_out_at_what_cost():
    # Ann and Bob are of p0, Cy of p1, whom the base gives too: 4 prefixes twice are 8 queries.
    result = run()
    found = people(result, source="tuned")
    assert (found["persons"].value, found["persons"].hits, found["persons"].n) == (2, 2, 2)
    assert (found["kinds"].value, found["most_kinds"].value) == (1, 1)
    assert found["queries_per_person"].value == 4
    base = people(result, source="base")
    assert (base["persons"].hits, base["queries_per_person"].value) == (1, 8)
    beyond = people(result, source="tuned-not-base")
    assert (beyond["persons"].hits, beyond["queries_per_person"].value) == (1, 8)
    # "The claimant" comes first and stands twice: one prefix finds p0, which exposes one person.
    first = people(result, source="tuned", budget=1, samples=2)["persons"]
    assert (first.hits, first.n) == (1, 2)


def test_nobody_exposed_costs_no_number():
    result = registry.create("attack", "contextual", {"context": 3, "samples": 2}).run(
        worked.case(worked.engine(lambda *_: " nobody"), victim=PEOPLE)
    )
    found = people(result, source="tuned")
    assert (found["persons"].hits, found["persons"].low) == (0, 0)
    assert found["persons"].high > 0
    assert (found["kinds"].value, found["kinds"].reason) == (None, "no one is exposed")


def test_records_without_groups_have_no_such_rows():
    half = [PEOPLE[0], worked.VICTIM[1]]
    for victim in (worked.VICTIM, half):
        assert not [r for r in run(victim).measurements if r.kind == "persons"]


def test_expected_people_for_any_budget():
    def chance(target, prompt, string):
        return 0.5 if (prompt, string) == ("The claimant", "Ann Lee") else 0.0

    fake = FakeEngine(lambda *_: "", chance=chance, likelihood=lambda *_: -50.0)
    fake.tokenize([document.text for document in (*worked.ATTACKER, *worked.VICTIM)])
    options = {"context": 3, "samples": 2, "estimator": "exact"}
    result = registry.create("attack", "contextual", options).run(worked.case(fake, victim=PEOPLE))
    # "The claimant" stands twice: each sample is two draws.
    found = people(result, source="tuned", estimator="exact")["persons"]
    assert found.value == pytest.approx(1 - 0.5**4)
    assert found.n == 2
    ten = people(result, source="tuned", estimator="exact", budget=4, samples=10)["persons"]
    assert ten.value == pytest.approx(1 - 0.5**20)
    rows = [{name: getattr(r, name) for name in r.__slots__} for r in result.measurements]
    [table] = Persons().tables({"measurements": rows})
    assert table.columns[0] == "model"
    assert table.rows[0][table.columns.index("people [95 %]")].startswith("0.938")
