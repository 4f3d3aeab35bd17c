"""What reports show of a defence that is deployed: gate, guarantees, costs, perplexity."""

from dataclasses import replace

from example_report import number
from gated_report import fused, gate, perplexity, table, titles


def test_of_several_clients_the_worst_is_shown():
    rows = [*gate("c0"), *gate("c1", accepted=2), *gate("c2", accepted=1)]
    found = table(rows, "False accepts of the gate: gate")
    assert [row[:2] for row in found.rows] == [
        ("c1 of 3", "random keys, one token each"),
        ("each of 3", "keys with one sign changed"),
    ]
    assert found.rows[0][2].startswith("2 of 100,000")
    assert found.notes == ("The worst client for each line; for the others see report.json.",)


def test_a_false_accept_is_worse_than_few_tries():
    few, many = gate("c0", accepted=0, n=5), gate("c1", accepted=1)
    [row, _] = table([*few, *many], "False accepts of the gate: gate").rows
    assert row[0] == "c1 of 2"


def test_all_clients_together_are_called_so():
    rows = [*gate("c0"), *gate("c1"), *gate("all", accepted=9, n=200_000)]
    assert table(rows, "False accepts of the gate: gate").rows[0][0] == "all"


def test_what_was_not_measured_of_a_gate_is_said():
    [row, *_] = gate(n=0)
    found = table([row], "False accepts of the gate: gate")
    assert found.rows[0][2] == "not measured"


def test_other_rates_of_a_defence_stay_where_they_were():
    rows = [row for row in gate() if row.metric == "fpr"]
    plain = replace(rows[0], scope={})
    assert titles([plain, number("defense", "x", "loss", 1.0, stage="other")]) == [
        "Other measurements"
    ]


def test_many_fused_adapters_are_cut_short():
    found = table([fused(f"c{n}") for n in range(60)], "Fusion of adapters: secure_gate")
    assert len(found.rows) == 40
    assert "and 20 more in report.json" in found.notes
    assert found.rows[0] == ("c0", "secure", "0.91, 0.08", "1.23")


# costs and utility


def test_each_of_several_adapters_has_a_line():
    at = {"client": "all", "data": "own"}
    rows = [
        perplexity(6.1, **at, key="right", adapter="legal"),
        perplexity(6.2, **at, key="right", adapter="medical"),
        perplexity(16.1, **at, key="none"),
        perplexity(6.3, **at, adapter="legal alone"),
        perplexity(6.4, **at, adapter="medical alone"),
        perplexity(16.2, **at, adapter="shared alone"),
    ]
    found = table(rows, "Perplexity under keys")
    assert found.columns[2] == "adapter"
    assert [row[2:] for row in found.rows] == [
        ("legal", "6.1", "6.3", "16.1", "16.2"),
        ("medical", "6.2", "6.4", "16.1", "16.2"),
    ]
