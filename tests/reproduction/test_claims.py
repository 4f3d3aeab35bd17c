from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Measurement
from fedaudit.config.profile import parse
from fedaudit.reproduction.claims import (
    check_claims,
    check_claims_of_seed,
    compare_figures,
    find_row,
)


def row(metric, value, low, high, **scope):
    return Measurement(
        kind="extraction", plugin="p", metric=metric, value=value, low=low, high=high, scope=scope
    )


ROWS = {
    "a": [
        row("coverage", 0.2, 0.1, 0.3, source="tuned", set="all"),
        row("coverage", 0.9, 0.8, 1.0, source="tuned", set="all", label="PERSON"),
        row("coverage", 0.01, 0.0, 0.05, source="base", set="all"),
    ],
    "b": [
        row("coverage", 0.1, 0.05, 0.2, source="tuned", set="all"),
        row("coverage", 0.0, 0.0, 0.04, source="base", set="all"),
    ],
    "zero": [row("coverage", 0.0, 0.0, 0.08, source="tuned", set="all")],
    "short": [
        Measurement(
            kind="extraction",
            plugin="p",
            metric="coverage",
            value=None,
            reason="no text is long enough",
            scope={"source": "tuned", "set": "all"},
        )
    ],
}


def profile(**claim):
    table = {
        "name": "p",
        "scale": {},
        "study": [{"name": name} for name in ("a", "b", "zero", "short", "missing")],
        "claims": [{"id": "c", "source": "s", "statement": "t", **claim}],
    }
    return parse(table)


def side(variant, source):
    scope = {"source": source, "set": "all"}
    return {"variant": variant, "metric": "coverage", "scope": scope}


def told(**claim):
    (found,) = check_claims(profile(**claim), ROWS)
    return found.holds, found.detail


def outcome(**claim):
    return told(**claim)[0]


def test_factor_and_margin_move_the_right_side():
    # 0.2 > 2 * 0.1 is false, 0.2 >= 2 * 0.1 is true, 0.2 > 1 * 0.1 + 0.15 is false
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned"), "apart": False}
    assert outcome(**sides, compare=">", factor=2.0) is False
    assert outcome(**sides, compare=">=", factor=2.0) is True
    assert outcome(**sides, compare=">", margin=0.15) is False


def test_a_number_can_be_the_right_side():
    assert outcome(left=side("a", "tuned"), compare=">=", right=0.08) is True


def test_what_was_not_measured_neither_holds_nor_fails():
    assert outcome(left=side("missing", "tuned"), compare=">", right=0.0) is None


def test_a_reason_why_nothing_was_measured_is_passed_on():
    sides = {"left": side("short", "tuned"), "right": side("missing", "tuned")}
    assert told(**sides, compare=">") == (None, "not measured: no text is long enough")
    sides = {"left": side("a", "tuned"), "right": side("missing", "tuned")}
    assert told(**sides, compare=">") == (None, "not measured in this run")


def test_it_is_said_when_the_intervals_of_two_values_overlap():
    # [0.1, 0.3] and [0.05, 0.2] do; [0.1, 0.3] and the base's [0, 0.04] do not.
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned"), "apart": False}
    assert told(**sides, compare=">") == (True, "0.2 > 0.1; the intervals overlap")
    assert told(**sides, compare="<") == (False, "0.2 < 0.1; the intervals overlap")
    apart = {"left": side("a", "tuned"), "right": side("b", "base")}
    assert told(**apart, compare=">") == (True, "0.2 > 0")


def test_factor_and_margin_move_the_right_sides_interval_too():
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned")}
    # 0.4 * [0.05, 0.2] = [0.02, 0.08], below [0.1, 0.3]; 0.5 * ... + 0.05 = [0.075, 0.15] is not
    assert told(**sides, compare=">", factor=0.4) == (True, "0.2 > 0.04")
    assert told(**sides, compare=">", factor=0.5, margin=0.05)[1].endswith("overlap")


@pytest.mark.parametrize("said", [{}, {"apart": True}])
def test_a_claim_of_two_values_is_open_where_their_intervals_overlap(said):
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned"), **said}
    assert told(**sides, compare=">") == (None, "0.2 > 0.1; the intervals overlap")
    assert outcome(**sides, compare="<") is None
    sides |= {"right": side("b", "base")}
    assert outcome(**sides, compare=">") is True
    assert outcome(**sides, compare="<") is False


def test_a_value_can_be_held_against_a_number_with_its_interval():
    # [0.1, 0.3] holds 0.1 and 0.25 and is above 0.05; [0, 0.08] of nothing found holds 0.
    sides = {"left": side("a", "tuned"), "compare": ">"}
    assert told(**sides, right=0.25) == (None, "0.2 > 0.25; the interval holds that number")
    assert outcome(**sides, right=0.25, apart=False) is False
    assert outcome(**sides, right=0.05) is True
    assert outcome(**sides, right=0.35) is False
    nothing = {"left": side("zero", "tuned"), "compare": ">", "right": 0.0}
    assert (outcome(**nothing, apart=False), outcome(**nothing)) == (False, None)


@pytest.mark.parametrize("bare", ["a", "b"])
def test_a_value_without_an_interval_tells_no_order(bare):
    rows = dict(ROWS) | {bare: [row("coverage", 0.7, None, None, source="tuned", set="all")]}
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned"), "compare": ">="}
    [found] = check_claims(profile(**sides), rows)
    assert found.holds is None
    assert found.detail.endswith("; what is measured has no interval to judge the order by")
    [plain] = check_claims(profile(**sides, apart=False), rows)
    assert plain.holds is (bare == "a")
    one = {"left": side(bare, "tuned"), "compare": ">=", "right": 0.5}
    assert check_claims(profile(**one, apart=False), rows)[0].holds is True
    assert check_claims(profile(**one), rows)[0].holds is None


def test_an_interval_without_an_upper_end_reaches_beyond_every_value():
    rows = dict(ROWS) | {"a": [row("coverage", 6.0, 5.0, None, source="tuned", set="all")]}
    above = {"left": side("a", "tuned"), "right": side("b", "tuned"), "compare": ">"}
    assert check_claims(profile(**above), rows)[0].holds is True
    rows["b"] = [row("coverage", 60.0, 50.0, 70.0, source="tuned", set="all")]
    assert check_claims(profile(**above), rows)[0].holds is None
    assert check_claims(profile(**above, factor=-1.0), rows)[0].holds is True


def test_nothing_on_both_sides_can_leave_a_claim_open():
    sides = {"left": side("zero", "tuned"), "right": side("b", "base"), "compare": ">="}
    sides["apart"] = False
    assert outcome(**sides) is True
    assert told(**sides, something=True) == (
        None,
        "0 >= 0; both are 0, which says nothing about their order",
    )
    assert outcome(**sides, factor=4.0, something=True) is None
    one = {"left": side("a", "tuned"), "right": side("zero", "tuned"), "compare": ">="}
    one["apart"] = False
    assert outcome(**one, something=True) is True
    assert outcome(left=side("zero", "tuned"), right=side("a", "tuned"), compare=">=",
                   something=True, apart=False) is False  # fmt: skip


def paired(pairs, **claim):
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned"), "paired": True}
    tables = [
        {
            name: [row("coverage", value, value / 2, 2 * value, source="tuned", set="all")]
            for name, value in zip("ab", pair, strict=True)
        }
        for pair in pairs
    ]
    means = {
        name: [row("coverage", fmean(values), 0.0, 1.0, source="tuned", set="all")]
        for name, values in zip("ab", zip(*pairs, strict=True), strict=True)
    }
    [found] = check_claims(profile(**{**sides, "compare": "<=", **claim}), means, tables)
    return found


def test_paired_values_are_judged_by_the_differences_of_the_seeds():
    # 0.9, 0.7, 0.8 against 1, 0.9, 0.9: differences -0.1, -0.2, -0.1, mean -0.4/3, sd 0.1/sqrt(3);
    # t(2) is 4.30265, so the margin is 4.30265 * 0.1 / 3 = 0.14342 and the interval holds 0.
    pairs = [(0.9, 1.0), (0.7, 0.9), (0.8, 0.9)]
    found = paired(pairs)
    assert found.holds is None
    assert found.detail == (
        "0.8 <= 0.9333; the difference is -0.1333 [-0.2768, 0.01009] over seeds"
    )
    # 1.2 times the right side: -0.3, -0.38, -0.28, surely below 0, and surely not above.
    assert paired(pairs, factor=1.2).holds is True
    assert paired(pairs, factor=1.2, compare=">=").holds is False
    assert paired(pairs[:1]).holds is None
    assert paired(pairs[:1]).detail == "0.9 <= 1; one seed has no interval of the difference"


def test_a_seed_of_several_has_pairs_by_their_numbers():
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned"), "paired": True}
    [one] = check_claims_of_seed(profile(**sides, compare=">"), ROWS)
    assert (one.holds, one.detail) == (True, "0.2 > 0.1; the intervals overlap")


def test_pairs_that_show_no_chance_are_open():
    """Differences that are equal by luck, of counts or of records that all seeds have."""
    assert paired([(0.2, 0.1)] * 3, compare=">").holds is None
    assert paired([(0.2, 0.1)] * 3, compare=">").detail.endswith("which gives it no interval")
    assert paired([(0.0, 0.0)] * 3, something=True).detail.endswith("nothing about their order")
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned"), "compare": ">="}
    claim = profile(**sides, paired=True)
    seeds = [
        {"a": [counted(hits)], "b": [row("coverage", 0.1, 0, 1, source="tuned", set="all")]}
        for hits in (5, 6, 7)
    ]
    [found] = check_claims(claim, ROWS, seeds)
    assert (found.holds, found.detail) == (
        None,
        "0.2 >= 0.1; counts are judged by their own intervals, not in pairs",
    )
    [found] = check_claims(claim, ROWS, [ROWS, ROWS], same_records=True)
    assert found.holds is None
    assert found.detail.endswith("what records do to the difference")


def counted(hits):
    scope = {"source": "tuned", "set": "all"}
    return Measurement.rate(hits, 11, kind="extraction", plugin="p", metric="coverage", scope=scope)


def test_a_pair_that_a_seed_lacks_leaves_the_claim_open():
    full = {name: ROWS[name] for name in "ab"}
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned"), "compare": ">"}
    claim = profile(**sides, paired=True)
    [found] = check_claims(claim, ROWS, [full, {"a": ROWS["a"]}])
    assert (found.holds, found.detail) == (None, "0.2 > 0.1; not measured in this run")
    [alone] = check_claims(claim, {"a": ROWS["a"]}, [full])
    assert (alone.holds, alone.detail) == (None, "not measured in this run")


@pytest.mark.parametrize("more", [{"apart": False}, {"right": 0.5}])
def test_paired_is_for_two_measured_values_alone(more):
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned"), "compare": ">"}
    with pytest.raises(UsageError, match="two measured values"):
        profile(**{**sides, "paired": True, **more})


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=2, max_size=6),
    st.sampled_from([">", "<"]),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_seeds_does_not_matter_to_pairs(pairs, compare, shuffler):
    other = shuffler.sample(pairs, len(pairs))
    assert paired(pairs, compare=compare).holds == paired(other, compare=compare).holds


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.sampled_from([">", ">=", "<", "<="]),
)
def test_an_order_beyond_the_intervals_is_one_of_the_values(first, second, compare):
    rows = {}
    for name, ends in (("a", sorted(first)), ("b", sorted(second))):
        rows[name] = [row("coverage", ends[1], ends[0], ends[2], source="tuned", set="all")]
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned"), "compare": compare}
    [plain] = check_claims(profile(**sides, apart=False), rows)
    [strict] = check_claims(profile(**sides), rows)
    touch = sorted(first)[0] <= sorted(second)[2] and sorted(second)[0] <= sorted(first)[2]
    assert strict.holds == (None if touch else plain.holds)
    assert plain.detail == strict.detail


def test_the_least_specific_row_is_meant():
    found = find_row(ROWS["a"], "coverage", {"source": "tuned"})
    assert found is not None
    assert found.value == 0.2
    assert find_row(ROWS["a"], "coverage", {"label": "PERSON"}).value == 0.9
    assert find_row(ROWS["a"], "loss", {}) is None


def test_published_figures_stand_beside_ours():
    table = {
        "name": "p",
        "scale": {},
        "figures": [
            {"source": "s", "what": "w", "metric": "coverage", "value": 0.3, "variant": "b"},
            {"source": "s", "what": "w", "metric": "coverage", "value": 0.3, "variant": "none"},
        ],
    }
    assert [ours for _, ours in compare_figures(parse(table).figures, ROWS)] == [0.1, None]


def test_a_claim_about_a_variant_nobody_runs_is_refused():
    with pytest.raises(UsageError, match="Did you mean 'missing'"):
        profile(left=side("misssing", "tuned"), compare=">", right=0.0)
