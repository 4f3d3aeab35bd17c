"""The decision against sums by hand: Z, p, Holm, the running Z, who is flagged, who never came."""

import math
from dataclasses import replace
from statistics import NormalDist

import pytest
from attributed_report import power
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.api.watermark import Score
from fedaudit.attribution import measurements, report
from fedaudit.attribution.decision.decision import Decision, count_flags, decide, verdicts
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.metrics.attribution.stouffer import always_valid_boundary
from fedaudit.report.verdict.attribution import judge_attribution


def score(z):
    return Score(z=z, p_value=0.5, n=1, hits=0, chance=0.5)


def scores(*rounds, clients=None, marks=("m0",), reference=0.5, rho=1e-12, **design):
    """Return scores whose difference from the global model's is what `rounds` say by client.

    Estimates hold next to nothing of other clients' updates, unless `rho` says more.
    """
    names = clients or sorted({who for one in rounds for who in one})
    return Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=tuple(names),
        marks=dict.fromkeys(marks, "fictitious"),
        dimension=8,
        rounds=tuple(
            RoundScores(
                round=number,
                reference={mark: score(reference) for mark in marks},
                clients={
                    who: {
                        mark: score(z + reference)
                        for mark, z in zip(
                            marks, own if isinstance(own, tuple) else (own,), strict=True
                        )
                    }
                    for who, own in one.items()
                },
                strength=dict.fromkeys(one, rho),
                effective=dict.fromkeys(one, 1.0),
                **design,
            )
            for number, one in enumerate(rounds, 1)
        ),
    )


def tail(z):
    return math.erfc(z / math.sqrt(2)) / 2


def test_z_is_the_sum_over_the_root_of_a_clients_own_rounds():
    # a: 3 + 2 + 4 = 9 over sqrt 3; b took part in rounds 1 and 3 only: 1 - 2 = -1 over sqrt 2.
    found = decide(scores({"a": 3.0, "b": 1.0}, {"a": 2.0}, {"a": 4.0, "b": -2.0}))
    a, b = found.tests
    assert a.z == pytest.approx(9 / math.sqrt(3))
    assert a.running_z == pytest.approx((3.0, 5 / math.sqrt(2), 9 / math.sqrt(3)))
    assert (a.rounds, b.rounds) == ((1, 2, 3), (1, 3))
    assert b.z == pytest.approx(-1 / math.sqrt(2))
    assert b.running_z == pytest.approx((1.0, -1 / math.sqrt(2)))
    assert (a.flagged, b.flagged) == (True, False)
    # Holm: the smaller p times 2, the larger times 1.
    assert a.p_value == pytest.approx(tail(9 / math.sqrt(3)))
    assert a.adjusted == pytest.approx(2 * tail(9 / math.sqrt(3)))
    assert b.adjusted == pytest.approx(tail(-1 / math.sqrt(2)))


def test_the_global_model_is_subtracted():
    marked = decide(scores({"a": 0.0, "b": 5.0}, reference=12.0))
    assert [one.z for one in marked.tests] == [0.0, 5.0]


def test_holm_is_over_clients_and_marks():
    # z = 3, 0 for a and 2, 1 for b: four p-values in order 3, 2, 1, 0 times 4, 3, 2, 1.
    found = decide(scores({"a": (3.0, 0.0), "b": (2.0, 1.0)}, marks=("m0", "m1")))
    by_z = {one.z: one.adjusted for one in found.tests}
    assert by_z == {
        3.0: pytest.approx(4 * tail(3)),
        2.0: pytest.approx(3 * tail(2)),
        1.0: pytest.approx(2 * tail(1)),
        0.0: pytest.approx(tail(0)),
    }
    assert (found.strongest_test("a").mark, found.strongest_test("b").mark) == ("m0", "m0")


def test_somebody_innocent_is_flagged_in_a_share_alpha_of_federations():
    # Three clients: the first is held against 0.001 / 3 (Z 3.40), so 4 is enough; 40 are not:
    # 0.001 / 40 is a Z of 4.06.
    few = {f"c{n:02}": 4.05 if n == 0 else 0.0 for n in range(3)}
    many = {f"c{n:02}": 4.05 if n == 0 else 0.0 for n in range(40)}
    assert list(decide(scores(few), alpha=0.001).flagged) == ["c00"]
    found = decide(scores(many), alpha=0.001)
    assert not found.flagged
    assert tail(found.tests[0].needed) == pytest.approx(0.001 / 40, rel=1e-4)
    assert list(decide(scores(many), alpha=0.002).flagged) == ["c00"]


def test_who_is_next_to_a_marked_client_needs_more():
    # b shows 20 in each of two rounds; an estimate holds a normal share of it with a variance of
    # 0.5 / 2, for two others. What a takes from b has a standard deviation of 10, and chance of 1;
    # if nothing can count against a mark, it is even likelier.
    rounds = [{"a": 4.0, "b": 20.0, "c": 0.0}] * 2
    a, b, c = decide(scores(*rounds, rho=0.5)).tests
    assert a.z == pytest.approx(4 * 2**0.5)
    assert tail(a.z / math.sqrt(101)) < a.p_value < 0.5
    assert (a.published, a.flagged) == (True, False)
    assert a.needed > 20
    # Nobody else shows so much as b, so little explains it.
    assert b.flagged
    assert b.p_value < 1e-9
    assert c.p_value > 0.5
    assert decide(scores(*rounds)).tests[0].flagged


@given(
    st.lists(st.lists(st.floats(-3, 12), min_size=8, max_size=8), min_size=1, max_size=3),
    st.sampled_from([0.01, 0.1, 0.4]),
    st.sampled_from([0.0, 0.05, 1.0]),
)
def test_verdicts_are_those_of_the_decision(rows, alpha, up_to):
    rounds = [{f"c{n}": (own[2 * n], own[2 * n + 1]) for n in range(4)} for own in rows]
    made = scores(*rounds, marks=("m0", "m1"), rho=0.5)
    found = verdicts(made, alpha=alpha, up_to=up_to)
    for one in decide(made, alpha=alpha).tests:
        short = found[one.client, one.mark]
        assert (short.z, short.flagged) == (one.z, one.flagged)
        if short.p_value != one.p_value:
            assert max(up_to, alpha) < short.p_value < one.p_value


def test_tau_itself_is_not_above_tau():
    found = decide(scores({"a": 4.0, "b": math.nextafter(4.0, 5), "c": 3.0}, reference=0.0))
    assert [one.z for one in found.tests] == [4.0, math.nextafter(4.0, 5), 3.0]
    assert list(found.flagged) == ["b"]
    lower = decide(scores({"a": 4.0, "c": 3.0}, reference=0.0), threshold=3.0)
    assert list(lower.flagged) == ["a"]


def test_a_flag_under_any_mark_is_a_flag():
    found = decide(scores({"a": (-3.0, 5.0)}, marks=("m0", "m1")))
    assert found.flagged["a"].mark == "m1"
    assert found.strongest_test("nobody") is None


def test_settled_is_the_round_whose_bound_the_running_z_first_exceeds():
    # docs/estimator.md: at alpha 1e-4 or so the bounds fall from 6.33 (round 1) to 5.54 and 5.26.
    # Here alpha is 3.2e-5 a test, two clients: after two rounds of 4 Z is 5.66, above 5.54.
    alpha = 2 * tail(4)
    found = decide(scores({"a": 4.0, "b": 0.0}, {"a": 4.0, "b": 0.0}), alpha=alpha)
    assert [one.settled_round for one in found.tests] == [2, None]
    at_once = decide(scores({"a": 6.4, "b": 0.0}, {"a": -9.0, "b": 0.0}), alpha=alpha)
    assert at_once.tests[0].settled_round == 1
    assert not at_once.tests[0].flagged  # it does not change who is flagged
    many = decide(scores({f"c{n}": 4.0 for n in range(40)}, {"c0": 4.0}), alpha=alpha)
    assert many.tests[0].settled_round is None  # the error is shared by 40 clients


def test_a_settled_round_is_the_rounds_number_and_not_how_many_there_were():
    found = decide(scores({"b": 0.0}, {"a": 9.0, "b": 0.0}))
    assert {one.client: one.settled_round for one in found.tests} == {"a": 2, "b": None}
    [finding] = measurements.findings(found)
    assert finding.evidence["settled_round"] == 2
    assert {name for name, value in finding.evidence.items() if type(value) is str} == {
        *finding.safe
    }


def test_who_never_took_part_is_absent_and_null_with_a_reason():
    found = decide(scores({"a": 1.0, "b": 0.0}, clients=["a", "b", "ghost"]))
    assert found.absent == ("ghost",)
    told = [
        row for row in measurements.decision_rows(found, 4.0) if row.scope == {"client": "ghost"}
    ]
    assert [(row.value, row.n, row.reason) for row in told] == [
        (None, 0, "it took part in none of the rounds")
    ]


def test_without_rounds_nobody_is_tested():
    found = decide(scores(clients=["a", "b"]))
    assert (found.tests, found.absent, found.flagged) == ((), ("a", "b"), {})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"threshold": math.nan}, "tau must be a finite number"),
        ({"threshold": math.inf}, "tau must be a finite number"),
        ({"alpha": 0.0}, "alpha must lie between 0 and 0.5"),
        ({"alpha": 0.5}, "alpha must lie between 0 and 0.5"),
        ({"alpha": math.nan}, "alpha must lie between 0 and 0.5"),
    ],
)
def test_thresholds_that_decide_nothing(changes, says):
    with pytest.raises(UsageError, match=says):
        decide(scores({"a": 1.0}), **changes)


def test_scores_that_are_not_finite():
    with pytest.raises(ValueError, match="not a finite number"):
        decide(scores({"a": math.nan}))


finite = st.floats(-20, 20).map(lambda value: round(value, 3))
tables = st.lists(
    st.dictionaries(st.sampled_from("abcde"), finite, min_size=1), min_size=1, max_size=5
)


@given(tables, st.randoms())
def test_neither_the_order_of_clients_nor_of_rounds_changes_a_flag(drawn, random):
    straight = decide(scores(*drawn))
    shuffled = list(drawn)
    random.shuffle(shuffled)
    mixed = decide(scores(*[dict(random.sample(sorted(o.items()), len(o))) for o in shuffled]))
    assert set(straight.flagged) == set(mixed.flagged)
    for one in straight.tests:
        other = mixed.strongest_test(one.client)
        assert other.z == pytest.approx(one.z, abs=1e-9)
        assert sorted(other.scores) == sorted(one.scores)
        assert other.adjusted == pytest.approx(one.adjusted, rel=1e-6)


@pytest.mark.parametrize("rho", [1e-12, 0.8])
@given(drawn=tables)
def test_p_and_flags_keep_their_bounds(drawn, rho):
    found = decide(scores(*drawn, rho=rho))
    for one in found.tests:
        assert 0 < one.p_value <= one.adjusted <= 1
        assert one.flagged == (one.z > one.needed >= 4)
        assert one.flagged == (one.published and one.adjusted <= 0.01)
        assert one.published == (one.z > 4)
        assert one.running_z[-1] == one.z
        assert len(one.running_z) == len(one.rounds)


def test_rates_by_hand():
    truth = {"a": "m0", "b": "m1", "c": "", "d": "", "e": "m0"}
    flagged = {"a": {"m0"}, "c": {"m1"}}
    found = count_flags(flagged, ["a", "b", "c", "d"], truth)  # e took no part
    assert found == {"tpr": (1, 2), "fpr": (1, 2)}


def test_a_client_flagged_by_somebody_elses_mark_alone_is_not_caught():
    truth = {"a": "m0", "b": "m1", "c": "m1"}
    flagged = {"a": {"m1"}, "b": {"m0", "m1"}, "c": {""}}  # c: by a method that names no mark
    assert count_flags(flagged, ["a", "b", "c"], truth)["tpr"] == (2, 3)


def known(truth):
    flagged = {"a": {"m0"}}
    return {
        row.metric: row for row in measurements.error_rates("fed_attr", flagged, ["a", "b"], truth)
    }


def test_a_rate_over_nobody_is_null_with_a_reason():
    everybody = known({"a": "m0", "b": "m0"})
    assert (everybody["tpr"].value, everybody["tpr"].n) == (0.5, 2)
    assert (everybody["fpr"].value, everybody["fpr"].n) == (None, 0)
    assert "innocent" in everybody["fpr"].reason
    nobody = known({"a": "", "b": ""})
    assert nobody["tpr"].value is None
    assert "trained on documents with these marks" in nobody["tpr"].reason
    assert (nobody["fpr"].value, nobody["fpr"].hits) == (0.5, 1)
    assert nobody["fpr"].low < 0.5 < nobody["fpr"].high
    assert known({}) == {}  # nobody knows the truth: nothing is said


def test_strengths_are_means_of_the_marks_that_count():
    found = decide(
        scores({"a": (6.0, 1.0), "b": (0.0, 2.0), "c": (-1.0, -2.0)}, marks=("m0", "m1"))
    )
    told = {
        row.scope["clients"]: (row.value, row.n)
        for row in measurements.mean_z_rows(found, {"a": "m0", "b": "", "c": ""})
    }
    assert told == {"marked": (6.0, 1), "innocent": (0.5, 2)}  # (2 - 1) / 2
    one, two = measurements.mean_z_rows(found, {"a": "m0", "b": "", "c": ""})
    assert (one.low, one.high) == pytest.approx((6 - 1.959964, 6 + 1.959964))
    # The standard deviation of 2 and -1 is 3 / sqrt(2): t(1) 3 / sqrt(2) / sqrt(2).
    assert (two.low, two.high) == pytest.approx((0.5 - 12.706205 * 1.5, 0.5 + 12.706205 * 1.5))
    assert list(measurements.mean_z_rows(Decision(tests=()), {})) == []


def test_the_most_telling_test_of_a_client_is_one_that_flags_it():
    # Under m0 Z is 6 and 8 are needed, 2 standard deviations; under m1 Z is 5 and 4 are needed.
    plain = scores({"a": (6.0, 5.0)}, marks=("m0", "m1"), reference=0.0)
    [one] = plain.rounds
    wide = replace(one.clients["a"]["m0"], null=(2.0, -2.0) * 100)
    none = {mark: replace(own, null=(0.0, 0.0) * 100) for mark, own in one.reference.items()}
    own = {"m0": wide, "m1": replace(one.clients["a"]["m1"], null=(1.0, -1.0) * 100)}
    found = decide(replace(plain, rounds=(replace(one, reference=none, clients={"a": own}),)))
    assert [(t.z, t.needed, t.flagged) for t in found.tests] == [(6, 8, False), (5, 4, True)]
    assert [t.published for t in found.tests] == [True, True]
    assert found.strongest_test("a").mark == "m1"
    [finding] = measurements.findings(found)
    assert (finding.evidence["z"], finding.evidence["needed"]) == (5.0, 4.0)
    [told] = [r for r in measurements.decision_rows(found, 4.0) if r.baseline is not None]
    assert (told.value, told.baseline) == (5.0, 4.0)


def test_the_limits_say_what_the_p_values_take_for_granted():
    [taken, *_] = report.protocol_limits(decide(scores({"a": 1.0})))
    assert "standard normal and independent" in taken
    plain = scores({"a": 1.0})
    [one] = plain.rounds
    null = {"m0": replace(one.reference["m0"], null=(0.5,) * 7)}
    held = replace(plain, rounds=(replace(one, reference=null, clients={"a": null}),))
    [taken, *_] = report.protocol_limits(decide(held))
    assert "compared with 7 marks that were never issued" in taken


def test_a_single_round_is_said_to_be_no_evidence():
    once, twice = scores({"a": 9.0}), scores({"a": 9.0}, {"a": 9.0})
    said = [" ".join(report.protocol_limits(decide(one))) for one in (once, twice)]
    assert ["score a second round" in words for words in said] == [True, False]


def emptied(made, number, *names):
    """Return scores of which those of some clients, or of "global", are of nothing in a round."""
    rounds = []
    for one in made.rounds:
        tables = {"global": one.reference, **one.clients}
        for name in names if one.round == number else ():
            tables[name] = {
                mark: replace(own, n=0, hits=0, z=0.0) for mark, own in tables[name].items()
            }
        rounds.append(replace(one, reference=tables.pop("global"), clients=tables))
    return replace(made, rounds=tuple(rounds))


@pytest.mark.parametrize(
    ("names", "untested"), [((), ""), (("b",), "b"), (("global",), "abc"), (("a", "b"), "ab")]
)
def test_nothing_to_test_is_no_test(names, untested):
    made = emptied(scores(*[{"a": 7.0, "b": 0.0, "c": 1.0}] * 2), 2, *names)
    found = decide(made)
    assert {t.client: t.empty_rounds for t in found.tests} == {
        who: (2,) if who in untested else () for who in "abc"
    }
    assert list(found.flagged) == ([] if "a" in untested else ["a"])
    rows = list(measurements.decision_rows(found, 4.0))
    told = {r.scope["client"]: r for r in rows if r.metric == "stouffer_z" and r.value is None}
    assert set(told) == set(untested)
    assert {r.reason for r in told.values()} <= {
        "answers had nothing to test by mark m0 in round 2"
    }
    [(status, reason)] = [(j.status, j.reason) for j in judge_attribution(rows)]
    assert status == ("inconclusive" if "a" in untested else "fail")
    if status == "inconclusive":
        assert "\n" not in reason
        assert f"{len(untested)} of 3 clients could not be tested: a (answers had no" in reason


def test_who_had_nothing_to_test_by_one_of_two_marks_is_no_pass():
    made = scores({"a": (1.0, 0.0), "b": (0.0, 0.0)}, marks=("m0", "m1"))
    [one] = made.rounds
    silent = {**one.clients["b"], "m1": replace(one.clients["b"]["m1"], n=0, z=0.0)}
    found = decide(replace(made, rounds=(replace(one, clients={**one.clients, "b": silent}),)))
    rows = list(measurements.decision_rows(found, 4.0))
    [judged] = judge_attribution(rows)
    assert judged.status == "inconclusive"
    assert (
        "1 of 2 clients could not be tested: b (answers had nothing to test by mark m1 in ro"
        in (judged.reason)
    )
    tested = list(measurements.decision_rows(decide(made), 4.0))
    [judged] = judge_attribution([*tested, power()])
    assert judged.status == "pass"


@pytest.mark.parametrize(
    ("n", "hits", "chance", "says"),
    [
        (30, 9, 0.25, "as few as 7.5 hits are expected by chance"),
        (100, 97, 0.95, "as few as 5 hits"),
        (40, 12, 0.25, ""),
        (0, 0, 0.25, ""),
    ],
)
def test_the_limits_name_marks_of_skewed_counts(n, hits, chance, says):
    z = (hits - n * chance) / math.sqrt(n * chance * (1 - chance)) if n else 0.0
    counted = {"m0": Score(z=z, p_value=0.5, n=n, hits=hits, chance=chance)}
    [one] = scores({"a": 1.0}).rounds
    held = replace(scores({"a": 1.0}), rounds=(replace(one, clients={"a": counted}),))
    told = report.skewed_count_caveats(held)
    assert [says in limit for limit in told] == [True] * bool(says)
    # Another statistic than a count's does not follow from hits and chance.
    other = {"m0": replace(counted["m0"], z=z + 0.1)}
    held = replace(held, rounds=(replace(one, clients={"a": other}),))
    assert report.skewed_count_caveats(held) == []


def test_heavy_tails_of_null_marks_make_p_greater_and_are_told():
    # The same spread of 1, once as the normal law's quantiles and once with a few marks far out.
    normal = [NormalDist().inv_cdf((at + 0.5) / 100) for at in range(100)]
    far = [0.0] * 96 + [5.0, -5.0, 5.0, -5.0]
    [one] = scores({"a": 4.2, "b": 0.0}).rounds
    by_tails = {}
    for name, null in (("normal", normal), ("far", far)):
        clients = {
            who: {"m0": replace(own["m0"], null=tuple(null))} for who, own in one.clients.items()
        }
        reference = {"m0": replace(one.reference["m0"], null=(0.0,) * 100)}
        held = replace(one, clients=clients, reference=reference)
        by_tails[name] = decide(replace(scores({"a": 4.2, "b": 0.0}), rounds=(held,)))
    first, heavy = (decision.tests[0] for decision in by_tails.values())
    assert (first.spread, heavy.spread) == (1.0, 1.0)
    assert (first.tail_degrees, first.flagged) == (math.inf, True)
    # Four of a hundred at 5: the fourth moment is 25, and so 3 + 6 / 22 degrees of freedom.
    assert heavy.tail_degrees == pytest.approx(3 + 6 / 22)
    assert not heavy.flagged
    assert heavy.p_value > 8 * first.p_value
    said = {name: report.protocol_limits(d, sets_known=False) for name, d in by_tails.items()}
    assert not any("heavier tails" in limit for limit in said["normal"])
    assert any(
        "for mark m0, marks that were never issued show that chance has heavier" in limit
        for limit in said["far"]
    )


def shares(rounds, *, of=None, by=0.4, target="d"):
    """Return shares of nothing, but for one target's of one other client in some rounds."""
    names = "abcd"
    table = {
        number: {who: {x: 0.0 for x in names if x != who} for who in names}
        for number in range(1, rounds + 1)
    }
    for number in of or {}:
        table[number][target][of[number]] = by
    return table


def test_whoever_knows_the_sets_tells_a_marked_client_from_one_that_holds_another():
    # Everybody but c shows 7 in each of four rounds; K = 5, m = 2 of three others.
    shown = [{"a": 7.0, "b": 7.0, "c": 0.0, "d": 7.0}] * 4
    made = scores(*shown, rho=0.48, others=2, pairs=5, limit=0.4)
    # Not knowing the sets, each may hold 0.4 of the two others in all four rounds.
    assert not decide(made).flagged
    # Where nobody holds anything of anybody, all three are marked.
    assert set(decide(made, shares=shares(4)).flagged) == {"a", "b", "d"}
    # d's estimates hold 0.4 of a's update: it may answer like a; a and b still hold nothing.
    holding = shares(4, of=dict.fromkeys(range(1, 5), "a"))
    found = decide(made, shares=holding)
    assert set(found.flagged) == {"a", "b"}
    assert found.strongest_test("d").p_value == pytest.approx(0.5, abs=0.01)
    # If a sent its update ten times, 0.1 of it is all of it.
    little = shares(4, of=dict.fromkeys(range(1, 5), "a"), by=0.1)
    assert "d" not in decide(made, shares=little).flagged
    # Ten times 0.03 is too little for an answer at once, and leaves 9.8 of Z = 14: marked.
    little = shares(4, of=dict.fromkeys(range(1, 5), "a"), by=0.03)
    assert "d" in decide(made, shares=little).flagged
    # Three rounds of four may be answered at once: the fourth says enough.
    thrice = decide(made, shares=shares(4, of=dict.fromkeys((1, 2, 4), "a")))
    assert set(thrice.flagged) == {"a", "b", "d"}
    # Its score, half of Z, must be 2.576 at the last of Holm's levels (the others' tests are
    # flagged before it): less what is kept for hypotheses that are left out.
    assert thrice.strongest_test("d").needed == pytest.approx(2 * 2.576, abs=0.08)
    # Whom it holds is what counts: c shows nothing.
    assert "d" in decide(made, shares=shares(4, of=dict.fromkeys(range(1, 5), "c"))).flagged


def test_known_sets_cost_a_tenth_of_alpha():
    found = decide(scores({"a": 5.0, "b": 0.0}), shares={1: {"a": {"b": 0.0}, "b": {"a": 0.0}}})
    # Two tests at 1 %: what may be left out is a tenth of that, on top of chance.
    assert found.strongest_test("a").p_value == pytest.approx(tail(5.0) + 0.01 * 0.1 / 2)


@pytest.mark.parametrize("unopened", [0, 1, 9, 10, 1000])
def test_what_known_sets_cost_is_shared_by_the_tests_of_marks_that_nobody_opened(unopened):
    held = {1: {"a": {"b": 0.0}, "b": {"a": 0.0}}}
    found = decide(scores({"a": 9.0, "b": 0.0}), shares=held, unopened=unopened)
    tests = 2 * (1 + unopened)
    strongest = found.strongest_test("a")
    assert strongest.p_value == pytest.approx(tail(9.0) + 0.01 * 0.1 / tests)
    assert strongest.adjusted == pytest.approx(tests * tail(9.0) + 0.01 * 0.1)
    assert set(found.flagged) == {"a"}


def test_marks_that_nobody_opened_raise_what_is_needed_and_settled():
    rounds = [{"a": 2.6, "b": 0.0}] * 6
    alone, among = (decide(scores(*rounds), unopened=count).tests[0] for count in (0, 5000))
    # Z is 6.4 after six rounds: p = 9.7e-11, and 10,002 tests make it 9.7e-7.
    assert among.adjusted == pytest.approx(10_002 * among.p_value)
    assert (alone.flagged, among.flagged) == (True, True)
    assert tail(among.needed) == pytest.approx(0.01 / 10_002, rel=1e-3)
    # The boundaries of 1 % over 2 and over 10,002 tests, after each round.
    levels = [[always_valid_boundary(n, 0.01 / tests) for n in range(1, 7)] for tests in (2, 10002)]
    first = [next((n for n, z in enumerate(alone.running_z, 1) if z > at[n - 1]), None)
             for at in levels]  # fmt: skip
    assert [alone.settled_round, among.settled_round] == first
    assert first[0] != first[1]


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 0.2])
def test_known_sets_flag_alike_whatever_order_clients_come_in(alpha):
    made = scores({"a": 7.0, "b": 9.0, "c": 1.0, "d": 6.0}, {"a": 7.0, "c": 0.0, "d": 6.0})
    table = shares(2, of={1: "b"}, by=0.4, target="d")
    del table[2]["b"]
    turned = replace(
        made,
        clients=made.clients[::-1],
        rounds=tuple(
            replace(one, clients=dict(reversed(one.clients.items()))) for one in made.rounds
        ),
    )
    first, second = (decide(one, alpha=alpha, shares=table) for one in (made, turned))
    assert first.marks == second.marks
    for test in first.tests:
        other = second.strongest_test(test.client)
        assert test.p_value == pytest.approx(other.p_value, rel=1e-9)
