"""What holds of the report of every kind: how it reads, how wide it is, and in which order."""

import random
from functools import cache
from pathlib import Path

import attributed_report
import gated_report
import memorized_report
import pytest
from example_report import coverage, example, extraction, hostile, number
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fedaudit.report.charts import z_by_round
from fedaudit.report.renderers import html, markdown
from fedaudit.report.tables import overview
from fedaudit.report.tables.attribution import attribution
from fedaudit.report.verdict.policy import verdict

attributed, gated = attributed_report, gated_report
ROWS = {
    "attributed": attributed.attributed,
    "attributed_study": attributed.study,
    "inferred": gated.inferred,
    "extracted": gated.attacked,
    "unasked": gated.unasked,
    "deployed": gated.deployed,
    "study": gated.study,
    "memorized": memorized_report.memorized,
}
"""Measurements by the name of the report's golden file, where it has one."""
GOLDEN = Path(__file__).parent / "golden"


@cache
def document(name):
    match name:
        case "terminal":
            return example().to_json()
        case "attributed":
            return attributed.report(ROWS[name](), findings=attributed.findings())
        case "attributed_study":
            return attributed.report(ROWS[name]())
        case "memorized":
            return memorized_report.document()
        case _:
            return gated.report(ROWS[name]())


def printed(name, width=80):
    return attributed.printed(document(name), width)


def tables(report):
    found = (*overview.attack_tables(report), *overview.other_tables(report))
    return [*found, *attribution(report), *z_by_round.table(report)]


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.stem)
def test_reports_read_as_they_should(path, golden):
    lines = printed(path.stem)
    if path.stem in ("inferred", "extracted", "unasked", "deployed", "study"):
        lines = lines[lines.index("") + 1 :]  # from the first table on
    golden(path, "\n".join(lines) + "\n")


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", ["terminal", *ROWS])
def test_no_line_is_wider_than_the_console(name, width):
    assert max(map(cell_len, printed(name, width))) <= width


@pytest.mark.parametrize("text", ["x" * 300, "张三" * 99])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_long_texts_are_no_wider(text, width):
    assert max(map(cell_len, attributed.printed(hostile(text).to_json(), width))) <= width


@pytest.mark.parametrize("name", ROWS)
def test_the_page_and_the_markdown_have_every_table(name):
    report = document(name)
    page, text = html.render(report), markdown.render(report)
    assert "Other measurements" not in page
    made = tables(report)
    assert made
    for table in (*made, *overview.finding_tables(report, 9)):
        assert table.title in page
        assert f"## {table.title.replace('_', chr(92) + '_')}\n" in text


@pytest.mark.parametrize("name", ROWS)
def test_tables_have_the_same_lines_in_any_order(name):
    def lines(rows):
        report = {
            **document(name),
            "measurements": example(measurements=rows).to_json()["measurements"],
        }
        return sorted(
            (table.title, *sorted(zip(table.columns, row, strict=True)))
            for table in tables(report)
            if name != "study" or "kind" not in table.title  # shows the first variant only
            for row in table.rows
        )

    expected = lines(ROWS[name]())
    assert expected
    for seed in range(2):
        mixed = list(ROWS[name]())
        random.Random(seed).shuffle(mixed)
        assert lines(mixed) == expected


def counted(hits, n, *, base=0, plugin="contextual"):
    """Return counts of an extraction that its own tests of p-values stand beside."""
    sources = {"tuned": hits + base, "base": base, "tuned-not-base": hits, "base-not-tuned": 0}
    rows = [
        coverage(some, n, source=s, set="exclusive", plugin=plugin) for s, some in sources.items()
    ]
    rows.append(coverage(0, 4000, source="control", set="exclusive", plugin=plugin))
    at = {"source": "tuned-not-base", "set": "exclusive"}
    tests = {"leak": 0.002, "string": 0.5}.items()
    return [*rows, *(number("extraction", plugin, "p_value", p, **at, test=t) for t, p in tests)]


JUDGED = {
    "attributions": [
        *attributed.protocol(), *attributed.baselines(), attributed.absent(), *gated.recalled(3),
    ],
    "nobody flagged": [*attributed.innocent(), attributed.absent(), *attributed.baselines()],
    "two attacks": [*counted(5, 44), *counted(20, 200, base=9, plugin="other")],
    "all attacks": [
        *extraction(), *gated.inferred(), *gated.recalled(3), *gated.verbatim(),
        *memorized_report.memorized(),
    ],
}  # fmt: skip


@pytest.mark.parametrize("rows", JUDGED.values(), ids=JUDGED)
@given(data=st.data())
def test_the_order_of_rows_only_orders_the_reasons(rows, data):
    found, expected = verdict(data.draw(st.permutations(rows)), []), verdict(rows, [])
    for one in (found, expected):
        one["reasons"].sort()
        one["tests"].sort(key=str)
    assert found == expected
