"""What the filters dropped, as rows of a report."""

import pytest
from fedaudit_plugins.defenses.self_generation.defense import filter_caveats, rows
from fedaudit_plugins.defenses.self_generation.filter_counts import FilterCounts

from fedaudit.metrics.intervals import wilson

GOOD = FilterCounts(asked=10, dropped={"short": 2, "selection": 4}, alike=1, highest=0.5)
POOR = FilterCounts(asked=30, dropped={"short": 6, "format": 21, "surplus": 1}, highest=0.25)
TURNS = {(1, "c0"): GOOD, (1, "c1"): POOR, (2, "c0"): GOOD}


def test_shares_are_of_what_reached_a_filter_in_all_rounds_and_in_each():
    found = {
        (row.scope.get("round"), row.scope["filter"]): row
        for row in rows("pit", TURNS)
        if row.metric == "dropped"
    }
    whole = found[None, "short"]
    assert (whole.hits, whole.n, whole.value) == (2 + 6 + 2, 10 + 30 + 10, 0.2)
    assert (whole.low, whole.high) == (wilson(10, 50).low, wilson(10, 50).high)
    # of 8, 24 and 8 that are long enough, 21 have no form
    assert (found[None, "format"].hits, found[None, "format"].n) == (21, 40)
    assert (found[1, "selection"].hits, found[1, "selection"].n) == (4, 8 + 2)
    assert found[2, "selection"].value == pytest.approx(0.5)
    assert {row.kind for row in found.values()} == {"defense"}


def test_a_filter_that_nothing_reached_has_no_row():
    found = rows("pit", {(1, "c0"): FilterCounts(asked=5, dropped={"refusal": 5})})
    filters = [row.scope["filter"] for row in found if row.metric == "dropped"]
    assert filters == ["too long", "unfinished", "refusal"] * 2
    assert rows("pit", {}) == []


def test_kept_is_of_the_client_that_kept_fewest():
    first, second = (row for row in rows("pit", TURNS) if row.metric == "kept")
    assert (first.value, second.value) == (2, 4)
    assert first.scope == {
        "round": 1,
        "client": "c1",
        "clients": 2,
        "mean": 3.0,
        "highest": 0.5,
        "alike": 1,
    }


def test_where_too_few_are_kept_the_report_says_why():
    assert filter_caveats("pit", TURNS, 2) == []
    [told] = filter_caveats("pit", TURNS, 3)
    assert told.startswith("pit: in 1 of 3 turns (rounds 1) a client kept fewer than 3 examples")
    assert "of 30 new instructions asked for there, 21 were lost because no try gave" in told


def test_rounds_are_listed_as_runs():
    turns = {(number, "c0"): POOR for number in (1, 2, 4, 5, 6, 9)}
    assert "(rounds 1, 2, 4-6, 9)" in filter_caveats("pit", turns, 16)[0]
