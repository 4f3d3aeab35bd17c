"""Rows on a member that left."""

import math
from dataclasses import replace
from statistics import fmean

import pytest

from fedaudit.api.records import Document, Target
from fedaudit.engine.fake import FakeEngine
from fedaudit.metrics.privacy.attributable_effect import attributable_hits, score_bounds
from fedaudit.metrics.privacy.retrain_distance import residual
from fedaudit.watch.leaving import ModelScores, VerifiedModels, comes_out, rows, score_model
from fedaudit.watch.records import WatchedRecords
from fedaudit.watch.rounds import RoundScorer, RoundScores

RECORDS = WatchedRecords(
    own=tuple((Document(id=str(n), text=f"own {n}"),) for n in range(40)),
    held_out=tuple((Document(id=str(n), text=f"other {n}"),) for n in range(100)),
    references=5,
)


def test_a_record_comes_out_if_a_hundred_draws_probably_give_it():
    # With p a draw, 100 draws give it with 1 - (1 - p)^100, which is a half at p = 0.0069075.
    half = 1 - 0.5 ** (1 / 100)
    given = [-9.0] * 10
    assert comes_out([given + [math.log(half * 1.001) / 10] * 10]) == [True]
    assert comes_out([given + [math.log(half * 0.999) / 10] * 10]) == [False]
    # At most 50 tokens have to come, and the first half is given.
    assert comes_out([[-9.0] * 80 + [0.0] * 50 + [-9.0] * 30]) == [True]
    assert comes_out([[0.0] * 18]) == [None]  # nine to come are too few to try
    assert comes_out([[0.0] * 20]) == [True]


def test_a_model_is_asked_once_and_says_it_by_unit():
    def likelihood(target, token, before):
        return -0.001 if "left" in before + token and target.adapter else -3.0

    text = " ".join(f"left{n}" for n in range(30))
    records = WatchedRecords(
        own=((Document(id="1", text=text), Document(id="2", text="x " * 30)),),
        held_out=((Document(id="3", text="y " * 30),),),
        references=5,
    )
    engine = FakeEngine(lambda *_: "", likelihood=likelihood)
    found = score_model(
        RoundScorer(engine, records), records, Target(name="after", adapter="a"), Target(name="b")
    )
    assert (found.own_out, found.held_out_out) == ([True], [False])
    assert found.scores.own == pytest.approx([fmean([2.999, 0.0])])
    assert found.standing == pytest.approx(2.999 / 2)


def model(gain, *, out=0, shift=0.0):
    """Return a model that says so much more of the first 20 own records than of others."""
    own = [0.01 * n + (gain if n < 20 else 0.0) for n in range(40)]
    held_out = [0.004 * n + shift for n in range(100)]
    return ModelScores(RoundScores(own, held_out), [n < out for n in range(40)], [False] * 100)


def test_rows_by_hand():
    retrained = [model(0.0, shift=0.01 * n) for n in range(4)]
    models = VerifiedModels(after=model(1.0), before=model(5.0, out=7), retrained=retrained)
    found = rows(models, RECORDS, limit=0.1)
    by = {}
    for row in found:
        by.setdefault((row.scope["model"], row.metric), []).append(row)
    # Three parts share the level: what was learnt, what comes out, and the residual.
    for name, given in (("after", models.after), ("before", models.before)):
        wanted = score_bounds(given.scores.own, given.scores.held_out, level=0.05 / 3)
        assert [(r.low, r.high) for r in by[name, "learnt"]] == [
            (c.low / 40, c.high / 40) for c in wanted
        ]
    [after], [before] = by["after", "extractable"], by["before", "extractable"]
    assert (after.hits, after.low, after.high) == (0, 0.0, 0.0)
    assert (before.hits, before.high) == (7, 7 / 40)
    assert before.low == attributable_hits(7, 40, 0, 100, level=0.05 / 3) / 40 > 0
    [left] = by["after", "residual"]
    standings = [m.standing for m in retrained]
    wanted = residual(models.after.standing, models.before.standing, standings, level=0.05 / 3)
    assert (left.value, left.low, left.high, left.n) == (
        wanted.value, wanted.low, wanted.high, 4,
    )  # fmt: skip
    assert left.value == pytest.approx((0.5 + 0.015) / (2.5 + 0.015))
    assert [r.scope["number"] for r in by["retrained", "extractable"]] == [1, 2, 3, 4]


def test_records_that_were_not_read_may_still_be_learnt():
    short = replace(model(0.0), scores=replace(model(0.0).scores, unread=10))
    found = rows(VerifiedModels(after=short, before=short), RECORDS, limit=0.1)
    whole = rows(VerifiedModels(after=model(0.0), before=model(0.0)), RECORDS, limit=0.1)
    for one, other in zip(found, whole, strict=True):
        if one.metric == "learnt":
            assert (one.n, one.scope["unread"]) == (50, 10)
            assert one.high * 50 == pytest.approx(other.high * 40 + 10)
            assert one.low * 50 == pytest.approx(other.low * 40)


def test_without_retrained_models_the_residual_says_what_is_missing():
    [left] = [
        row
        for row in rows(VerifiedModels(after=model(0.0), before=model(5.0)), RECORDS, limit=0.1)
        if row.metric == "residual"
    ]
    assert (left.value, left.scope["retrained"]) == (None, 0)
    assert "4 retrained models are needed" in left.reason


def test_canaries_have_a_share_of_the_level():
    ranked = [(0.0, [-1.0] * 99)] * 12
    scores = RoundScores([0.0] * 40, [0.0] * 100, ranked)
    same = ModelScores(scores, [False] * 40, [False] * 100)
    found = rows(VerifiedModels(after=same, before=same), RECORDS, limit=0.1)
    canaries = [r for r in found if r.scope.get("unit") == "canary" and r.scope["model"] == "after"]
    assert [r.metric for r in canaries] == ["learnt"] * 3 + ["exposure"]
    assert canaries[0].low == rank_low(0.05 / 4)
    assert canaries[-1].value == pytest.approx(math.log2(100))


def rank_low(level):
    from fedaudit.metrics.privacy.attributable_effect import ranked_bounds

    return ranked_bounds([(0.0, [-1.0] * 99)] * 12, level=level)[0].low / 12


def test_records_too_short_to_come_out_are_not_counted():
    records = WatchedRecords(
        own=(
            (Document(id="1", text="x " * 12),),
            (Document(id="2", text="x " * 12), Document(id="3", text="left " * 30)),
        ),
        held_out=((Document(id="4", text="y " * 12),),),
        references=5,
    )
    engine = FakeEngine(lambda *_: "", likelihood=lambda target, token, before: -3.0)
    scorer = RoundScorer(engine, records)
    found = score_model(scorer, records, Target(name="after", adapter="a"), Target(name="b"))
    assert (found.own_out, found.held_out_out) == ([False], [])
    assert len(found.scores.own) == 2
    rows_of = rows(VerifiedModels(after=found, before=found), records, limit=0.1)
    for row in rows_of:
        if row.metric == "extractable":
            assert row.value is None
            assert row.reason.startswith("none of held-out records has 10 tokens")


def test_where_texts_alone_differ_only_canaries_are_counted():
    refused = WatchedRecords(own=(), held_out=(), references=5, refusal="the texts differ")
    nothing = ModelScores(RoundScores([], [], []), [], [])
    [row] = rows(VerifiedModels(after=nothing, before=nothing), refused, limit=0.1)
    assert (row.metric, row.value, row.reason) == ("learnt", None, "the texts differ")
    ranked = ModelScores(RoundScores([], [], [(0.0, [-1.0] * 99)] * 12), [], [])
    found = rows(VerifiedModels(after=ranked, before=ranked), refused, limit=0.1)
    [first, *_] = [r for r in found if r.scope.get("unit") == "canary"]
    assert first.low == rank_low(0.05 / 2)
