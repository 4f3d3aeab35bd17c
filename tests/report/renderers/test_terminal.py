import re
from dataclasses import replace
from io import StringIO

import attributed_report
import pytest
from example_report import HOSTILE, coverage, example, extraction, hostile, number
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from fedaudit.api.kind import Table
from fedaudit.report.redaction import is_hidden, make_visible
from fedaudit.report.renderers.terminal import _share_out, print_tables, render
from fedaudit.report.tables import assessment, overview
from fedaudit.report.tables.attribution import attribution
from fedaudit.report.tables.extraction import extraction as extraction_tables


def printed(report, **options):
    file = StringIO()
    render(report.to_json(), Console(file=file, **({"width": 80} | options)))
    return file.getvalue()


def squeezed(text):
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_neither_acts_nor_overflows(name):
    out = printed(hostile(HOSTILE[name]))
    assert not any(is_hidden(char) for char in out if char != "\n")
    assert max(map(cell_len, out.splitlines())) <= 80
    limits = squeezed(out.partition("\nLimits\n")[2].partition("\nWhy\n")[0])
    assert limits == "*" + squeezed(make_visible(HOSTILE[name]))


def test_a_pipe_gets_no_colour_and_a_terminal_does():
    assert "\x1b" not in printed(example())
    coloured = printed(example(), force_terminal=True, color_system="standard")
    assert "\x1b[1;31mVerdict: fail" in coloured


def test_a_hostile_text_adds_no_colour_to_a_terminal():
    def colours(report):
        out = printed(report, force_terminal=True, color_system="truecolor", width=400)
        return sorted(set(re.findall(r"\x1b[^m]*m", out)))

    plain = colours(hostile("plain"))
    for text in HOSTILE.values():
        assert colours(hostile(text)) == plain


def test_big_numbers_fit():
    rows = [
        coverage(4210123, 8870456, plugin="superset", source=source, set="prefix-disjoint")
        for source in ("tuned", "base", "tuned-not-base", "control")
    ]
    rows.append(number("extraction", "superset", "queries", 1_065_090_000))
    rows.append(number("extraction", "superset", "efficiency", 0.000123456))
    out = printed(example(measurements=rows))
    assert max(map(len, out.splitlines())) <= 80
    assert "1,065,090,000" in out
    assert "0.000123" in out


def test_what_varies_gets_a_column_and_what_does_not_a_note():
    rows = [
        coverage(hits, 50, source="tuned", set="all", budget=budget, decoding="greedy")
        for budget, hits in ((10, 1), (100, 9))
    ]
    rows.append(coverage(0, 30, source="control"))  # for any budget, any decoding
    out = re.sub(r" +", " ", printed(example(measurements=rows)))
    assert "tuned all 9 / 50 18.0 % [9.8, 30.8] - - budget 100\n" in out
    assert "control - 0 / 30 0.0 % [0.0, 11.4] - - - \n" in out
    assert "Throughout: decoding greedy." in out
    alone = printed(example(measurements=rows[:1]))
    assert "Throughout: budget 10, decoding greedy." in alone
    assert "where" not in alone


def test_expected_hits_and_missing_numbers_are_told_apart():
    row = extraction()[0]
    expected = replace(row, hits=None, value=0.2405)
    unknown = replace(
        row,
        value=None,
        low=None,
        high=None,
        hits=None,
        reason="no victim data",
        scope={"source": "base", "set": "all"},
    )
    out = printed(example(measurements=[expected, unknown]))
    assert "~120 / 500" in out
    assert "not measured" in out
    assert "Not measured: no victim data" in out


def test_an_unfinished_audit_says_so():
    assert "The audit was interrupted" in printed(example(status="interrupted"))
    assert "The audit stopped with an error" in printed(example(status="error"))


def test_records_that_were_not_looked_for_come_first():
    found = example(measurements=extraction())
    left_out = {"other clients": "the records of c2 are not at hand"}
    shown = printed(replace(found, run={**found.run, "config": {"left_out": left_out}}))
    assert shown.index("The records of c2 are not at hand.") < shown.index("Audited")


def test_an_empty_report_is_short_and_inconclusive():
    out = printed(example(measurements=[], findings=[], claims=[], limits=[], data=[]))
    assert "Verdict: inconclusive" in out
    for title in ("Extraction", "Kinds of PII", "Utility", "Findings", "Claims", "Limits"):
        assert title not in out


def test_other_measurements_are_not_lost():
    row = number("probability", "canary", "leakage_bits", 12.5, client="c1")
    out = printed(example(measurements=[row]))
    assert "Other measurements" in out
    assert "leakage_bits" in out
    assert "12.5" in out
    assert "client c1" in out


@pytest.mark.parametrize("width", [80, 60, 40])
@pytest.mark.parametrize("kind", ["audit", "attributed", "many columns"])
def test_no_word_of_a_table_is_broken(kind, width):
    if kind == "many columns":
        names = tuple(f"column-{n:04d}" for n in range(9))
        rows = tuple(tuple(f"word{n}({row:03d}) #ab…" for n in range(9)) for row in range(3))
        tables = [Table(title="Wide", columns=names, rows=rows, numeric=frozenset(names[:2]))]
    else:
        attributed = attributed_report.report(attributed_report.attributed())
        report = example().to_json() if kind == "audit" else attributed
        tables = [
            *overview.attack_tables(report),
            *attribution(report),
            *assessment.judgement_tables(report),
            *overview.finding_tables(report, 10),
        ]
    stream = StringIO()
    print_tables(tables, Console(file=stream, width=width))
    printed_words = set(stream.getvalue().split())
    cells = [cell for table in tables for row in (table.columns, *table.rows) for cell in row]
    words = {word for cell in cells for word in cell.split() if cell_len(word) <= width // 2}
    assert words
    assert words <= printed_words


def test_sets_with_the_same_number_share_a_line():
    hits = {"all": 3, "prefix-disjoint": 3, "exclusive": 2}
    rows = [coverage(count, 10, source="tuned", set=name) for name, count in hits.items()]
    [table] = extraction_tables(replace(example(), measurements=rows).to_json())
    assert [line[1:3] for line in table.rows] == [("all, disjoint", "3 / 10"), ("judged", "2 / 10")]


def test_width_goes_where_it_saves_lines_by_hand():
    # 8 more characters make the second column's three lines two, 22 more make them one.
    assert _share_out(30, [10, 15], [[5, 10], [5, 45]]) == [10, 45]
    # 4 more make its four lines three, 6 more two; the first column takes the rest.
    assert _share_out(20, [10, 10], [[20], [40]]) == [20, 20]
    assert _share_out(9, [3], [[3, 3]]) == [3]  # nothing to save


@given(
    st.integers(1, 5).flatmap(
        lambda rows: st.lists(
            st.tuples(
                st.integers(1, 9), st.lists(st.integers(0, 40), min_size=rows, max_size=rows)
            ),
            min_size=1,
            max_size=4,
        )
    ),
    st.integers(0, 40),
)
def test_shared_width_is_never_more_than_there_is_and_no_row_grows(columns, remaining):
    widths, needed = [width for width, _ in columns], [cells for _, cells in columns]
    shared = _share_out(remaining, list(widths), needed)
    assert sum(shared) <= sum(widths) + remaining
    assert all(new >= old for new, old in zip(shared, widths, strict=True))

    rows = [*zip(*needed, strict=True)]

    def heights(given):
        return [max(-(-n // w) for n, w in zip(row, given, strict=True)) for row in rows]

    assert all(new <= old for new, old in zip(heights(shared), heights(widths), strict=True))
    # No single column could take what is left over and save a line.
    left = sum(widths) + remaining - sum(shared)
    for index in range(len(shared)):
        wider = [*shared[:index], shared[index] + left, *shared[index + 1 :]]
        assert sum(heights(wider)) == sum(heights(shared))
