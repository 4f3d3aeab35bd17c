"""Means over seeds by hand, what they leave open, and a study of several seeds without training."""

import math
from dataclasses import asdict, replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Claim, Finding, Measurement
from fedaudit.config.profile import parse
from fedaudit.metrics.intervals import wilson
from fedaudit.report.document import schema_violation
from fedaudit.reproduction import runner
from fedaudit.reproduction.outcome_cache import VariantOutcome
from fedaudit.reproduction.seeds import claims_with_seed_counts, interval, mean_rows, untuned_seeds
from fedaudit.reproduction.variant import Watch

T2 = 4.302653
"""The quantile of Student's t with two degrees of freedom that 2.5 % are above."""


def row(value, metric="coverage", scope=(), **more):
    scope = {"variant": "v", **dict(scope)}
    return Measurement(
        kind="extraction", plugin="p", metric=metric, value=value, scope=scope, **more
    )


def share(hits, n, **more):
    found = wilson(hits, n)
    return row(found.value, low=found.low, high=found.high, hits=hits, n=n, **more)


def mean(*rows, same_records=False):
    [found] = mean_rows({n: [one] for n, one in enumerate(rows)}, same_records=same_records)
    return found


def test_by_hand():
    # Values 2, 4 and 6: mean 4, standard deviation 2.
    found = mean(*(row(value, "loss", n=10, baseline=value / 2) for value in (2.0, 4.0, 6.0)))
    half = T2 * 2 / math.sqrt(3)
    assert (found.value, found.n, found.baseline) == pytest.approx((4, 30, 2))
    assert (found.low, found.high) == pytest.approx((0, 4 + half))  # no loss is below 0
    below = mean(*(row(value, "stouffer_z") for value in (-2.0, 4.0, 10.0)))
    assert (below.low, below.high) == pytest.approx((4 - 3 * half, 4 + 3 * half))
    assert below.n is None


def test_equal_counts_of_nothing_are_still_counts_of_few():
    # Wilson's upper end of 0 in 20 is z^2 / (20 + z^2) = 0.1611; sums of three independent errors.
    rows = [share(0, 20) for _ in range(3)]
    upper = 1.959964**2 / (20 + 1.959964**2)
    assert mean(*rows).high == pytest.approx(upper / math.sqrt(3), abs=1e-6)
    assert mean(*rows, same_records=True).high == pytest.approx(upper, abs=1e-6)
    assert (mean(*rows).value, mean(*rows).low, mean(*rows).hits) == (0, 0, None)


@pytest.mark.parametrize("metric", ["coverage", "extractable", "tpr"])
def test_no_interval_of_a_share_leaves_what_a_report_allows(metric):
    # Seeds scatter so far that Student's t reaches beyond 1; rows of several pools have no hits.
    rows = [row(value, metric, low=value - 0.1, high=min(1.0, value + 0.1), n=20)
            for value in (0.5, 0.9, 1.0)]  # fmt: skip
    found = mean(*rows)
    half = T2 * math.sqrt(0.07) / math.sqrt(3)
    assert found.value + half > 1
    assert found.high == 1.0
    assert found.low == pytest.approx(0.8 - half)
    assert schema_violation(asdict(found)) == ""
    assert mean(*(replace(one, metric="loss") for one in rows)).high == pytest.approx(0.8 + half)


def test_intervals_end_where_values_of_a_metric_do():
    # Student's t of 0.1, 0.5 and 0.9 reaches from -0.49 to 1.49.
    values = (0.1, 0.5, 0.9)
    half = T2 * 0.4 / math.sqrt(3)

    def ends(metric, **scope):
        found = mean(*(row(value, metric, scope=scope) for value in values))
        return found.low, found.high

    assert ends("auc") == (0, 1)
    assert ends("rouge_l", source="tuned") == (0, 1)
    assert ends("rouge_l", source="tuned-not-base") == pytest.approx((0.5 - half, 1))
    assert ends("loss") == pytest.approx((0, 0.5 + half))
    assert ends("p_value") == (0, 1)
    assert ends("seconds") == pytest.approx((0, 0.5 + half))
    assert ends("a plugin's own") == pytest.approx((0.5 - half, 0.5 + half))


def test_what_has_hits_and_is_no_share_may_be_above_1():
    found = mean(*(row(value, "efficiency", n=10, hits=16) for value in (1.5, 1.6)))
    assert found.high > 2


def test_a_number_without_an_upper_end_has_a_mean_without_one():
    found = mean(row(6.0, low=4.0), row(6.0, low=5.0, high=7.0), same_records=True)
    assert (found.value, found.low, found.high) == (6.0, 4.5, None)


def test_what_one_seed_did_not_measure():
    found = mean(row(0.5, n=4), row(None, n=0, reason="nobody was asked"))
    assert (found.value, found.low, found.n) == (None, None, 4)
    assert found.reason == "not measured with seed 1: nobody was asked"


def test_rows_that_only_some_seeds_have_are_left_out_and_others_are_told_apart():
    one = [row(0.1, scope={"label": "A"}), row(0.2, scope={"label": "B"}), row(3.0, "loss")]
    other = [row(5.0, "loss"), row(0.3, scope={"label": "A"})]
    found = mean_rows({0: one, 1: other}, same_records=False)
    assert [(each.metric, each.value) for each in found] == [
        ("coverage", pytest.approx(0.2)),
        ("loss", pytest.approx(4.0)),
    ]


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda pair: (pair[0], 30 + pair[1])),
        min_size=2,
        max_size=4,
    ),
    st.booleans(),
)
def test_neither_order_of_seeds_nor_anything_else_moves_the_mean_out_of_its_interval(
    counts, same_records
):
    rows = [share(hits, n) for hits, n in counts]
    found = {
        (round(one.value, 12), round(one.low, 12), round(one.high, 12))
        for some in permutations(rows)
        for one in [mean(*some, same_records=same_records)]
    }
    assert len(found) == 1
    [(value, low, high)] = found
    assert 0 <= low <= value <= high <= 1
    assert min(one.value for one in rows) - 1e-12 <= value <= max(one.value for one in rows) + 1e-12


@given(
    st.lists(st.floats(-50, 50), min_size=2, max_size=5),
    st.floats(0.1, 10),
    st.floats(-5, 5),
)
def test_intervals_move_and_grow_with_the_values(values, factor, by):
    none = [None] * len(values)
    endless = (-math.inf, math.inf)
    low, high = interval(
        [value - 100 for value in values], none, none, same_records=False, limits=endless
    )
    moved = [factor * (value - 100) + by - 100 for value in values]
    least, most = interval(moved, none, none, same_records=False, limits=endless)
    assert (least, most) == pytest.approx(
        (factor * low + by - 100, factor * high + by - 100), rel=1e-6, abs=1e-6
    )


def test_seeds_that_settings_were_tuned_on_are_none_of_them():
    assert untuned_seeds(3, 0, [0, 1, 2]) == [3, 4, 5]
    assert untuned_seeds(3, 4, [0, 5]) == [4, 6, 7]
    assert untuned_seeds(2, 0, []) == [0, 1]


def claim(holds, detail="0.5 > 0.1"):
    return Claim(id="c", source="s", statement="t", holds=holds, detail=detail)


def test_a_claim_says_how_many_seeds_bear_it_out():
    [found] = claims_with_seed_counts(
        [claim(None, "0.3 > 0.2; the intervals overlap")],
        {
            3: {"c": claim(True, "0.4 > 0.1")},
            4: {"c": claim(False, "0.1 > 0.3; the intervals overlap")},
        },
    )
    assert found.holds is None
    assert found.detail == (
        "0.3 > 0.2; the intervals overlap; alone it holds with 1 of 2 seeds (3, 4: 0.4 > 0.1; "
        "0.1 > 0.3)"
    )


@pytest.mark.parametrize(
    "detail",
    ["not measured in this run", "not measured: not measured with seed 3: nobody was asked"],
)
def test_a_claim_that_no_seed_measured_counts_none(detail):
    open_claims = [claim(None, "not measured in this run"), claim(None, "not measured: nobody was")]
    by_seed = {seed: {"c": one} for seed, one in enumerate(open_claims, 3)}
    [found] = claims_with_seed_counts([claim(None, detail)], by_seed)
    assert found == claim(None, detail)


PROFILE = parse(
    {
        "name": "made up",
        "tuned_seeds": [0],
        "scale": {"nano": {"clients": 2}},
        "study": [
            {"name": "a", "quick": True, "pool": "both"},
            {"name": "a-5", "simulate": {"seed": 5}, "pool": "both"},
            {"name": "b", "quick": True, "simulate": {"rounds": 3}},
        ],
        "claims": [
            {
                "id": name,
                "source": "s",
                "statement": "a > b",
                "left": {"variant": left, "metric": "coverage"},
                "compare": ">",
                "right": {"variant": "b", "metric": "coverage"},
            }
            for name, left in (("alone", "a"), ("pooled", "both"))
        ],
    }
)
HITS = {("a", 0): 20, ("a", 1): 60, ("a", 2): 70, ("a", 3): 65, ("a-5", 5): 30}


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """Have variants come to counts by their seed; returns which were run."""
    monkeypatch.chdir(tmp_path)  # where the study is locked
    ran = []

    def outcome(task):
        name, seed = task.variant.name, task.config.seed
        ran.append((name, seed))
        rows = (share(HITS.get((name, seed), 10 + seed), 100, scope={"variant": name}),)
        finding = Finding(id=f"{name}-1", severity="low", label="A", measurement="m", evidence={})
        return VariantOutcome(measurements=rows, findings=(finding,), data=(), limits=("told",))

    monkeypatch.setattr(
        runner, "run_tasks", lambda tasks, jobs, watch: [outcome(one) for one in tasks]
    )
    return ran


def study(**more):
    watch = Watch(variant=print, training=print, bar=print)
    options = {"quick": False, "settings": {}, "federations": Path("none"), "jobs": 1}
    return runner.run_study(PROFILE, "nano", redactor=None, watch=watch, **{**options, **more})


def test_one_seed_is_the_study_as_it_is_and_pools_go_without_tuned_seeds(trained):
    found = study()
    assert trained == [("a", 0), ("a-5", 5), ("b", 0)]
    assert found.seeds == (0,)
    # 20 of 100 and 10 of 100 have intervals that overlap; 30 of 100 is apart from that.
    assert [one.holds for one in found.claims] == [None, True]
    pooled = [one for one in found.measurements if one.scope["variant"] == "both"]
    assert [(one.hits, one.n) for one in pooled] == [(30, 100)]
    assert [one.id for one in found.findings] == ["a-1", "a-5-1", "b-1"]
    trained.clear()
    quick = study(quick=True)  # the pool has no other seed
    assert trained == [("a", 0), ("b", 0)]
    assert [one.hits for one in quick.measurements if one.scope["variant"] == "both"] == [20]


def test_several_seeds_are_means_of_untuned_ones_without_the_studys_own(trained):
    found = study(seeds=3)
    assert trained == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3)]
    assert found.seeds == (1, 2, 3)
    by = {one.scope["variant"]: one for one in found.measurements}
    assert (by["a"].value, by["a"].n) == (pytest.approx(0.65), 300)
    half = T2 * 0.05 / math.sqrt(3)
    assert (by["a"].low, by["a"].high) == pytest.approx((0.65 - half, 0.65 + half), abs=1e-6)
    assert by["both"].value == by["a"].value
    assert [one.id for one in found.findings][:2] == ["seed-1-a-1", "seed-1-b-1"]
    [alone, _] = found.claims
    assert alone.holds is True
    assert "holds with 3 of 3 seeds (1, 2, 3: 0.6 > 0.11; 0.7 > 0.12; 0.65 > 0.13)" in alone.detail
    [_, told] = found.limits
    assert told.startswith("numbers are means over the seeds 1, 2, 3,")
    assert told.endswith("settings were tuned on 0, which are none of them")


def test_what_is_judged_on_a_tuned_seed_is_said_and_a_number_of_seeds_has_none(trained):
    [_, told] = study().limits
    assert told.startswith("settings were tuned on seed 0: ")
    trained.clear()
    one = study(seeds=1)
    assert trained == [("a", 1), ("b", 1)]
    assert (one.seeds, one.limits) == ((1,), ("told",))
    assert study(settings={"seed": 4}).limits == ("told",)


def test_a_claim_is_not_judged_on_seeds_that_were_run_before_it_was_changed(trained, monkeypatch):
    first = study(seeds=3)
    assert first.claims[0].holds is True
    stricter = replace(PROFILE.claims[0], margin=0.1)
    monkeypatch.setitem(
        globals(), "PROFILE", replace(PROFILE, claims=(stricter, *PROFILE.claims[1:]))
    )
    again = study(seeds=3)  # seeds 1 to 3 were run for another margin
    assert again.claims[0].holds is None
    assert again.claims[0].detail.endswith(
        "changed after it had been locked for seed 1, 2, 3: other seeds can judge it"
    )
    assert again.claims[1] == first.claims[1]
    assert set(again.lock) == {one.id for one in again.claims}
    for seed, hits in ((4, 60), (5, 70), (6, 65)):
        monkeypatch.setitem(HITS, ("a", seed), hits)
    assert study(seeds=3, settings={"seed": 4}).claims[0].holds is True


def test_a_seed_of_the_users_own_makes_no_pool_of_one_federation(trained):
    # "a-5" with seed 9 would be "a" with seed 9 once more, and count in the pool as another.
    found = study(settings={"seed": 9})
    assert trained == [("a", 9), ("b", 9)]
    pooled = [one for one in found.measurements if one.scope["variant"] == "both"]
    assert [(one.hits, one.n) for one in pooled] == [(19, 100)]


@pytest.mark.parametrize("seeds", [None, 3])
@pytest.mark.parametrize("seed", ["abc", 1.5, True])
def test_a_seed_that_is_no_whole_number_is_refused(trained, seed, seeds):
    with pytest.raises(UsageError, match="seed takes int"):
        study(seeds=seeds, settings={"seed": seed})
    assert trained == []


def test_a_scales_own_seed_is_a_seed_of_its_own(trained, monkeypatch):
    own = {"name": "a-5", "scale": {"nano": {"seed": 5}}}
    table = {"name": "p", "scale": {"nano": {}}, "study": [{"name": "a"}, own]}
    monkeypatch.setitem(globals(), "PROFILE", parse(table))
    study(seeds=2)
    assert trained == [("a", 0), ("a", 1)]


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({}, False),
        ({"client_data": {"c0": "a.jsonl", "c1": "b.jsonl"}}, True),
        ({"test": "t.jsonl"}, True),
    ],
)
def test_files_of_records_are_the_same_for_all_seeds(
    trained, monkeypatch, tmp_path, settings, same
):
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "b.jsonl", "t.jsonl"):
        Path(name).write_text("{}\n")
    given = []
    monkeypatch.setattr(runner, "prepare", lambda config, folder: None)
    monkeypatch.setattr(
        runner, "measured_means", lambda by, *, same_records: given.append(same_records) or {}
    )
    study(seeds=2, settings=settings)
    assert given == [same]


def test_a_claim_whose_intervals_overlap_stays_open(trained, monkeypatch):
    monkeypatch.setitem(HITS, ("a", 1), 12)
    monkeypatch.setitem(HITS, ("a", 2), 80)
    [alone, _] = study(seeds=3).claims
    assert alone.holds is None
    assert "the intervals overlap" in alone.detail
    [alone, _] = study(seeds=3, settings={"seed": 7}).claims  # 17, 18 and 19 of 100, of both
    assert (alone.holds, alone.detail.split(";")[0]) == (None, "0.18 > 0.18")


def test_counts_of_records_in_a_scope_may_differ_from_seed_to_seed():
    def rows(members, value):
        scope = {"score": "loss", "members": members, "others": 30}
        return [
            Measurement(kind="membership", plugin="membership", metric="auc", value=value,
                        scope=scope)
        ]  # fmt: skip

    [mean] = mean_rows({1: rows(40, 0.5), 2: rows(44, 0.7)}, same_records=False)
    assert mean.value == pytest.approx(0.6)
    assert mean.scope == {"score": "loss", "others": 30}


def test_an_equal_budget_may_be_another_number_in_each_seed():
    """Its number of questions is that of the attack it is compared with: a count of records."""

    def rows(budget, **more):
        return [row(0.5, scope={"budget": budget, **more})]

    equal = {seed: rows(budget, budgets="equal") for seed, budget in enumerate((342, 363, 316))}
    [found] = mean_rows(equal, same_records=False)
    assert found.scope == {"variant": "v", "budgets": "equal"}
    same = {seed: rows(300, budgets="equal") for seed in range(3)}
    assert mean_rows(same, same_records=False)[0].scope["budget"] == 300
    # A budget that somebody chose is part of what was measured.
    assert mean_rows({0: rows(10), 1: rows(20)}, same_records=False) == []
