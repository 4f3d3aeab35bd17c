"""A member that left: whether its records are still in the model."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from fedaudit.api.kind import Answer, Judgement, Kind, Question, Row, Table
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report.kinds.watch import (
    JUDGED_FPR,
    MIN_OTHERS,
    counted_units,
    range_text,
    rate_name,
    share_text,
    unread_text,
    why_unjudged,
)
from fedaudit.report.number_format import as_percent, number, percent
from fedaudit.report.query import group_by, missing_reasons
from fedaudit.report.tables.table import NONE, build_table
from fedaudit.system.numbers import is_finite_number

AFTER, BEFORE, RETRAINED = "after", "before", "retrained"
MOST_DETECTABLE = 0.5
"""A pass must have had a good chance to see this share of what was learnt."""
TITLES = {"extractable": "come out", "exposure": "exposure"}


class Forget(Kind):
    """What is left of a member's records in the model after it left."""

    name = "forget"
    attack_class = "membership_inference"
    rules = ("forget",)
    discloses = False
    compared = frozenset({"learnt", "residual", "extractable"})
    shown = frozenset({"learnt", "residual", *TITLES})
    outcomes = frozenset({"p", "detectable"})
    answers: ClassVar = {
        "fail": "The model still knows the records of the member that left: do not call them"
        " erased.",
        "pass": "To these tests, the model is as if the member had never been there. Other attacks"
        " may see more.",
        "inconclusive": "It is neither shown that the member's records are still in the model, nor"
        " that they are not: the reasons say what is missing.",
    }
    question = Question(
        "Is a member that left still in the model?",
        "GDPR, Article 17",
        "Of what the model had learnt of the member's records, no more is left than is allowed.",
    )
    glossary: ClassVar = {
        "residual": "Of what the model before had learnt of the member's records, the share that"
        " the model after still shows. Models trained without the member have 0.",
    }

    def judge(self, rows: Sequence[Measurement], policy: Policy) -> list[Judgement]:
        """Return the status of the member's records, of its canaries, and of the residual.

        All bounds on the model after hold together.

        * fail          surely more than the limit is still learnt, or comes out; or the residual
                        is surely beyond the limit, above 0 or below
        * inconclusive  something was not measured; fewer than 100 others were compared with; more
                        than the limit may be left; the model before shows no more than the limit,
                        so that nothing could be seen; a retrained model shows more; or the model is
                        not like the retrained ones, or these are too few to tell
        * pass          otherwise
        """
        after = [row for row in rows if row.scope.get("model") == AFTER]
        learnt = [row for row in after if row.metric == "learnt"]
        units = list(dict.fromkeys(row.scope.get("unit") for row in learnt))
        judged = [
            _judge_learnt(
                str(unit),
                [r for r in rows if r.metric == "learnt" and r.scope.get("unit") == unit],
            )
            for unit in units
        ]
        judged += [_judge_extractable(row) for row in after if row.metric == "extractable"]
        judged += [_judge_residual(row) for row in after if row.metric == "residual"]
        return judged

    def tables(self, report: Row) -> list[Table]:
        """Return the table of both models, and the line on the retrained ones."""
        rows = [
            row
            for row in self.rows(report)
            if row["metric"] != "residual" and row["scope"].get("model") != RETRAINED
        ]
        measured = [row for row in rows if row["value"] is not None]
        notes = [
            "How many rank above all but 1 % (10 %, 50 %) of what they are compared with because"
            " the model was trained on them: at least, to at most.",
            *missing_reasons(rows),
            *_residual_texts(report),
        ]
        cells = list(_cells(measured))
        rates = list(dict.fromkeys(rate_name(row) for row in measured if row["metric"] == "learnt"))
        columns = ("model", "of", *rates, *TITLES.values())
        if not cells:
            return []
        numeric = (*rates, *TITLES.values())
        title = "Left of the records of a member that left"
        return [build_table(title, cells, columns, numeric=numeric, notes=tuple(notes))]

    def sentences(self, report: Row) -> list[str]:
        """Return what was tested and what came of it."""
        measured = [r for r in self.rows(report) if r["value"] is not None]
        found = []
        for unit in dict.fromkeys(row["scope"].get("unit") for row in measured):
            least = {
                model: max(
                    (
                        row
                        for row in measured
                        if row["metric"] == "learnt"
                        and (row["scope"].get("unit"), row["scope"].get("model")) == (unit, model)
                    ),
                    key=lambda row: row["low"] or 0.0,
                    default=None,
                )
                for model in (BEFORE, AFTER)
            }
            before, after = least[BEFORE], least[AFTER]
            if before is not None and after is not None:
                found.append(
                    f"Of {counted_units(after['n'], str(unit))} of a member that left, at least "
                    f"{share_text(before['low'], before['n'])} were learnt by the model before, and"
                    f" at least {share_text(after['low'], after['n'])} still are."
                )
        return [*found, *_residual_texts(report)]

    def answer(self, report: Row) -> Answer | None:
        """Answer what is left of the member."""
        sentences = self.sentences(report)
        if not sentences:
            return Answer("open", "The leaving of a member was not verified.")
        rows = [row for row in self.rows(report) if row["value"] is not None]
        return Answer("answered", " ".join(sentences), tuple(rows[:3]))


def _judge_learnt(unit: str, rows: Sequence[Measurement]) -> Judgement:
    by_model = group_by(rows, lambda row: str(row.scope.get("model")))
    after = by_model[AFTER]
    strict = [row for row in after if row.scope.get("fpr") == JUDGED_FPR]
    if unjudged := why_unjudged(Forget.name, after, strict):
        return unjudged
    allowed, n = float(str(after[0].scope["limit"])), after[0].n or 0
    limit, of = f"no more than {as_percent(allowed)} left", counted_units(n, unit)
    most, widest = max(after, key=_low), strict[0]
    if _low(most) > allowed:
        reason = (
            f"forget: at least {share_text(most.low, n)} of {of} are still learnt; your limit is"
            f" {as_percent(allowed)}."
        )
        return Judgement("fail", reason, "forget", most, limit)
    before = max(by_model.get(BEFORE, []), key=_low, default=None)
    retrained = max(by_model.get(RETRAINED, []), key=_low, default=None)
    reason = ""
    if before is None or _low(before) <= allowed:
        least = share_text(before.low, n) if before else "none"
        reason = (
            f"by their ranks, the model before shows {least} of {of} at least, no more than your"
            f" limit of {as_percent(allowed)}: ranks could not have seen them"
            f"{unread_text(before) if before else ''}"
        )
    elif retrained is not None and _low(retrained) > allowed:
        reason = (
            f"retrained model {retrained.scope.get('number')} surely knows"
            f" {share_text(retrained.low, n)} of {of}: it was trained with them, or another member"
            " has them"
        )
    elif (others := int(float(str(widest.scope["others"])))) < MIN_OTHERS:
        reason = f"{others:,} others are too few to rule out that {of} are left; {MIN_OTHERS} are"
        reason += " needed"
    elif (widest.high or 0.0) > allowed:
        reason = (
            f"up to {share_text(widest.high, n)} of {of} may still be learnt; your limit is"
            f" {as_percent(allowed)}"
            + (unread_text(widest) or ": with more of them this could be told")
        )
    if reason:
        return Judgement("inconclusive", f"forget: {reason}.", "forget", widest, limit)
    reason = (
        f"forget: of {of}, {share_text(before.low if before else None, n)} at least were learnt"
        f" before (by {_rate_text(before)}), and at most {share_text(widest.high, n)} can still be"
        f" told (by {_rate_text(widest)}); your limit is {as_percent(allowed)}"
        f"{unread_text(widest)}."
    )
    return Judgement("pass", reason, "forget", widest, limit)


def _judge_extractable(row: Measurement) -> Judgement:
    if row.value is None:
        return Judgement("inconclusive", f"forget: {row.reason}.", "forget", row)
    allowed, n = row.scope.get("limit"), row.n or 0
    of = counted_units(n, str(row.scope.get("unit")))
    if not all(map(is_finite_number, (allowed, row.low, row.high))):
        reason = "forget: the row of records that come out does not state its limit or its bounds."
        return Judgement("inconclusive", reason, "forget", row)
    share = float(str(allowed))
    text = f"{share_text(row.value, n)} of {of}"
    status, reason = "pass", f"{text} come out word for word"
    if _low(row) > share:
        status, reason = (
            "fail",
            f"{text} still come out word for word, {share_text(row.low, n)} at least because they"
            f" were trained on; your limit is {as_percent(share)}",
        )
    elif (row.high or 0.0) > share:
        status, reason = (
            "inconclusive",
            f"{text} come out word for word, whether because they were trained on or not; your"
            f" limit is {as_percent(share)}",
        )
    limit = f"no more than {as_percent(share)} come out"
    return Judgement(status, f"forget: {reason}.", "forget", row, limit)


def _judge_residual(row: Measurement) -> Judgement:
    if row.value is None:
        reason = (
            "forget: whether the model is like those trained without the member is not known:"
            f" {row.reason}."
        )
        return Judgement("inconclusive", reason, "forget", row)
    allowed, could_see = row.scope.get("limit"), row.scope.get("detectable")
    if not all(map(is_finite_number, (allowed, could_see, row.low, row.high))):
        reason = "forget: the residual does not state its limit, bounds, or what could be seen."
        return Judgement("inconclusive", reason, "forget", row)
    share, detectable = float(str(allowed)), float(str(could_see))
    limit = (
        f"no more than {as_percent(share)} of what was learnt is surely left, where"
        f" {as_percent(MOST_DETECTABLE)} would have been seen"
    )
    low, high = row.low or 0.0, row.high or 0.0
    spelt = f"{percent(row.value)} [{percent(low)}, {percent(high)}]"
    of = f"of what the model before had learnt, {spelt} is left, beside {row.n} retrained models"
    status, reason = "inconclusive", f"{of}: the model is not like them"
    if low > share:
        status, reason = "fail", f"{of}; your limit is {as_percent(share)}"
    elif high < -share:
        status, reason = (
            "fail",
            f"{of}: the records stand lower than if they had never been there, and can be told by"
            f" that; your limit is {as_percent(share)}",
        )
    elif low <= 0 <= high and detectable > MOST_DETECTABLE:
        reason = (
            f"{of}: only {percent(detectable)} would surely have been seen; with more retrained"
            f" models {as_percent(MOST_DETECTABLE)} could be"
        )
    elif low <= 0 <= high:
        status, reason = (
            "pass",
            f"{of}: the model is like them, and {percent(detectable)} would have been seen with a"
            " probability of 90 %",
        )
    return Judgement(status, f"forget: {reason}.", "forget", row, limit)


def _rate_text(row: Measurement | None) -> str:
    """Return in words at which rate of false alarms the records of a row were counted."""
    rate = row.scope.get("fpr") if row else None
    return f"ranks with {as_percent(float(str(rate)))} of false alarms" if rate else "ranks"


def _low(row: Measurement) -> float:
    return row.low or 0.0


def _residual_texts(report: Row) -> Iterator[str]:
    """Yield a sentence on how the model compares with retrained ones."""
    for row in report["measurements"]:
        if row["kind"] != Forget.name or row["metric"] != "residual":
            continue
        if row["value"] is None:
            yield f"Not compared with models trained without the member: {row['reason']}."
            continue
        yield (
            f"Of what the model before had learnt, {percent(row['value'])} [{percent(row['low'])},"
            f" {percent(row['high'])}] is left, by comparison with {row['n']} models trained"
            " without the member."
        )


def _cells(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """Yield the cells of a line for each model and what was counted, the model before first."""
    lines = group_by(rows, lambda row: tuple(str(row["scope"].get(k)) for k in ("unit", "model")))
    for (unit, model), line in sorted(lines.items(), key=lambda one: one[0][1] != BEFORE):
        cells = {"model": model, "of": counted_units(line[0]["n"], unit)}
        for row in line:
            if row["metric"] == "learnt":
                cells[rate_name(row)] = range_text(row)
            elif row["metric"] == "extractable":
                cells["come out"] = NONE if row["hits"] is None else f"{row['hits']:,}"
            else:
                cells["exposure"] = number(row["value"])
        yield cells
