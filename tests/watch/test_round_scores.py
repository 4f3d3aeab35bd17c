"""Scores of a round's model, and the rows that follow."""

from dataclasses import replace
from statistics import fmean

import pytest

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document, Target
from fedaudit.engine.fake import FakeEngine
from fedaudit.report.verdict.policy import verdict
from fedaudit.watch.records import WatchedRecords
from fedaudit.watch.rounds import RoundScorer, RoundScores, reading_caveat, round_rows

TUNED, BASE = Target(name="round 1", adapter="one"), Target(name="base")
LONG = "one two three four five six seven eight nine"


def likelihood(target, token, before):
    gain = 0.25 * (len(token) % 4) if target.adapter else 0.0
    return -2.0 + gain - 0.01 * len(before)


def unit(*texts):
    return tuple(Document(id=text, text=text) for text in texts)


def records(own, held_out, **given):
    return WatchedRecords(own=tuple(own), held_out=tuple(held_out), references=5, **given)


def slow_gain(text):
    """Ask about each token by itself."""
    words = text.split()
    gains = []
    for at in range(1, len(words)):
        token, before = f" {words[at]}", " ".join(words[:at])
        gains.append(likelihood(TUNED, token, before) - likelihood(BASE, token, before))
    return fmean(gains)


def test_scores_are_gains_over_the_base_and_a_group_has_the_mean_of_its_records():
    own = [unit(LONG), unit(f"{LONG} ten", f"{LONG} twenty thirty")]
    engine = FakeEngine(lambda *_: "", likelihood=likelihood)
    found = RoundScorer(engine, records(own, [unit(f"ab {LONG}")])).score(TUNED, BASE)
    assert found.own == pytest.approx([
        slow_gain(LONG),
        fmean([slow_gain(f"{LONG} ten"), slow_gain(f"{LONG} twenty thirty")]),
    ])  # fmt: skip
    assert found.held_out == pytest.approx([slow_gain(f"ab {LONG}")])


def test_short_records_and_groups_of_them_are_left_out():
    engine = FakeEngine(lambda *_: "", likelihood=likelihood)
    own = [unit("a b c"), unit("too short", LONG)]
    found = RoundScorer(engine, records(own, [unit(LONG)])).score(TUNED, BASE)
    assert found.own == pytest.approx([slow_gain(LONG)])
    assert found.unread == 1
    with pytest.raises(InputError, match="0 own and 1 held-out"):
        RoundScorer(engine, records([unit("a b c")], [unit(LONG)]))


def test_units_that_were_not_read_may_all_have_been_learnt():
    engine = FakeEngine(lambda *_: "", likelihood=likelihood)
    watched = records([unit(LONG, "d e f"), unit("a b c"), unit("g h i", "j")],
                      [unit(f"ab {LONG}"), unit("k l m")])  # fmt: skip
    scorer = RoundScorer(engine, watched)
    scores = scorer.score(TUNED, BASE)
    assert scores.unread == 2
    own, held_out = scorer.limits
    assert own.startswith("4 of 5 own records have fewer than 8 tokens")
    assert held_out.startswith("1 of 2 held-out records have fewer than 8 tokens")
    assert not RoundScorer(engine, records([unit(LONG)], [unit(LONG)])).limits
    # By hand, as below: of 40 that were read at least 33 were learnt; of 60, up to 60 may be.
    many = RoundScores(range(40, 80), range(40), unread=20)
    [first, *_] = round_rows(many, watched, number=1, test=1, limit=0.1)
    assert (first.n, first.low, first.high) == (60, 33 / 60, 1.0)
    none = RoundScores(range(40), range(100), unread=20)
    [first, *_] = round_rows(none, watched, number=1, test=1, limit=0.1)
    assert (first.n, first.low, first.high) == (60, 0.0, pytest.approx(20 / 60))
    assert first.scope["unread"] == 20


def test_sets_that_differ_by_their_texts_are_not_scored():
    engine = FakeEngine(lambda *_: "", likelihood=likelihood)
    refused = records([unit(LONG)], [unit(LONG)], refusal="the texts differ")
    found = RoundScorer(engine, refused).score(TUNED, BASE)
    assert found == RoundScores([], [], [])
    [row] = round_rows(found, refused, number=4, test=2, limit=0.1)
    assert (row.value, row.reason, row.scope["round"]) == (None, "the texts differ", 4)


def test_rows_by_hand():
    # Of 40 own records all are above all of 40 held-out ones. In the first test each bound has the
    # level 0.05 / 2 (round) / 6 (three rates, two sides): 1/240. That h or more of 40 are above all
    # of 40 by chance has the probability 40 ... (41 - h) / (80 ... (81 - h)): 0.00294 for 8 and
    # 0.00651 for 7. So at most 7 are by chance: at least 33.
    watched = records([unit(LONG)], [unit(LONG)])
    rows = list(round_rows(RoundScores(range(40, 80), range(40)), watched, number=3, test=1,
                           limit=0.1))  # fmt: skip
    assert [row.scope["fpr"] for row in rows] == [0.01, 0.1, 0.5]
    first = rows[0]
    assert (first.n, first.hits, first.low, first.high) == (40, 40, 33 / 40, 1.0)
    assert first.chance == pytest.approx(1 / 41)
    assert first.value == pytest.approx(39.02 / 40, abs=1e-3)
    assert first.scope["others"] == 40
    assert {row.scope["unit"] for row in rows} == {"record"}


def test_a_model_that_equals_its_base_has_learnt_nothing():
    watched, scores = records([unit(LONG)], [unit(LONG)]), RoundScores([0.0] * 40, [0.0] * 100)
    rows = list(round_rows(scores, watched, number=1, test=1, limit=0.1))
    assert {(row.low, row.high, row.hits) for row in rows} == {(0.0, 0.0, 0)}
    # What was not read may be known all the same, and a single other score makes them ties.
    short = list(round_rows(replace(scores, unread=10), watched, number=1, test=1, limit=0.1))
    assert {row.high for row in short} == {10 / 50}
    tied = RoundScores([0.0] * 40, [0.0] * 99 + [0.1])
    assert next(round_rows(tied, watched, number=1, test=1, limit=0.1)).high == 1.0


def test_later_tests_have_less_of_the_level():
    watched, scores = records([unit(LONG)], [unit(LONG)]), RoundScores(range(40, 80), range(40))
    lows = [next(round_rows(scores, watched, number=n, test=n, limit=0.1)).low for n in (1, 10, 99)]
    assert lows == sorted(lows, reverse=True)
    assert len(set(lows)) == 3


def behind_instruction(**given):
    """Return a scorer of records that begin with the same 300 words, of which the rest differs."""
    head = " ".join(f"i{n}" for n in range(300))
    own, held_out = (
        [unit(f"{head} " + " ".join(f"{side}{n}x{k}" for k in range(20))) for n in range(100)]
        for side in ("own", "other")
    )

    def knows(target, token, before):
        return -2.0 + (1.0 if target.adapter and token.startswith(" own") else 0.0)

    asked = records(own, held_out)
    return asked, RoundScorer(FakeEngine(lambda *_: "", likelihood=knows), asked, **given)


def test_what_comes_behind_a_long_instruction_is_read():
    asked, scorer = behind_instruction()
    assert not scorer.part.obstacle
    found = round_rows(scorer.score(TUNED, BASE), asked, number=1, test=1, limit=0.1)
    assert verdict(list(found), [])["status"] == "fail"
    assert reading_caveat(scorer.part) == (
        "Every record was read to its end; none of fewer than 8 tokens was."
    )


def test_records_that_are_cut_before_they_differ_cannot_pass_but_may_fail():
    asked, scorer = behind_instruction(trained=256)
    assert "of 100 of 100 records no more than 256 tokens" in scorer.part.obstacle
    assert reading_caveat(scorer.part) == (
        "200 of 200 records are longer than the 256 tokens that were read of each: 80.0 % of all "
        "tokens were read; none of fewer than 8 tokens was."
    )
    nothing, everything = (
        RoundScores([gain + n / 1000 for n in range(100)], [n / 1000 for n in range(1000)])
        for gain in (0.0, 5.0)
    )
    given = {"number": 1, "test": 1, "limit": 0.5}
    assert verdict(list(round_rows(nothing, asked, **given)), [])["status"] == "pass"
    given["obstacle"] = scorer.part.obstacle
    found = verdict(list(round_rows(nothing, asked, **given)), [])
    assert found["status"] == "inconclusive"
    assert any("what follows was not tested" in reason for reason in found["reasons"])
    assert verdict(list(round_rows(everything, asked, **given)), [])["status"] == "fail"
