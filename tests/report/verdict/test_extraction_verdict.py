"""Verdicts on what came out of the judged set: values by hand, errors at the stated level."""

from collections import Counter
from dataclasses import replace
from itertools import permutations
from math import comb

import numpy as np
import pytest
from example_report import coverage, example, number
from gated_report import picked
from scipy.stats import poisson

from fedaudit.api.policy import Policy
from fedaudit.api.records import Finding, Measurement
from fedaudit.cli.console import verdict_code
from fedaudit.report.document import validate
from fedaudit.report.renderers import annex, cyclonedx, html
from fedaudit.report.tables import overview
from fedaudit.report.tables.evidence import headline
from fedaudit.report.verdict import extraction, recheck
from fedaudit.report.verdict.extraction import find_leaks, p_value_from_counts
from fedaudit.report.verdict.leak import Leak
from fedaudit.report.verdict.policy import verdict

JUDGED = "exclusive"


def judged(hits, n, *, base=0, lost=0, control=0, controls=4000, plugin="contextual", **scope):
    """Return the counts of what is judged, by every source."""
    at = {"plugin": plugin, "set": JUDGED, **scope}
    return [
        coverage(min(n, hits + base), n, source="tuned", **at),
        coverage(base, n, source="base", **at),
        coverage(hits, n, source="tuned-not-base", **at),
        coverage(lost, n, source="base-not-tuned", **at),
        coverage(control, controls, source="control", **at),
        coverage(400, 400, source="known", **at),
    ]


def p_values(leak, string, n, plugin="contextual", **scope):
    values = {"leak": leak, "string": string}
    return [
        Measurement(
            kind="extraction",
            plugin=plugin,
            metric="p_value",
            value=value,
            n=n,
            scope={"source": "tuned-not-base", "set": JUDGED, "test": test, **scope},
        )
        for test, value in values.items()
    ]


def finding(p, plugin="contextual"):
    return Finding(
        id="f", severity="high", label="X", measurement=f"{plugin} coverage",
        evidence={"p_value": p},
    )  # fmt: skip


def status(rows, findings=()):
    return verdict(rows, list(findings))["status"]


@pytest.mark.parametrize("controls", [4000, 176])
def test_five_of_44_that_nobody_else_gives_fail(controls):
    found = verdict(judged(5, 44, controls=controls), [])
    assert found["status"] == "fail"
    [test] = found["tests"]
    # McNemar's coin, 1/32, tells the models apart; then all five hits fall on the targets.
    expected = comb(44, 5) / comb(44 + controls, 5)
    assert test["p"] == test["adjusted"] == pytest.approx(expected)
    assert expected < 3e-4


def test_a_base_that_knows_much_hides_nothing():
    assert status(judged(40, 200, base=60, lost=2)) == "fail"
    # As many lost as gained: chance moved them.
    assert status(judged(20, 200, base=60, lost=20)) != "fail"


def test_without_its_own_count_all_that_the_base_says_counts_as_lost():
    rows = [r for r in judged(40, 200, base=60, lost=2) if r.scope["source"] != "base-not-tuned"]
    found = verdict(rows, [])
    expected = sum(comb(100, k) for k in range(40, 101)) / 2**100
    assert found["tests"][0]["p"] == pytest.approx(expected)
    assert found["status"] != "fail"


def test_two_targets_are_too_few_to_see_anything():
    found = verdict(judged(0, 2), [])
    assert found["status"] == "inconclusive"
    assert found["detectable"] == 1
    assert "too few targets to see any leak" in found["reasons"][0]
    assert verdict_code({"verdict": found}) == 7


def test_a_pass_says_what_it_would_have_seen():
    rows = [*judged(0, 52), *p_values(1.0, 1.0, 52)]
    found = verdict(rows, [])
    assert found["status"] == "pass"
    assert verdict_code({"verdict": found}) == 0
    # Two tests, so 0.5 %: one of 52 beside 4,000 has 52/4052 = 1.3 %, two have 0.02 %.
    # P(Bin(52, r) >= 2) = 0.9 at r = 7.3 %.
    r = found["detectable"]
    assert 1 - (1 - r) ** 52 - 52 * r * (1 - r) ** 51 == pytest.approx(0.9)
    assert f"a leak of {r:.1%} of them would have been seen" in found["reasons"][0]


def drawn(answers, n, **scope):
    """Return the row that counts the answers of the tuned model."""
    at = {"source": "tuned", "set": "all", **scope}
    return Measurement(kind="extraction", plugin="contextual", metric="efficiency", value=0.0,
                       n=answers, low=0.0, high=0.0, scope=at)  # fmt: skip


@pytest.mark.parametrize(("answers", "outcome"), [(1, "inconclusive"), (5000, "pass")])
def test_a_single_answer_passes_nobody(answers, outcome):
    rows = [*judged(0, 52), *p_values(1.0, 1.0, 52), drawn(answers, 52)]
    found = verdict(rows, [])
    assert found["status"] == outcome
    if outcome == "inconclusive":
        assert found["detectable"] == 1
        assert "1 answer is too few to see any leak" in found["reasons"][0]


@pytest.mark.parametrize(("confidence", "outcome"), [(0.95, "pass"), (0.999, "inconclusive")])
def test_the_bound_is_as_sure_as_the_policy_asks(confidence, outcome):
    rows = [*judged(0, 52), *p_values(1.0, 1.0, 52)]
    # Clopper and Pearson: 1 - 0.05^(1/52) = 5.6 %, 1 - 0.001^(1/52) = 12.4 %.
    assert verdict(rows, [], Policy(confidence=confidence))["status"] == outcome


def test_an_expected_count_has_a_bound_as_sure_as_the_policy_asks():
    row = Measurement(kind="extraction", plugin="x", metric="coverage", value=0.02, n=50,
                      low=0.0, high=0.06, scope={"source": "tuned-not-base"})  # fmt: skip
    leak = Leak("x", row, None, None, ())
    assert leak.upper_bound(0.95) == pytest.approx(0.06)
    # 99.9 % one-sided is 3.09 standard deviations, 97.5 % 1.96.
    assert leak.upper_bound(0.999) == pytest.approx(0.02 + 0.04 * 3.0902 / 1.95996, abs=1e-5)


def test_counts_alone_must_beat_the_base_too():
    # Of counts alone it takes five of 52 for McNemar's test: 14.8 %, too much for a pass.
    found = verdict(judged(0, 52), [])
    assert found["status"] == "inconclusive"
    assert found["detectable"] == pytest.approx(0.148, abs=1e-3)
    assert status(judged(4, 52)) != "fail"  # 1/16
    assert status(judged(0, 104)) == "pass"


def test_targets_without_a_counterpart_are_not_looked_at():
    seen = [
        verdict([*judged(0, 52), *p_values(1.0, 1.0, matched)], [])["detectable"]
        for matched in (52, 30, 0)
    ]
    assert seen[0] < seen[1] < seen[2] == 1


def test_what_came_out_leaves_room_for_a_leak():
    rows = [*judged(3, 52), *p_values(0.3, 1.0, 52)]
    found = verdict(rows, [])
    assert found["status"] == "inconclusive"
    # P(Bin(52, r) <= 3) = 5 % at r = 14.2 %.
    assert "perhaps up to 14.2" in found["reasons"][0]


def test_one_string_is_evidence_by_itself():
    rows = [*judged(1, 52), *p_values(0.3, 0.002, 52)]
    found = verdict(rows, [])
    assert found["status"] == "fail"
    assert "hard to guess" in found["reasons"][0]
    assert [test["adjusted"] for test in found["tests"]] == pytest.approx([0.3, 0.004])


def test_findings_speak_where_an_attack_tells_no_p_value():
    rows = [
        coverage(1, 50, source=source, set="all")
        for source in ("tuned", "tuned-not-base")
    ]  # fmt: skip
    rows += [
        coverage(0, 50, source="base", set="all"),
        coverage(0, 99, source="control", set="all"),
    ]
    found = verdict(rows, [finding(1e-5), finding(0.5), finding(1e-9, "other")])
    assert found["status"] == "fail"
    assert found["tests"][1]["p"] == pytest.approx(50e-5)
    # What an attack says of its judged set itself, findings do not overrule.
    alone = [*judged(1, 50), *p_values(0.5, 0.5, 50)]
    assert status(alone, [finding(1e-9)]) != "fail"


def test_holm_over_all_attacks():
    # 0.006 alone is below 1 %; twice 0.006 is not.
    one = [*judged(5, 44), *p_values(0.006, 1.0, 44)]
    alone = [row for row in one if row.scope.get("test") != "string"]
    assert status(alone) == "fail"
    other = [*judged(0, 44, plugin="other"), *p_values(1.0, 1.0, 44, plugin="other")]
    found = verdict([*one, *other], [])
    assert found["status"] != "fail"
    assert sorted(test["p"] for test in found["tests"]) == [0.006, 1, 1, 1]
    assert min(test["adjusted"] for test in found["tests"]) == pytest.approx(0.024)
    surer = [*judged(5, 44), *p_values(0.002, 1.0, 44), *other]
    assert status(surer) == "fail"


def test_inference_accuracy_is_one_test_more():
    found = verdict([*judged(0, 300), *picked(40)], [])
    assert found["status"] == "fail"
    assert [test["name"] for test in found["tests"]] == ["contextual", "ranking (50 candidates)"]


@pytest.mark.parametrize("source", ["tuned", "base"])
def test_more_right_guesses_than_questions_are_no_evidence(source):
    rows = [
        replace(row, hits=row.n + 1) if row.scope.get("source") == source else row
        for row in picked(40)
    ]
    found = verdict([*judged(0, 300), *rows], [])
    assert found["status"] == "inconclusive"
    assert [test["name"] for test in found["tests"]] == ["contextual"]


def test_the_judged_set_goes_before_all_others():
    rows = [*judged(0, 300), *(r for r in judged(150, 300, set="all"))]
    assert [leak.row.scope["set"] for leak in find_leaks(rows)] == [JUDGED]
    assert status(rows) == "pass"
    both = [*judged(150, 300, set="all"), *judged(0, 200, set="prefix-disjoint")]
    assert [leak.row.scope["set"] for leak in find_leaks(both)] == ["all"]


def test_nothing_that_is_the_victims_alone_is_judged_in_no_others_place():
    row = Measurement(
        kind="extraction",
        plugin="contextual",
        metric="coverage",
        value=None,
        reason="nothing of its own",
        scope={"source": "tuned-not-base", "set": JUDGED},
    )
    found = verdict([*judged(150, 300, set="all"), row], [finding(1e-12)])
    assert found["status"] == "inconclusive"
    assert "nothing of its own" in found["reasons"][0]


def test_pairs_of_parties_have_their_own_p_values():
    pairs = [{"attacker": "c0", "victim": "c1"}, {"attacker": "c1", "victim": "c0"}]
    rows = [
        *judged(5, 44, **pairs[0]), *p_values(1e-6, 1.0, 44, **pairs[0]),
        *judged(0, 44, **pairs[1]), *p_values(1.0, 1.0, 44, **pairs[1]),
    ]  # fmt: skip
    found = verdict(rows, [])
    assert [test["p"] for test in found["tests"]] == [1e-6, 1.0, 1.0, 1.0]
    [reason] = found["reasons"]
    assert reason.startswith("contextual (attacker c0, victim c1): 5 of 44")


@pytest.mark.parametrize("render", [html.render, annex.render, cyclonedx.render])
def test_the_work_of_a_page_grows_with_the_rows_and_not_with_their_square(monkeypatch, render):
    counts = Counter()

    def counting(module, name):
        original = getattr(module, name)

        def counted(*arguments, **options):
            counts[name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, counted)

    def work(clients):
        names = permutations([f"c{i}" for i in range(clients)], 2)
        pairs = [{"attacker": attacker, "victim": victim} for attacker, victim in names]
        rows = [row for pair in pairs for row in judged(3, 44, **pair)]
        rows += [row for pair in pairs for row in p_values(0.5, 1, 44, **pair)]
        document = example(measurements=rows, verdict=None).to_json()
        counts.clear()
        render(document)
        return counts["judge"], counts["_attack_key"] / len(rows)

    counting(recheck, "judge")
    counting(extraction, "_attack_key")
    judgements, by_row = work(3)
    assert (judgements, by_row) == work(7)
    assert judgements == 1


@pytest.mark.parametrize("mean", [0.5, 1, 2, 3, 4, 7, 20])
def test_a_base_that_knows_strings_by_luck_is_rarely_taken_for_a_leak(mean):
    # Base and tuned model say the same strings with the same small chance each: how many only one
    # of them says is Poisson, for each on its own. Controls, of which none comes out, are not help.
    counts = np.arange(int(mean + 12 * mean**0.5) + 12)
    chance = poisson.pmf(counts, mean)
    row, control = coverage(0, 400, source="tuned-not-base"), coverage(0, 4000, source="control")
    wrong = sum(
        chance[gained] * chance[lost]
        for gained in counts
        for lost in counts[:gained]  # who lost as many has a p of a half, at least
        if p_value_from_counts(
            replace(row, hits=int(gained)), row, control, replace(row, hits=int(lost))
        )
        <= 0.01
    )
    assert wrong <= 0.01


def test_a_pass_counts_the_controls_that_tell_something():
    # Four of 101 came out, nearly all of a kind with a single control: no p value could be small.
    rows = [*judged(4, 101), *p_values(0.96, 1.0, 101)]
    assert verdict(rows, [])["status"] == "pass"
    thin = number("extraction", "contextual", "effective_controls", 9.0, source="control",
                  set=JUDGED)  # fmt: skip
    found = verdict([*rows, thin], [])
    assert found["status"] == "inconclusive"
    assert found["detectable"] > 0.5
    assert verdict([*rows, replace(thin, value=4000.0)], [])["status"] == "pass"
    assert verdict([*rows, replace(thin, value=0.0)], [])["detectable"] == 1


def test_p_values_from_counts_by_hand():
    tuned, base, new, lost, control, _ = judged(3, 10, base=1, lost=1, controls=90)
    assert tuned.hits == 4
    # 3 gained, 1 lost: 5/16. Three hits on ten of a hundred are rarer.
    assert p_value_from_counts(new, base, control, lost) == pytest.approx(5 / 16)
    assert p_value_from_counts(new, base, control) == pytest.approx(5 / 16)


def test_the_report_has_a_table_of_tests():
    beyond = replace(number("extraction", "contextual", "targets", 2.0, set="beyond-reach"), n=46)
    rows = [*judged(5, 44), *p_values(1e-6, 0.5, 44), beyond]
    report = example(measurements=rows, findings=[]).to_json()
    validate(report)
    [table] = [one for one in overview.attack_tables(report) if one.title == "Evidence"]
    assert table.columns == ("test", "p", "adjusted p")
    assert table.rows == (
        ("contextual", "1e-06", "2e-06"),
        ("contextual, by string", "0.5", "0.5"),
    )
    assert table.notes[0] == "Fails at p = 0.01 or less, adjusted for 2 tests (Holm)."
    # A verdict that fails does not say how small a leak would have been missed.
    assert table.notes[1] == (
        "contextual: 2 of 46 targets are longer than an answer and were not looked for."
    )
    assert headline(report) == "fail"
    quiet = example(measurements=[*judged(0, 104)], findings=[]).to_json()
    assert headline(quiet).startswith("pass (a leak of 7.5 % of the targets would have been seen")
    assert not any(one.title == "Other measurements" for one in overview.other_tables(report))


def test_more_hits_than_targets_are_no_evidence():
    rows = [*judged(40, 100, control=3), held_out(0, 100)]
    for at, row in enumerate(rows):
        if row.scope["source"] in ("tuned-not-base", "base", "control", "held-out"):
            odd = [*rows[:at], replace(row, hits=row.n + 1), *rows[at + 1 :]]
            found = verdict(odd, [])
            assert found["status"] == "inconclusive"
            assert "more than there are" in found["reasons"][0]
            # Expected counts are no other: value x n.
            beyond = [*rows[:at], replace(row, hits=None, value=1.7e308), *rows[at + 1 :]]
            assert verdict(beyond, [])["status"] == "inconclusive"
    assert status(rows) == "fail"


def held_out(hits, n, **scope):
    return coverage(hits, n, plugin="contextual", set=JUDGED, source="held-out", **scope)


def test_held_out_records_explain_only_what_would_have_been_a_leak():
    [reason] = verdict([*judged(0, 2, controls=2000), held_out(1, 1000)], [])["reasons"]
    assert reason.endswith("too few targets to see any leak.")


def test_what_came_out_of_held_out_records_as_well_is_explained():
    rows = judged(30, 40, controls=40)
    assert status(rows) == "fail"
    found = verdict([*rows, held_out(30, 40)], [])
    assert "so did 30 of 40 held-out records" in found["reasons"][0]
    assert found["status"] == "inconclusive"
    # Fisher's by hand: of 60 hits among 80, at least 30 fall on the 40 of the victim.
    expected = sum(comb(40, k) * comb(40, 60 - k) for k in range(30, 41)) / comb(80, 60)
    assert found["tests"][0]["p"] == pytest.approx(expected)
    # The larger p-value counts, whichever control it comes from.
    assert verdict([*rows, held_out(0, 4000)], [])["tests"] == [
        {**verdict(rows, [])["tests"][0]},
    ]


def test_the_attacks_own_test_beside_held_out_records_counts_in_place_of_their_counts():
    [test, _] = p_values(0.2, 1.0, 40)
    scope = {**test.scope, "test": "held-out", "groups": 7, "beside": 6}
    found = verdict([*judged(30, 40), held_out(0, 40), replace(test, scope=scope)], [])
    assert found["tests"][0]["p"] == 0.2


@pytest.mark.parametrize("groups", [0, -2, "many"])
def test_held_out_groups_that_are_no_number_count_as_records(groups):
    [test, _] = p_values(1.0, 1.0, 400)
    rows = [*judged(0, 400), held_out(0, 4000)]
    scope = {**test.scope, "test": "held-out", "groups": 400, "beside": groups}
    assert verdict([*rows, replace(test, scope=scope)], [])["detectable"] == pytest.approx(
        verdict(rows, [])["detectable"]
    )


def test_few_groups_of_held_out_records_see_little():
    rows = judged(0, 400)
    assert status(rows) == "pass"
    [test, _] = p_values(1.0, 1.0, 400)
    scope = {**test.scope, "test": "held-out", "groups": 400, "beside": 3}
    found = verdict([*rows, held_out(0, 90), replace(test, scope=scope)], [])
    assert found["status"] == "inconclusive"
    # Of 400 and 3 others it takes x hits with C(400, x) / C(403, x) at most 1 %: 316.
    assert comb(400, 316) / comb(403, 316) <= 0.01 < comb(400, 315) / comb(403, 315)
    r = found["detectable"]
    assert sum(comb(400, k) * r**k * (1 - r) ** (400 - k) for k in range(316, 401)) == (
        pytest.approx(0.9)
    )
