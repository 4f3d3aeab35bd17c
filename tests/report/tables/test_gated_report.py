"""What reports show of attacks under keys."""

import re

import pytest
from example_report import COSTS, HOSTILE, HOSTILE_KINDS, coverage, hostile
from gated_report import (
    KEYS,
    attacked,
    inferred,
    picked,
    printed,
    report,
    table,
    titles,
)

from fedaudit.report.charts.beside_chance import beside_chance
from fedaudit.report.tables import overview
from fedaudit.report.text.attacks import ONLY_RIGHT, attack_summaries

# keys


def test_keys_stand_below_each_other_in_the_order_of_reading():
    title = "Inference: ranking, 50 candidates"
    assert table(list(reversed(inferred())), title) == table(inferred(), title)


def test_each_number_of_candidates_has_its_table():
    rows = [*inferred(), *picked(7, candidates=500, client="c0", key="none")]
    assert "Inference: ranking, 500 candidates" in titles(rows)
    assert len(table(rows, "Inference: ranking, 50 candidates").rows) == 4


def test_several_adapters_are_told_apart():
    rows = [
        *picked(25, client="c0", key="right", adapter="legal"),
        *picked(24, client="c0", key="right", adapter="medical"),
        *picked(4, client="c0", key="none"),
    ]
    found = table(rows, "Inference: ranking, 50 candidates")
    assert [row[0] for row in found.rows] == ["right: legal", "right: medical", "none"]
    assert "adapter" not in " ".join((*found.columns, *found.notes))
    [told] = attack_summaries(report(rows))
    assert "with the client's own key for medical in 24 of 100" in told


def test_by_kind_a_wrong_key_stands_beside_none_where_no_right_one_was_tried():
    only = [row for row in inferred() if row.scope["key"] in ("wrong", "none")]
    assert table(only, "Inference by kind: ranking").columns[2:4] == (
        "wrong key [95 %]",
        "no key [95 %]",
    )


def test_a_model_without_base_is_shown_as_it_is():
    rows = [row for row in attacked() if row.scope["source"] == "tuned"]
    found = table(rows, "Extraction: contextual, set all")
    assert [row[1] for row in found.rows] == ["22 / 50", "2 / 50", "3 / 50", "2 / 50"]
    assert [row[3:] for row in found.rows] == [("-", "-")] * 4
    assert "Model: tuned." in found.notes


def test_a_row_that_nothing_is_compared_with_is_not_lost():
    rows = [coverage(1, 50, source="base", set="all", client="c0", key="none")]
    [row] = table(rows, "Extraction: contextual, set all").rows
    assert row[1] == "1 / 50"
    mixed = [*rows, coverage(2, 50, source="tuned", set="all", client="c0", key="right")]
    found = table(mixed, "Extraction: contextual, set all")
    assert [row[:3] for row in found.rows] == [
        ("right", "tuned", "2 / 50"),
        ("none", "base", "1 / 50"),
    ]


def test_a_control_that_holds_for_every_key_stands_beside_all():
    rows = [row for row in attacked() if row.scope["source"] != "control"]
    rows.append(coverage(1, 200, source="control"))
    found = table(rows, "Extraction: contextual, set all")
    assert [row[-1] for row in found.rows] == ["0.5 % [0.088, 2.8]"] * 4
    assert "Extraction: contextual" not in titles(rows)  # it has no table of its own


def test_rows_that_excuse_each_other_are_not_lost():
    # True == 1, so each of the two covers the other's scope, but they are different rows.
    rows = [
        coverage(1, 50, source="base", set="all", key="none", budget=True),
        coverage(0, 50, source="control", set="all", key="none", budget=1),
    ]
    assert len(table(rows, "Extraction: contextual, set all").rows) == 2


def test_the_story_keeps_numbers_of_candidates_apart():
    rows = [*inferred(), *picked(7, candidates=500, client="c0", key="none")]
    fifty, five_hundred = attack_summaries(report(rows))
    assert "offered 50 candidates" in fifty
    assert "in 7 of 100" not in fifty
    assert "the true one without a key in 7 of 100" in five_hundred
    assert "with a wrong key" not in five_hundred


def test_the_story_tells_what_a_key_opens():
    [told] = attack_summaries(report(inferred()))
    words = (
        "The attack ranking (client c0) masked personal data",
        "picked the true one with the client's own key in 25 of 100, 25.0 %",
        "with a wrong key in 4 of 100",
        "without a key in 5 of 100",
        "with another client's key in 3 of 100",
        "its base in 4 of 100",
    )
    assert [told.index(part) for part in words] == sorted(told.index(part) for part in words)
    assert ONLY_RIGHT not in told
    for one in attack_summaries(report(attacked())):
        assert "with the client's own key 20 of 5" in one
        assert "without a key 1 of 5" in one


@pytest.mark.parametrize("rows", [inferred(), attacked()])
def test_the_story_says_when_nothing_unauthorised_was_tried(rows):
    right = [row for row in rows if row.scope["key"] == "right"]
    assert all(one.endswith(ONLY_RIGHT) for one in attack_summaries(report(right)))
    out = " ".join(printed(right))
    assert "Verdict: inconclusive" in out
    assert "nothing unauthorised was tried" in re.sub(r"\s+", " ", out)


def test_the_answer_says_that_a_right_key_is_not_meant():
    assert "a right key opens is meant to come out." in " ".join(printed(inferred()))
    assert "right key" not in " ".join(printed(picked(25)))


def test_the_picture_has_a_bar_for_every_key():
    chart = beside_chance(report(inferred()))
    names = [f"ranking, key {key}, tuned, 50 candidates" for key in KEYS]
    assert [bar.name for bar in chart.bars] == names
    # The longest interval, 25 of 100 up to 34.3 %, is on a scale up to 40 %.
    assert chart.top == 0.4
    drawn = chart.scaled(300).bars
    assert drawn[0].high == pytest.approx(300 * 0.3430 / 0.4, abs=0.2)
    assert drawn[1].value == pytest.approx(300 * 0.04 / 0.4, abs=0.2)
    assert [bar.name for bar in beside_chance(report(picked(25))).bars] == [
        "ranking: picked among candidates of 50"
    ]


# hostile text


def test_the_hostile_report_has_every_table():
    document = hostile("x").to_json()
    found = {
        one.title.partition(":")[0]
        for one in (*overview.attack_tables(document), *overview.other_tables(document))
    }
    assert found >= {
        *("Extraction", "Kinds of PII", "Extraction without prompts", "Inference"),
        *("Kinds of PII without prompts", "Inference by kind", "What the defence guarantees"),
        *("False accepts of the gate", "Routing by the gate", "Fusion of adapters"),
        *("Perplexity under keys", "Costs", "Other measurements"),
    }
    assert len(table(hostile("x").measurements, "Costs").rows) == len(COSTS)


@pytest.mark.parametrize("name", HOSTILE_KINDS)
def test_hostile_text_stays_in_its_cells(name):
    def shape(text):
        document = hostile(text).to_json()
        return [
            (len(one.columns), len(one.rows), len(one.notes))
            for one in (*overview.attack_tables(document), *overview.other_tables(document))
        ]

    assert shape(HOSTILE[name]) == shape("harmless")
