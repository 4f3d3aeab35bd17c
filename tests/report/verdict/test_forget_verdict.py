from dataclasses import replace

import pytest

from fedaudit.api.records import Measurement
from fedaudit.report.kinds.forget import Forget
from fedaudit.report.verdict.policy import verdict


def learnt(model, low, high, *, fpr=0.01, unit="record", others=200, n=100, limit=0.1, **more):
    scope = {"model": model, "unit": unit, "fpr": fpr, "others": others, "limit": limit, **more}
    return Measurement(
        kind="forget", plugin="forget", metric="learnt", value=(low + high) / 2, low=low,
        high=high, n=n, hits=3, chance=0.01, scope=scope,
    )  # fmt: skip


def out(low, high, *, model="after", n=100, limit=0.1):
    scope = {"model": model, "unit": "record", "others": 200, "limit": limit}
    return Measurement(
        kind="forget", plugin="forget", metric="extractable", value=high, low=low, high=high,
        n=n, hits=round(high * n), chance=0.0, scope=scope,
    )  # fmt: skip


def residual(low, high, *, detectable=0.2, limit=0.1, n=9):
    scope = {"model": "after", "limit": limit, "retrained": n, "p": 0.5, "detectable": detectable}
    return Measurement(
        kind="forget", plugin="forget", metric="residual", value=(low + high) / 2, low=low,
        high=high, n=n, scope=scope,
    )  # fmt: skip


def not_tried(row):
    nothing = {"value": None, "low": None, "high": None, "hits": None, "chance": None}
    return replace(row, **nothing, reason="too short")


def unnamed(row):
    return replace(row, scope={**row.scope, "unit": 1})


AFTER, BEFORE = learnt("after", 0, 0.05), learnt("before", 0.6, 0.8)
OUT, LEFT = out(0, 0.0), residual(-0.05, 0.05)


@pytest.mark.parametrize(
    ("rows", "status", "says"),
    [
        ([AFTER, BEFORE, OUT, LEFT], "pass", "60 (60.0 %) at least were learnt before"),
        ([learnt("after", 0.11, 0.3), BEFORE, OUT, LEFT], "fail", "at least 11 (11.0 %) of 100"),
        # A bound at any rate fails; a pass is about the strictest.
        ([AFTER, learnt("after", 0.2, 0.9, fpr=0.5), BEFORE, OUT, LEFT], "fail", "at least 20"),
        ([AFTER, learnt("after", 0, 0.9, fpr=0.5), BEFORE, OUT, LEFT], "pass", "at most 5"),
        ([learnt("after", 0, 0.11), BEFORE, OUT, LEFT], "inconclusive", "up to 11 (11.0 %)"),
        (
            [learnt("after", 0, 0.8, unread=80), BEFORE, OUT, LEFT],
            "inconclusive",
            "80 records among them had too few tokens to be read",
        ),
        ([learnt("after", 0, 0, others=99), BEFORE, OUT, LEFT], "inconclusive", "99 others are"),
        # What was never learnt, or never seen, is not known to be forgotten.
        ([AFTER, learnt("before", 0.1, 0.3), OUT, LEFT], "inconclusive", "ranks could not have"),
        ([AFTER, OUT, LEFT], "inconclusive", "shows none of 100 records"),
        (
            [AFTER, BEFORE, learnt("retrained", 0.3, 0.5, number=2), OUT, LEFT],
            "inconclusive",
            "retrained model 2 surely knows 30",
        ),
        ([AFTER, BEFORE, out(0.2, 0.3), LEFT], "fail", "30 (30.0 %) of 100 records still come out"),
        ([AFTER, BEFORE, out(0.0, 0.3), LEFT], "inconclusive", "trained on or not"),
        ([AFTER, BEFORE, OUT, residual(0.11, 0.5)], "fail", "[11.0 %, 50.0 %] is left"),
        ([AFTER, BEFORE, OUT, residual(-0.5, -0.11)], "fail", "stand lower than if"),
        ([AFTER, BEFORE, OUT, residual(0.01, 0.5)], "inconclusive", "is not like them"),
        ([AFTER, BEFORE, OUT, residual(-0.5, -0.01)], "inconclusive", "is not like them"),
        ([AFTER, BEFORE, OUT, residual(-0.4, 0.6, detectable=0.51)], "inconclusive", "only 51"),
        ([AFTER, BEFORE, OUT, residual(-0.4, 0.6, detectable=0.5)], "pass", "90 %"),
        (
            [AFTER, BEFORE, OUT, LEFT, learnt("after", 0.5, 0.9, unit="canary", n=12)],
            "fail",
            "of 12 canaries",
        ),
        ([learnt("after", 0.01, 0.05, limit=0.0), BEFORE, OUT, LEFT], "fail", "at least 1 (1.0 %)"),
        # What a row does not state is not 0.
        ([replace(AFTER, high=None), BEFORE, OUT, LEFT], "inconclusive", "their bounds"),
        ([AFTER, BEFORE, replace(OUT, high=None), LEFT], "inconclusive", "its limit or its bounds"),
        ([AFTER, BEFORE, OUT, replace(LEFT, low=None)], "inconclusive", "its limit, bounds"),
        ([AFTER, BEFORE, not_tried(OUT), LEFT], "inconclusive", "forget: too short."),
        ([unnamed(AFTER), unnamed(BEFORE), OUT, LEFT], "pass", "at least were learnt"),
    ],
)
def test_what_is_left_is_held_against_the_limit(rows, status, says):
    found = verdict(rows, [])
    assert found["status"] == status, found
    assert any(says in reason for reason in found["reasons"]), found["reasons"]


def test_what_was_not_measured_is_no_pass():
    missing = [
        Measurement.missing(
            reason, kind="forget", plugin="forget", metric=metric,
            scope={"model": "after", "unit": "record", "limit": 0.1},
        )
        for metric, reason in (("learnt", "the texts differ"), ("residual", "none were given"))
    ]  # fmt: skip
    found = verdict([missing[0]], [])
    assert (found["status"], found["reasons"]) == ("inconclusive", ["forget: the texts differ."])
    found = verdict([AFTER, BEFORE, OUT, missing[1]], [])
    assert found["status"] == "inconclusive"
    assert "none were given" in found["reasons"][-1]


def table_row(row):
    names = ("kind", "plugin", "metric", "value", "low", "high", "n", "hits", "chance")
    more = {"baseline": None, "reason": row.reason, "scope": dict(row.scope)}
    return {name: getattr(row, name) for name in names} | more


def test_the_table_has_both_models_and_the_sentence_what_was_learnt():
    rows = [AFTER, BEFORE, OUT, out(0.1, 0.4, model="before"), LEFT]
    rows.append(learnt("retrained", 0, 0.04, number=1))
    report = {"measurements": [table_row(row) for row in rows]}
    [table] = Forget().tables(report)
    assert table.columns == ("model", "of", "at 1%", "come out")
    assert table.rows == (
        ("before", "100 records", "60-80", "40"),
        ("after", "100 records", "0-5", "0"),
    )
    assert Forget().sentences(report) == [
        "Of 100 records of a member that left, at least 60 (60.0 %) were learnt by the model "
        "before, and at least 0 (0.0 %) still are.",
        "Of what the model before had learnt, 0.0 % [-5.0 %, 5.0 %] is left, by comparison with 9 "
        "models trained without the member.",
    ]
