"""Attackers against victims, and verbatim extraction, in tables."""

from dataclasses import replace
from io import StringIO

import pytest
from example_report import HOSTILE, coverage, example, extraction, number
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from fedaudit.api.records import Measurement
from fedaudit.report.charts.beside_chance import beside_chance
from fedaudit.report.document import validate
from fedaudit.report.renderers import html, markdown, terminal
from fedaudit.report.tables import overview
from fedaudit.report.tables.cross_client import MOST_WIDE, matrix_tables
from fedaudit.report.text.attacks import attack_summaries


def pair(attacker, victim, hits, n=20, *, plugin="contextual", **scope):
    of = {"attacker": attacker, "victim": victim, **scope}
    rows = []
    for subset, less in (("all", 0), ("prefix-disjoint", 1)):
        rows += [
            coverage(hits + 2, n - less, plugin=plugin, source="tuned", set=subset, **of),
            coverage(2, n - less, plugin=plugin, source="base", set=subset, **of),
            coverage(hits, n - less, plugin=plugin, source="tuned-not-base", set=subset, **of),
            coverage(1, 4 * n, plugin=plugin, source="control", set=subset, **of),
        ]
    label = {"source": "tuned-not-base", "set": "all", "label": "PERSON"}
    return [*rows, coverage(hits, n, plugin=plugin, **label, **of)]


def nothing(attacker, victim, reason):
    scope = {"source": "tuned", "set": "all", "attacker": attacker, "victim": victim}
    empty = coverage(0, 1, **scope)
    return [replace(empty, value=None, low=None, high=None, n=None, hits=None, reason=reason)]


THREE = [
    *pair("c0", "c1", 5),
    *pair("c0", "c2", 1),
    *pair("c1", "c0", 10),
    *nothing("c1", "c2", "the victim has no PII of its own"),
    *pair("c2", "c0", 0),
    *pair("c2", "c1", 16),
]


def document(rows):
    report = example(measurements=rows, findings=[]).to_json()
    validate(report)
    return report


def terminal_text(report, width=80):
    file = StringIO()
    terminal.render(report, Console(file=file, width=width))
    return file.getvalue()


def test_attackers_against_victims():
    square, pairs = matrix_tables(document(THREE))
    assert square.columns == ("attacker", "c0", "c1", "c2")
    assert square.rows == (
        ("c0", "-", "25.0 %", "5.0 %"),
        ("c1", "50.0 %", "-", "not measured"),
        ("c2", "0.0 %", "80.0 %", "-"),
    )
    assert len(pairs.rows) == 6
    assert pairs.columns[:2] == ("attacker", "victim")
    cells = dict(zip(pairs.columns, pairs.rows[0], strict=True))
    assert cells["found"] == "5 / 20"
    assert cells["base"] == "10.0 %"
    assert cells["control [95 %]"].startswith("1.2 % [")
    assert "Not measured: the victim has no PII of its own" in pairs.notes


def test_the_order_of_the_rows_does_not_matter_for_a_pair():
    one, other = matrix_tables(document(THREE)), matrix_tables(document(THREE[::-1]))
    assert sorted(one[1].rows) == sorted(other[1].rows)
    cells = [
        {
            (row[0], victim): cell
            for row in tables_[0].rows
            for victim, cell in zip(tables_[0].columns[1:], row[1:], strict=True)
        }
        for tables_ in (one, other)
    ]
    assert cells[0] == cells[1]


def test_pairs_stand_in_no_other_table():
    report = document([*THREE, *extraction("frequency")])
    titles = [table.title for table in overview.attack_tables(report)]
    assert titles[:2] == ["Attackers and victims: contextual", "Pairs: contextual"]
    assert "Extraction: frequency" in titles
    assert "Extraction: contextual" not in titles
    assert "Kinds of PII: contextual" not in titles


def test_a_report_without_pairs_is_as_it_was():
    report = document(extraction())
    assert matrix_tables(report) == []


def test_every_format_shows_the_matrix():
    report = document(THREE)
    for text in (terminal_text(report), html.render(report), markdown.render(report)):
        assert "Attackers and victims: contextual" in text
        assert "80.0 %" in text
    assert [bar.name for bar in beside_chance(report).bars] == [
        f"contextual, all, attacker {a}, victim {v}"
        for a, v in (("c0", "c1"), ("c0", "c2"), ("c1", "c0"), ("c2", "c0"), ("c2", "c1"))
    ]


def test_the_story_names_the_pair():
    [told] = [line for line in attack_summaries(document(THREE)) if "contextual" in line]
    assert "attacker c2, victim c1" in told


def test_many_clients_get_a_list_and_no_square():
    names = [f"c{n}" for n in range(MOST_WIDE + 1)]
    rows = [row for a in names for v in names if a != v for row in pair(a, v, 3)]
    [pairs] = matrix_tables(document(rows))
    assert len(pairs.rows) == len(names) * (len(names) - 1)
    report = document([row for row in rows if row.scope["victim"] != names[-1]])
    assert len(matrix_tables(report)) == 2
    assert max(map(cell_len, terminal_text(report).splitlines())) <= 80


def test_one_table_for_each_attack_and_key():
    rows = [
        *pair("a", "b", 1),
        *pair("b", "a", 2),
        *pair("a", "b", 3, plugin="laft"),
        *pair("a", "b", 4, key="none", client="b"),
    ]
    titles = [table.title for table in matrix_tables(document(rows))]
    assert titles == [
        f"{what}: {of}"
        for of in ("contextual", "laft", "contextual, client b, key none")
        for what in ("Attackers and victims", "Pairs")
    ]


def test_without_a_base_what_came_out_at_all_is_shown():
    rows = [row for row in pair("a", "b", 3) if row.scope["source"] in ("tuned", "control")]
    square, pairs = matrix_tables(document(rows))
    assert square.rows == (("a", "25.0 %"),)
    assert "Model: tuned." in pairs.notes


NAMES = st.sampled_from(["c0", "c1", "attacker", "victim", "base", *HOSTILE.values()]) | st.none()


@settings(max_examples=settings().max_examples // 3)
@given(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 9)), max_size=6))
def test_any_pairs_can_be_shown(drawn):
    rows = [row for a, v, hits in drawn for row in pair(a, v, hits)]
    report = document(rows)
    assert max(map(cell_len, terminal_text(report).splitlines())) <= 80
    assert html.render(report).count("<script") == 1  # the page's own
    assert markdown.render(report)


# verbatim


def distances(source, mean, n, zeros, **scope):
    of = {"source": source, "records": "own", **scope}
    row = number("extraction", "verbatim", "edit_distance", mean, **of)
    return [
        replace(row, low=mean - 1, high=mean + 1, n=n, hits=zeros),
        replace(row, metric="edit_deviation", value=4.25, n=n),
        coverage(zeros, n, plugin="verbatim", **of),
    ]


VERBATIM = [
    *distances("tuned", 20.5, 40, 8),
    *distances("base", 35.0, 40, 0),
    *distances("tuned", 10.0, 10, 5, task="exam"),
    *distances("base", 30.0, 10, 0, task="exam"),
    coverage(8, 40, plugin="verbatim", source="tuned-not-base", records="own"),
    coverage(0, 40, plugin="verbatim", source="control", records="own"),
]


def test_distances_by_task():
    report = document(VERBATIM)
    [table] = [t for t in overview.attack_tables(report) if t.title.startswith("Distance")]
    lines = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(line["task"], line["model"]) for line in lines] == [
        ("all", "tuned"),
        ("all", "base"),
        ("exam", "tuned"),
        ("exam", "base"),
    ]
    assert lines[0]["edit distance [95 %]"] == "20.5 [19.5, 21.5]"
    assert lines[0]["deviation"] == "4.25"
    assert lines[0]["word for word [95 %]"].startswith("20.0 % [")
    assert lines[2]["word for word [95 %]"].startswith("50.0 % [")
    assert "Throughout: own records." in table.notes


def test_a_task_is_no_total_and_no_other_measurement():
    report = document(VERBATIM)
    [table] = [t for t in overview.attack_tables(report) if t.title == "Extraction: verbatim"]
    assert [row[0] for row in table.rows] == ["tuned", "base", "tuned, not base", "control"]
    assert not overview.unshown_rows_table(report)
    assert [bar.name for bar in beside_chance(report).bars] == ["verbatim: passages"]


@pytest.mark.parametrize("metric", ["edit_distance", "edit_deviation"])
def test_distances_of_another_kind_are_shown_where_they_were(metric):
    row = Measurement(
        kind="utility", plugin="u", metric=metric, value=3.0, scope={"source": "base"}
    )
    titles = [table.title for table in [*overview.attack_tables(document([row])),
                                        *overview.other_tables(document([row]))]]  # fmt: skip
    assert titles == [{"edit_distance": "Utility: edit_distance"}.get(metric, "Other measurements")]
