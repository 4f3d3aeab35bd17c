"""What reports show of a study: one line for each variant and key."""

from io import StringIO

from example_report import number
from gated_report import perplexity, picked, printed, report, study, table
from rich.cells import cell_len
from rich.console import Console
from study_report import study_report

from fedaudit.report.renderers import html, markdown, terminal
from fedaudit.report.text.attacks import attack_summaries
from fedaudit.report.text.summary import audited_facts


def test_the_story_of_a_study_tells_each_attack_once():
    assert len(attack_summaries(report(study()))) == 3


def test_the_terminal_names_a_dozen_of_a_studys_files():
    made = study_report().to_json()

    def told(count):
        files = [{"path": f"c{n}.jsonl", "records": 3, "annotation": ""} for n in range(count)]
        facts = audited_facts({**made, "data": files})
        return [text for name, text in facts if name == "data"]

    assert told(12) == [f"c{n}.jsonl: 3 records" for n in range(12)]
    assert told(400) == [*told(12), "and 388 more in report.json"]


def test_what_no_row_of_all_clients_stands_for_stays():
    rows = [row for row in study() if row.scope.get("client") != "all"]
    found = table(rows, "Inference: ranking, 50 candidates")
    assert len(found.rows) == 12  # three variants, two keys, two clients
    assert {row[-1] for row in found.rows} == {"client c0", "client c1"}


def test_one_variant_keeps_its_clients():
    rows = study(names=("fedavg",))
    assert len(table(rows, "Inference: ranking, 50 candidates").rows) == 6


def test_variants_that_agree_keep_their_own_lines():
    rows = [perplexity(3.0, variant=name) for name in ("fedavg", "fedopt")]
    assert [row[0] for row in table(rows, "Utility: perplexity").rows] == ["fedavg", "fedopt"]


def test_neither_names_nor_numbers_break_where_a_table_is_too_wide():
    names = ("x" * 60, "y" * 60)
    rows = [
        row
        for name in names
        for row in picked(25, variant=name, client=name, key="none", shard=name)
    ]
    lines = printed(rows)
    assert max(map(cell_len, lines)) <= 80
    for text in (*names, "25 / 100", "25.0 % [17.5, 34.3]"):
        assert any(line.rstrip().endswith(f"  {text}") for line in lines), text


def test_long_lists_are_cut_short_everywhere():
    rows = [number("probability", "x", "leakage_bits", n, client=f"c{n}") for n in range(130)]
    assert "and 30 more in report.json" in table(rows, "Other measurements").notes
    many = {"status": "fail", "reasons": [f"reason {n}" for n in range(35)]}
    document = report(picked(40)) | {"verdict": many}
    file = StringIO()
    terminal.render(document, Console(file=file, width=80))
    for text in (file.getvalue(), html.render(document), markdown.render(document)):
        assert "reason 19" in text
        assert "reason 20" not in text
        assert "and 15 more in report.json" in text
