"""Counts of filters add up."""

from fedaudit_plugins.defenses.self_generation.filter_counts import (
    FILTERS,
    FilterCounts,
    read,
    write,
)


def test_every_filter_sees_what_those_before_it_left(tmp_path):
    counts = FilterCounts(asked=10, tried=9)
    counts.drop("short", 3)
    counts.drop("format")
    counts.drop("selection", 2)
    counts.fail("no marker")
    reached = counts.reached()
    assert list(reached) == list(FILTERS)
    assert reached["refusal"] == (10, 0)
    assert reached["short"] == (10, 3)
    assert reached["format"] == (7, 1)
    assert reached["local example"] == (6, 0)
    assert reached["selection"] == (6, 2)
    assert counts.kept_count == 4
    write(counts, tmp_path)
    assert read(tmp_path) == counts
    assert read(tmp_path / "none") is None
