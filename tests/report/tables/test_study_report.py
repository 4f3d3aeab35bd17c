"""What reports show of a study: one line for each variant and key."""

from io import StringIO

from example_report import number
from gated_report import perplexity, picked, printed, report, study, table, tables
from rich.cells import cell_len
from rich.console import Console
from study_report import study_report

from fedaudit.report.renderers import html, markdown, terminal
from fedaudit.report.text.attacks import attack_summaries
from fedaudit.report.text.summary import audited_facts


def test_a_study_has_one_line_a_variant_and_key():
    names = [f"variant-{number}" for number in range(4)]
    rows = study(names)
    made = {one.title: one for one in tables(rows)}
    for title in (
        "Inference: ranking, 50 candidates",
        "Extraction: contextual, set all",
        "Extraction: contextual, set disjoint",
        "Extraction without prompts: untargeted",
    ):
        found = made[title]
        assert [row[:2] for row in found.rows] == [
            (name, key) for name in names for key in ("right", "none")
        ]
        assert "Over all clients; for each of them see report.json." in found.notes
    for title in ("False accepts of the gate: gate", "What the defence guarantees: dp"):
        assert [row[0] for row in made[title].rows] == names
    assert len(made["Perplexity under keys"].rows) == 8  # own and held-out texts
    assert [row[0] for row in made["Costs: computing"].rows] == names
    kinds = made["Inference by kind: ranking"]
    assert "Throughout: client all, variant variant-0." in kinds.notes
    assert "For the other variants see report.json." in kinds.notes
    assert len(attack_summaries(report(rows))) == 3


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


def test_a_base_that_is_the_same_on_every_variant_has_one_line():
    found = table(study(), "Utility: perplexity")
    assert [row[0] for row in found.rows if row[2] == "base"] == ["fedavg and 2 more"]
    assert [row[0] for row in found.rows if row[2] == "tuned"] == [
        *("fedavg", "fedavg_secure_gate", "scrub_and_dp"),
    ]


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
