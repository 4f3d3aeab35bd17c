"""What reports show of a defence that is deployed: gate, guarantees, costs, perplexity."""

from dataclasses import replace

from example_report import number
from gated_report import costs, epsilon, fused, gate, keyed_rows, perplexity, table, titles


def test_none_let_in_is_told_with_its_bound():
    found = table(gate(accepted=0), "False accepts of the gate: gate")
    assert found.rows[0] == ("c0", "random keys, one token each", "0 of 100,000, at most 0.0038 %")
    found = table(gate(), "Routing by the gate: secure_gate")
    assert found.rows[0] == ("c0", "the right key", "200 of 200, at least 98.1 %")
    assert found.rows[1][2] == "199 of 200, 99.5 % [97.2, 99.9]"


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


def test_every_client_has_its_epsilon():
    found = table([epsilon(7.9, "c0"), epsilon(8.1, "c1")], "What the defence guarantees: dp")
    assert found.rows == (
        ("c0", "7.9", "0.0417", "0.83", "0.333", "400", "prv"),
        ("c1", "8.1", "0.0417", "0.83", "0.333", "400", "prv"),
    )


def test_many_fused_adapters_are_cut_short():
    found = table([fused(f"c{n}") for n in range(60)], "Fusion of adapters: secure_gate")
    assert len(found.rows) == 40
    assert "and 20 more in report.json" in found.notes
    assert found.rows[0] == ("c0", "secure", "0.91, 0.08", "1.23")


# costs and utility


def test_costs_have_units():
    found = table(costs(), "Costs")
    assert [row[:2] for row in found.rows] == [
        ("numbers: base, not trained", "2.11 million"),
        ("numbers: trained together", "524,288"),
        ("numbers: trained in private", "524,288"),
        ("sent: clients to server", "62.9 MB"),
        ("sent: server to clients", "62.9 MB"),
        ("computing: training together", "1.24 TFLOP"),
        ("computing: training in private", "960 GFLOP"),
        ("computing: fusing adapters", "31.0 GFLOP"),
        ("time: the gate, a request", "610 µs"),
        ("time: the adapter, a request", "4.70 ms"),
    ]
    assert found.rows[3][3] == "30 times 2.10 MB"
    assert [row[2] for row in found.rows[-3:]] == ["c2 of 3", "each of 3", "each of 3"]


def test_perplexity_under_keys_does_not_flood_the_ordinary_table():
    rows = [*keyed_rows(), perplexity(3.1)]
    assert len(table(rows, "Utility: perplexity").rows) == 1
    found = table(rows, "Perplexity under keys")
    assert found.columns == (
        *("client", "texts", "right key", "adapter alone", "no key", "shared alone"),
    )
    assert found.rows[:3] == (
        ("all", "own", "6.31", "6.5", "15.9", "16"),
        ("all", "held out", "7.2", "7.4", "8.8", "8.9"),
        ("c0", "own", "6.31", "6.5", "15.9", "16"),
    )


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
