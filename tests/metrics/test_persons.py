import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.persons import expected_persons, exposed, subjects

RECORDS = [
    ("case 1", ["Ann Lee", "1999", "the court"]),
    ("case 1", ["Ann Lee"]),
    ("case 2", ["Bob Low", "the court"]),
    ("case 3", ["Cy Ash"]),
]
LABELS = {"Ann Lee": "PERSON", "1999": "DATE", "the court": "ORG", "Bob Low": "PERSON",
          "Cy Ash": "PERSON"}  # fmt: skip


def test_a_string_of_several_people_is_nobodys():
    assert subjects(RECORDS) == {
        "1999": "case 1", "Ann Lee": "case 1", "Bob Low": "case 2", "Cy Ash": "case 3",
    }  # fmt: skip


def test_who_is_exposed_by_hand():
    found = exposed({"Ann Lee", "1999", "the court", "Cy Ash"}, LABELS, subjects(RECORDS))
    assert found.kinds == {"case 1": 2, "case 3": 1}
    assert (found.people, found.mean_kinds, found.most_kinds) == (3, 1.5, 2)
    nobody = exposed({"the court"}, LABELS, subjects(RECORDS))
    assert (nobody.kinds, nobody.people, nobody.mean_kinds, nobody.most_kinds) == ({}, 3, 0, 0)


def test_expected_people_by_hand():
    chances = {"Ann Lee": 0.5, "1999": 0.2, "the court": 1.0, "Bob Low": 0.1, "Cy Ash": 0.0}
    found = expected_persons(chances, subjects(RECORDS))
    assert found.value == pytest.approx(1 - 0.5 * 0.8 + 0.1)
    assert (found.low, found.high) == (pytest.approx(0.6), pytest.approx(0.8))


CHANCES = st.dictionaries(st.integers(0, 30).map(str), st.floats(0, 1), max_size=12)


@given(CHANCES, st.integers(1, 5))
def test_bounds_hold_and_nobody_counts_twice(chances, people):
    whose = {string: str(int(string) % people) for string in chances}
    found = expected_persons(chances, whose)
    assert 0 <= found.low <= found.value <= found.high <= people
    more = expected_persons({string: min(1.0, c + 0.1) for string, c in chances.items()}, whose)
    assert more.value >= found.value - 1e-9
