"""What a defence changes, against values by hand, and the sentences that follow."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.estimates import Estimate
from fedaudit.audit.defenses.study import effect, recommendations
from fedaudit.audit.defenses.training import DefenseOutcome, LeakShare, read_outcome, write_outcome
from fedaudit.metrics.intervals import wilson

T2 = 4.302653
"""The quantile of Student's t with two degrees of freedom that 2.5 % are above."""


def outcome(seed, share, margin, losses=(), **more):
    found = LeakShare(share=Estimate(share, share - margin, share + margin), n=50)
    mean = sum(losses) / len(losses) if losses else None
    return DefenseOutcome(
        seed=seed,
        leaks={"contextual": found},
        losses=tuple(losses),
        loss=None if mean is None else Estimate(mean, mean - 1, mean + 1),
        **more,
    )


NONE = [
    outcome(1, 0.4, 0.1, (1.0, 2.0, 3.0), seconds=10.0, tokens=100, bytes=8),
    outcome(2, 0.5, 0.1, (1.0, 2.0, 3.0), seconds=20.0, tokens=100, bytes=8),
    outcome(3, 0.6, 0.1, (1.0, 2.0, 3.0), seconds=None, tokens=100, bytes=8),
]
SCRUB = [
    outcome(1, 0.1, 0.05, (1.1, 2.1, 3.1), seconds=10.0, tokens=90, bytes=8),
    outcome(2, 0.1, 0.05, (1.2, 2.2, 3.2), seconds=20.0, tokens=90, bytes=8),
    outcome(3, 0.1, 0.05, (1.3, 2.3, 3.3), seconds=30.0, tokens=96, bytes=8),
]


def test_differences_by_hand():
    found = effect(SCRUB, NONE)
    # -0.3, -0.4, -0.5: mean -0.4, standard deviation 0.1, beside their own of sqrt(0.05^2 + 0.1^2).
    half, gap = T2 * 0.1 / math.sqrt(3), found.leaks["contextual"].difference
    both = math.sqrt(half**2 + 0.05**2 + 0.1**2)
    assert (gap.value, gap.low, gap.high) == pytest.approx((-0.4, -0.4 - both, -0.4 + both))
    # No seed differs, so the interval is the records' own.
    mean = found.leaks["contextual"].mean
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.1, 0.05, 0.15))
    # Every document's loss rises by 0.1, 0.2 and 0.3: nothing else moves than seeds.
    rise = found.loss.difference
    assert (rise.value, rise.low, rise.high) == pytest.approx((0.2, 0.2 - half, 0.2 + half))
    assert (found.seconds, found.tokens, found.bytes) == (20.0, 92.0, 8.0)
    assert effect(NONE).seconds is None  # one was interrupted, so it was not timed
    assert effect(NONE).leaks["contextual"].difference is None


def test_where_seeds_agree_the_records_own_interval_is_left():
    same = [outcome(seed, 0.4, 0.1) for seed in (1, 2, 3)]
    gap = effect(SCRUB, same).leaks["contextual"].difference
    half = math.hypot(0.05, 0.1)
    assert (gap.value, gap.low, gap.high) == pytest.approx((-0.3, -0.3 - half, -0.3 + half))


def test_losses_without_documents_are_subtracted_as_independent():
    keyed = [replace(one, losses=(), loss=Estimate(2.5, 2.0, 3.0)) for one in NONE]
    gap = effect(keyed, NONE).loss.difference
    half = math.hypot(0.5, 1.0)
    assert (gap.value, gap.low, gap.high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))
    assert effect([replace(one, loss=None) for one in keyed], NONE).loss is None


def test_unlike_seeds_are_no_pairs():
    with pytest.raises(ValueError, match="same seeds"):
        effect(SCRUB, NONE[1:])
    with pytest.raises(ValueError, match="nothing to compare"):
        effect([], [])


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(20, 30)), min_size=1, max_size=4),
    st.randoms(),
)
def test_no_defence_differs_from_itself_whatever_the_order_of_seeds(counts, rng):
    one = [
        DefenseOutcome(
            seed=seed,
            leaks={"verbatim": LeakShare(share=wilson(*pair), n=pair[1])},
            losses=(1.0, 2.0),
            loss=Estimate(1.5, 1.0, 2.0),
        )
        for seed, pair in enumerate(counts)
    ]
    found = effect(one, one)
    gap = found.leaks["verbatim"].difference
    assert gap.value == 0
    assert gap.low <= 0 <= gap.high
    assert (found.loss.difference.low, found.loss.difference.high) == (0, 0)
    mixed = rng.sample(one, len(one))
    again = effect(mixed, mixed).leaks["verbatim"].mean
    mean = found.leaks["verbatim"].mean
    assert (again.low, again.high) == pytest.approx((mean.low, mean.high))
    assert 0 <= mean.low <= mean.value <= mean.high <= 1


def test_the_sentences():
    weak = [outcome(one.seed, 0.45, 0.1, (1.0, 2.0, 3.0)) for one in NONE]
    none = effect(NONE)
    lead, *said = recommendations(none, {"dp": effect(weak, NONE), "scrub": effect(SCRUB, NONE)})
    assert lead.startswith("To be tried first: scrub.")
    assert said[0].startswith("Of dp it cannot be told whether it lowers")
    assert "from 50.0 % [" in said[0]
    assert "difference of -5.0 points [" in said[0]
    assert "cannot be told from none's (+0 [+0, +0])" in said[0]
    # 0.2 +- 0.248: with three seeds even a rise in every one of them is not sure.
    assert said[1].startswith("scrub would have brought what contextual prefixes draw out from")
    assert "to 10.0 % [5.0, 15.0]" in said[1]
    assert "cannot be told from none's (+0.2 [" in said[1]
    steady = [replace(one, losses=(1.2, 2.2, 3.2)) for one in SCRUB]
    [lead, sure] = recommendations(none, {"scrub": effect(steady, NONE)})
    assert lead.startswith("To be tried first, if its loss can be borne: scrub.")
    assert sure.endswith("at a held-out loss that rose by 0.2 [+0.2, +0.2].")
    [open_, _] = recommendations(none, {"dp": effect(weak, NONE)})
    assert "no defence can be recommended" in open_
    assert recommendations(none, {}) == ["No defence was measured, so none is recommended."]


def test_of_two_that_help_neither_is_first_unless_it_is_better_in_both():
    steady = [replace(one, losses=(1.2, 2.2, 3.2), loss=Estimate(2.2, 2, 3)) for one in SCRUB]
    less = [outcome(one.seed, 0.0, 0.01, (4.0, 4.0, 4.0)) for one in NONE]
    both = {"scrub": effect(steady, NONE), "dp": effect(less, NONE)}
    assert "scrub, dp; each has less" in recommendations(effect(NONE), both)[0]
    worse = [outcome(one.seed, 0.2, 0.01, (4.0, 4.0, 4.0)) for one in NONE]
    one = {"scrub": effect(steady, NONE), "dp": effect(worse, NONE)}
    assert "can be borne: scrub. It lowered" in recommendations(effect(NONE), one)[0]
    raised = [outcome(one.seed, 0.9, 0.05) for one in NONE]
    same = [outcome(n.seed, 0.5, 0.05) for n in NONE]
    told = recommendations(effect(same), {"dp": effect(raised, same)})[1]
    assert "dp would have raised" in told
    assert told.endswith("what it does to held-out loss was not measured.")


def test_an_outcome_is_kept_for_the_same_settings_only(tmp_path):
    path = tmp_path / "one.json"
    write_outcome(SCRUB[0], path, "abc")
    assert read_outcome(path, "abc") == SCRUB[0]
    assert read_outcome(path, "other") is None
    path.write_text("{")
    assert read_outcome(path, "abc") is None
    assert read_outcome(tmp_path / "none.json", "abc") is None
