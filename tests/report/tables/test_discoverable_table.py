from dataclasses import replace
from io import StringIO

import pytest
from example_report import coverage, example, number
from rich.console import Console

from fedaudit.api.records import Measurement
from fedaudit.report.document import validate
from fedaudit.report.renderers import html, markdown, terminal
from fedaudit.report.tables import overview

OF = {"plugin": "discoverable", "records": "own"}


def scored(source, value, n, leaked, **scope):
    row = number("extraction", "discoverable", "rouge_l", value, source=source, records="own")
    row = replace(row, low=value - 0.1, high=value + 0.1, n=n, scope={**row.scope, **scope})
    if leaked is None:
        return [row]
    return [row, coverage(leaked, n, source=source, threshold=0.9, **OF, **scope)]


ROWS = [
    *scored("tuned", 0.5, 40, 8),
    *scored("base", 0.25, 40, 0),
    *scored("tuned-not-base", 0.25, 40, None),
    *scored("tuned", 0.75, 10, 5, task="exam"),
    *scored("tuned-not-base", -0.125, 10, None, task="exam"),
    coverage(8, 40, source="tuned-not-base", threshold=0.9, **OF),
    *scored("control", 0.125, 40, 0),
]


def document(rows):
    report = example(measurements=rows, findings=[]).to_json()
    validate(report)
    return report


def test_answers_by_task_and_model():
    [table] = [
        t for t in overview.attack_tables(document(ROWS)) if t.title.startswith("Answers to")
    ]
    assert table.title == "Answers to training prompts: discoverable"
    assert table.columns == ("task", "model", "n", "Rouge-L [95 %]", "leaked [95 %]")
    assert [row[:4] for row in table.rows] == [
        ("all", "tuned", "40", "0.5 [0.4, 0.6]"),
        ("all", "base", "40", "0.25 [0.15, 0.35]"),
        ("all", "difference", "40", "0.25 [0.15, 0.35]"),
        ("exam", "tuned", "10", "0.75 [0.65, 0.85]"),
        ("exam", "difference", "10", "-0.125 [-0.225, -0.025]"),
        ("all", "other answers", "40", "0.125 [0.025, 0.225]"),
    ]
    assert table.rows[0][4].startswith("20.0 % [")
    assert table.rows[3][4].startswith("50.0 % [")
    assert table.rows[4][4] == "-"
    assert "Throughout: own records." in table.notes


def test_the_shares_are_an_extraction_and_nothing_is_shown_twice():
    report = document(ROWS)
    [table] = [t for t in overview.attack_tables(report) if t.title == "Extraction: discoverable"]
    assert [row[0] for row in table.rows] == ["tuned", "base", "tuned, not base", "control"]
    assert not overview.unshown_rows_table(report)


def test_every_format_shows_it():
    report, file = document(ROWS), StringIO()
    terminal.render(report, Console(file=file, width=80))
    pages = [file.getvalue(), html.render(report), markdown.render(report)]
    for page in pages:
        assert "Answers to training prompts" in page
        assert "other answers" in page


@pytest.mark.parametrize("kind", ["utility", "memorization"])
def test_overlap_of_another_kind_is_shown_where_it_was(kind):
    row = Measurement(kind=kind, plugin="u", metric="rouge_l", value=0.5, scope={"source": "base"})
    report = document([row])
    assert not any(t.title.startswith("Answers") for t in overview.attack_tables(report))
    titles = [table.title for table in overview.other_tables(report)]
    assert titles == [{"utility": "Utility: rouge_l"}.get(kind, "Other measurements")]
