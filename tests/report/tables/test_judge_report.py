from example_report import example

from fedaudit.api.records import Measurement
from fedaudit.judge.measurements import rows
from fedaudit.judge.verdicts import JudgeVerdict
from fedaudit.report.document import validate
from fedaudit.report.renderers import html, markdown
from fedaudit.report.tables import overview

COUNTS = {"win": 2, "tie": 5, "lose": 1, "malformed": 2}
VERDICTS = [JudgeVerdict(outcome=name) for name, count in COUNTS.items() for _ in range(count)]


def test_a_report_takes_and_shows_verdicts():
    found = [
        row
        for source in ("base", "tuned", "control")
        for row in rows(VERDICTS, {"source": source, "judge": "wise"})
    ]
    how = {"kind": "utility", "plugin": "utility", "metric": "loss", "scope": {"source": "tuned"}}
    document = example(
        measurements=[Measurement(value=1.5, low=1.0, high=2.0, n=4, **how), *found], findings=[]
    ).to_json()
    validate(document)
    table, losses = [t for t in overview.other_tables(document) if t.title.startswith("Utility")]
    assert losses.title == "Utility: loss"
    assert not any("wise" in note for note in losses.notes)
    lines = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [line["model"] for line in lines] == ["base", "tuned", "control"]
    assert lines[0]["judge_win"].startswith("25.0 % [")
    assert lines[0]["judge_malformed"].startswith("20.0 % [")
    assert lines[0]["n"] == "8/10"
    assert "Throughout: judge wise." in table.notes
    assert not overview.unshown_rows_table(document)
    for page in (html.render(document), markdown.render(document)):
        assert "87.5 %" in page


def test_nothing_that_could_be_read_says_so():
    document = example(measurements=rows([JudgeVerdict(outcome="malformed")], {})).to_json()
    validate(document)
    [table] = [t for t in overview.other_tables(document) if "judge_win" in t.title]
    assert any("could be read" in note for note in table.notes)
