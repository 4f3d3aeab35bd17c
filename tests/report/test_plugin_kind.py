"""A kind of measurement that a plugin brings, in every form of a report."""

import csv
import json
import re
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from example_report import coverage, example
from rich.console import Console

from fedaudit.api.errors import PluginError
from fedaudit.api.records import Measurement
from fedaudit.report.baseline import compare_with_baseline
from fedaudit.report.checklist.questions import claims
from fedaudit.report.comparison import compare
from fedaudit.report.kinds import registry
from fedaudit.report.renderers import annex, csv_table, cyclonedx, html, markdown, sarif, terminal
from fedaudit.report.text import summary
from fedaudit.report.verdict.recheck import recheck

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def canary(monkeypatch):
    """Return a stranger's attacks and kind, as if their packages were installed."""
    for place in ("third_party", "../examples/plugins"):
        monkeypatch.syspath_prepend(str(TESTS / place))
    from custom_attack import Order, Pairs
    from fedaudit_canary import Opening

    attacks = {"pairs": Pairs, "opening": Opening}
    monkeypatch.setattr(registry, "plugins", lambda kind: attacks)
    registry._kinds_of_plugins.cache_clear()
    yield SimpleNamespace(Order=Order, Pairs=Pairs, Opening=Opening)
    registry._kinds_of_plugins.cache_clear()


def row(hits, n=40, source="tuned", **scope):
    return Measurement.rate(
        hits, n, kind="order", plugin="pairs", metric="order_rate", chance=0.5,
        scope={"source": source, **scope},
    )  # fmt: skip


def report(*rows, **changes):
    return example(measurements=rows, findings=[], claims=[], **changes).to_json()


def known():
    return report(row(38), row(21, source="base"))


def unknown():
    return report(row(20), row(21, source="base"))


def test_its_rule_makes_the_verdict_and_shares_the_correction():
    assert known()["verdict"]["status"] == "fail"
    [reason] = known()["verdict"]["reasons"]
    assert reason.startswith("pairs: 38 of 40 pairs of records are likelier")
    [test] = known()["verdict"]["tests"]
    # P(Binomial(40, 1/2) >= 38) = (780 + 40 + 1) / 2^40.
    assert test["name"] == "pairs (order)"
    assert test["p"] == pytest.approx(821 / 2**40)
    assert recheck(known()).holds
    both = report(row(38), coverage(5, 50, source="tuned-not-base"), coverage(1, 50, source="base"),
                  coverage(0, 50, source="control"), coverage(6, 50, source="tuned"))  # fmt: skip
    names = [one["name"] for one in both["verdict"]["tests"]]
    assert names[-1] == "pairs (order)"
    assert len(names) > 1
    last = both["verdict"]["tests"][-1]
    assert last["adjusted"] == pytest.approx(last["p"] * len(names))


def test_few_pairs_are_inconclusive_and_what_a_right_key_opens_is_not_judged():
    assert unknown()["verdict"]["status"] == "inconclusive"
    assert "too few pairs to tell" in unknown()["verdict"]["reasons"][0]
    assert report(row(100, 200))["verdict"]["status"] == "pass"
    assert "order" not in str(report(row(38, key="right"))["verdict"]["tests"])


def test_its_words_are_said_in_plain_language():
    assert "knows in which order records stand" in summary.verdict_sentence(known())[0]
    with_leaks = report(row(38), coverage(0, 50, source="tuned-not-base"))
    assert "knows in which order records stand" in " ".join(summary.verdict_sentence(with_leaks))


def test_the_terminal_shows_its_table_and_no_row_twice():
    out = StringIO()
    terminal.render(known(), Console(file=out, width=100))
    text = out.getvalue()
    assert "Order of records: pairs" in text
    assert "95.0 % [83.5, 98.6]" in text
    assert "Other measurements" not in text


@pytest.mark.parametrize("form", [html, markdown])
def test_a_page_has_the_table_and_a_sentence(form):
    page = form.render(known()).replace("\\", "").replace("&#39;", "'")
    assert "Order of records: pairs" in page
    assert "The attack pairs measured pairs order rate 38 of 40" in page


def test_csv_has_a_row_for_each_number_with_its_scope():
    lines = list(csv.DictReader(StringIO(csv_table.render(known()))))
    columns = ("kind", "metric", "scope.source", "hits")
    assert [tuple(line[name] for name in columns) for line in lines] == [
        ("order", "order_rate", "tuned", "38"),
        ("order", "order_rate", "base", "21"),
    ]


def test_compare_and_the_gate_against_a_baseline_see_it():
    found = compare(unknown(), known())
    pairs = {(one.metric, one.scope["source"]): one.sure for one in found.differences}
    assert pairs == {("order_rate", "tuned"): True, ("order_rate", "base"): False}
    gate = compare_with_baseline(unknown(), known())
    assert gate.status == "fail"
    assert any("pairs order_rate" in reason and "95.0 %" in reason for reason in gate.reasons)


def test_the_annex_asks_and_answers_its_question():
    text = re.sub(r"\s*<[^>]+>\s*", "|", annex.render(known()))
    [row] = re.findall(r"\|21\|.*know the order of the records\?.*", text.replace("\n", ""))
    for part in ("Oren et al. 2023", "answered", "38 of 40"):
        assert part in row[:600]
    assert "Withhold" in text
    last = claims(known())[-1]
    assert (last.item.name, last.score) == ("Q21", 0)
    requirements = json.loads(cyclonedx.render(known()))["definitions"]["standards"][0][
        "requirements"
    ]
    assert requirements[-1]["identifier"] == "Q21"


def test_sarif_has_a_rule_for_it(canary, monkeypatch):
    def rules():
        [run] = json.loads(sarif.render(known()))["runs"]
        assert all(
            run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
            for one in run["results"]
        )
        return {one["ruleId"] for one in run["results"]}

    assert rules() == {"FA-MEMBERSHIP-INFERENCE"}
    monkeypatch.setattr(canary.Order, "attack_class", "")
    assert rules() == {"FA-ORDER"}


def test_without_its_plugin_the_numbers_stay_and_the_verdict_is_not_checked(monkeypatch):
    judged = known()
    monkeypatch.setattr(registry, "plugins", lambda kind: {})
    registry._kinds_of_plugins.cache_clear()
    checked = recheck(judged)
    assert checked.holds is None
    assert "No installed plugin judges its rows of the kind order" in checked.message
    leak = [
        coverage(hits, 100, source=source, set="all")
        for source, hits in (("tuned", 90), ("base", 0), ("tuned-not-base", 90), ("control", 0))
    ]
    other = report(*leak, row(20)) | {"verdict": judged["verdict"] | {"status": "inconclusive"}}
    assert recheck(other).holds is False  # it fails without the plugin as well
    out = StringIO()
    terminal.render(judged, Console(file=out, width=100))
    assert "order: order_rate" in out.getvalue()
    alone = report(row(38))
    assert alone["verdict"]["status"] == "inconclusive"
    assert "pairs (order)" in alone["verdict"]["reasons"][0]
    assert recheck(alone).holds


@pytest.mark.parametrize("name", ["exposure", "extraction", "order"])
def test_a_name_that_is_taken_is_refused(canary, monkeypatch, name):
    class Other(canary.Order):
        pass

    Other.name = name

    class Second(canary.Opening):
        kinds = (Other,)

    attacks = {"pairs": canary.Pairs, "second": Second}
    monkeypatch.setattr(registry, "plugins", lambda kind: attacks)
    monkeypatch.setattr(registry, "distribution", lambda cls: f"package of {cls.__name__}")
    with pytest.raises(PluginError, match=f"The kind '{name}' of package of Second is also one of"):
        registry.kind_of("unknown")


def test_a_kind_that_does_not_judge_its_tests_is_refused(canary, monkeypatch):
    class Unjudged(registry.Kind):
        name = "unjudged"

        def tests(self, rows, policy):
            return [(row, None) for row in rows]

    class Second(canary.Opening):
        kinds = (Unjudged,)

    monkeypatch.setattr(registry, "plugins", lambda kind: {"second": Second})
    monkeypatch.setattr(registry, "distribution", lambda cls: "a package")
    with pytest.raises(PluginError, match="'unjudged' of a package has tests and no judge_test"):
        registry.kind_of("unknown")
