"""A member's own audit over rounds: how many of its records the global models have learnt."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import ClassVar

from fedaudit.api.kind import Answer, Judgement, Kind, Question, Row, Table
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report.number_format import as_percent, first_of, number, percent
from fedaudit.report.query import missing_reasons
from fedaudit.report.tables.table import NONE, build_table
from fedaudit.system.numbers import is_finite_number

JUDGED_FPR = 0.01
"""The share of others that may rank as high in what a pass is about."""
MIN_OTHERS = 100
"""The fewest others of which that share is a whole one."""
UNSTATED = (
    "the rows do not state the limit, their bounds, or how many others were compared with at one"
    " false alarm in a hundred"
)
MOST_GAPS = 5
"""The maximum number of gaps between rounds that a reason names."""
BY_NOW = "at least, by now"


class Watch(Kind):
    """What a federation learns of a member's records, tested by the member in every round."""

    name = "watch"
    attack_class = "membership_inference"
    rules = ("watch",)
    discloses = False
    compared = frozenset({"learnt"})
    shown = frozenset({"learnt", "exposure"})
    answers: ClassVar = {
        "fail": "Stop now: the global models have learnt more of your records than your limit"
        " allows, and everyone who has them can tell.",
        "pass": "So far, the global models show no more of your records than your limit allows, to"
        " this test. Other attacks may see more, and later rounds may learn more.",
        "inconclusive": "It is neither shown that the global models have learnt more of your"
        " records than your limit allows, nor that they have not: the reasons say why.",
    }
    question = Question(
        "What has a federation learnt of one member by now?",
        "OWASP AISVS 12.3.4",
        "In no round so far was more learnt of the member's records than it allows.",
    )
    glossary: ClassVar = {
        "learnt": "Of a member's records, how many rank higher than they would if the model had"
        " not been trained on them. Records that were set aside at random show what chance gives.",
    }

    def judge(self, rows: Sequence[Measurement], policy: Policy) -> list[Judgement]:
        """Return the status of the member's records, and of its canaries, over all rounds.

        All bounds of all rounds hold together, so the highest lower bound so far is one, too.

        * fail          in some round surely more was learnt than the limit allows
        * inconclusive  something was not measured; fewer than 100 others were compared with; or
                        among those above all but 1 % of the others in some round, more than the
                        limit allows may be there because of training; or a round is missing
        * pass          otherwise
        """
        learnt = [row for row in rows if row.metric == "learnt"]
        units = list(dict.fromkeys(row.scope.get("unit") for row in learnt))
        return [
            _judge(str(unit), [row for row in learnt if row.scope.get("unit") == unit])
            for unit in units
        ]

    def tables(self, report: Row) -> list[Table]:
        """Return the table of bounds, a line for each round and what was counted."""
        rows = [row for row in self.rows(report) if row["metric"] == "learnt"]
        if not rows:
            return []
        measured = [row for row in rows if row["value"] is not None]
        lines = [list(group) for _, group in groupby(measured, key=_line)]
        cells = list(_cells(lines, self.rows(report)))
        rates = list(dict.fromkeys(rate_name(row) for row in measured))
        columns = ("round", "of", *rates, BY_NOW, "exposure")
        notes = [
            "How many rank above all but 1 % (10 %, 50 %) of what they are compared with because"
            " they were trained on: at least, to at most. All bounds of all rounds hold together"
            " with 95 % confidence.",
            *missing_reasons(rows),
        ]
        return [
            build_table(
                "Learnt of your records, by round",
                cells,
                columns,
                numeric=("round", *rates, BY_NOW, "exposure"),
                notes=tuple(notes),
            )
        ]

    def sentences(self, report: Row) -> list[str]:
        """Return what was tested and what came of it."""
        rows = [row for row in self.rows(report) if row["metric"] == "learnt"]
        measured = [row for row in rows if row["value"] is not None]
        found = []
        for unit in dict.fromkeys(row["scope"].get("unit") for row in measured):
            own = [row for row in measured if row["scope"].get("unit") == unit]
            rounds = len({row["scope"].get("round") for row in own})
            best = max(own, key=lambda row: row["low"] or 0.0)
            found.append(
                f"The global models of {rounds:,} round{'s' * (rounds != 1)} were tested on"
                f" {read_units(own[0], str(unit))}; at least {_least(best)} were learnt."
            )
        return found

    def answer(self, report: Row) -> Answer | None:
        """Answer what was learnt of the member by now."""
        sentences = self.sentences(report)
        if not sentences:
            return Answer("open", "No member tested the rounds with its own records.")
        rows = [row for row in self.rows(report) if row["value"] is not None]
        return Answer("answered", " ".join(sentences), tuple(rows[-3:]))


def _judge(unit: str, rows: Sequence[Measurement]) -> Judgement:
    judged = [row for row in rows if row.scope.get("fpr") == JUDGED_FPR]
    if unjudged := why_unjudged(Watch.name, rows, judged):
        return unjudged
    allowed = float(str(rows[0].scope["limit"]))
    most = max(rows, key=lambda row: row.low or 0.0)
    widest = max(judged, key=lambda row: row.high or 0.0)
    n, others = most.n or 0, int(float(str(widest.scope["others"])))
    of, least = counted_units(n, unit), share_text(most.low, n)
    status, row = "inconclusive", widest
    if (most.low or 0.0) > allowed:
        status, row = "fail", most
        reason = (
            f"after round {most.scope.get('round')} at least {least} of"
            f" {of} rank higher than if they had not been trained on; your limit is"
            f" {as_percent(allowed)}: stop now"
        )
    elif others < MIN_OTHERS:
        reason = (
            f"{others:,} others are too few to rule a leak out; {MIN_OTHERS} are needed. At"
            f" least {least} of {of} were learnt"
        )
    elif (widest.high or 0.0) > allowed:
        reason = (
            f"up to {share_text(widest.high, n)} of {of} may have been learnt by"
            f" round {widest.scope.get('round')}, at least {least}; your limit is"
            f" {as_percent(allowed)}{unread_text(widest)}"
        )
    else:
        missing = missing_rounds(row.scope.get("round") for row in rows)
        status = "inconclusive" if missing else "pass"
        reason = (
            f"of {of} at most {share_text(widest.high, n)} can be told in any"
            f" {'tested round' if missing else 'round'}, at one false alarm in a hundred; your"
            f" limit is {as_percent(allowed)}{unread_text(widest)}"
            + (f"; untested: {missing}, where more may have been learnt" if missing else "")
        )
    limit = f"no more than {as_percent(allowed)} learnt"
    return Judgement(status, f"watch: {reason}.", "watch", row, limit)


def why_unjudged(
    rule: str, rows: Sequence[Measurement], judged: Sequence[Measurement]
) -> Judgement | None:
    """Return why rows cannot be judged: a number, the limit or, of those `judged`, others miss."""
    missing = next((row for row in rows if row.value is None), None)
    if missing is None and states_bounds(rows, judged):
        return None
    reason = UNSTATED if missing is None else missing.reason
    return Judgement("inconclusive", f"{rule}: {reason}.", rule, missing or rows[0])


def states_bounds(rows: Sequence[Measurement], judged: Sequence[Measurement]) -> bool:
    """Tell whether rows have bounds and a limit, and those that a pass is about their others."""
    stated = [
        rows[0].scope.get("limit"),
        *(end for row in rows for end in (row.low, row.high)),
        *(row.scope.get("others") for row in judged),
    ]
    return bool(judged) and all(map(is_finite_number, stated))


def missing_rounds(numbers: Iterable[object]) -> str:
    """Return in words the rounds from 1 on that are missing before the last one; empty if none is.

    For example `round 3`, or `rounds 1 to 4 and 6`.
    """
    gaps: list[tuple[int, int]] = []
    last = 0
    for one in sorted({int(one) for one in numbers if is_finite_number(one)}):
        if one > last + 1:
            gaps.append((last + 1, one - 1))
        last = max(last, one)
    if not gaps:
        return ""
    names = [str(first) if first == end else f"{first} to {end}" for first, end in gaps]
    if len(names) > MOST_GAPS:
        listed = ", ".join(first_of(names, MOST_GAPS))
    else:
        listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"round {listed}" if listed == str(gaps[0][0]) else f"rounds {listed}"


def unread_text(row: Measurement) -> str:
    """Return how many of the units in a bound were not read; empty if all were."""
    unread = row.scope.get("unread")
    if not is_finite_number(unread) or not unread:
        return ""
    of = counted_units(int(float(str(unread))), str(row.scope.get("unit")))
    return f"; {of} among them had too few tokens to be read, and may have been learnt"


def read_units(row: Row, unit: str) -> str:
    """Return how many units were read: `120 records`, or `10 of 120 records`."""
    counted, unread = counted_units(row["n"], unit), row["scope"].get("unread")
    if not is_finite_number(unread) or not unread:
        return counted
    return f"{(row['n'] or 0) - int(unread):,} of {counted}"


def _line(row: Row) -> tuple[str, str, str]:
    """Return the round, the test and the unit: a round whose model was replaced has two tests."""
    scope = row["scope"]
    return str(scope.get("round")), str(scope.get("test")), str(scope.get("unit"))


def _cells(lines: Sequence[Sequence[Row]], rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """Yield the cells of each line; the last bound is the highest up to that round."""
    exposures = {_line(row): row for row in rows if row["metric"] == "exposure"}
    highest: dict[str, Row] = {}
    for line in lines:
        key = number_, _, unit = _line(line[0])
        best = max([*line, *filter(None, [highest.get(unit)])], key=lambda row: row["low"] or 0.0)
        highest[unit] = best
        cells = {rate_name(row): range_text(row) for row in line}
        bits = exposures.get(key)
        yield {
            "round": f"{number_} (replaced)" if line[0]["scope"].get("replaced") else number_,
            "of": counted_units(line[0]["n"], unit),
            **cells,
            BY_NOW: _least(best),
            "exposure": "" if bits is None else number(bits["value"]),
        }


def rate_name(row: Row) -> str:
    """Return the heading of a row's column: `at 1%`."""
    return f"at {as_percent(float(row['scope'].get('fpr', 0)))}"


def range_text(row: Row) -> str:
    """Return a row's bounds as counts: `31-42`."""
    if row["low"] is None or row["high"] is None or row["n"] is None:
        return NONE
    low, high = (round(row[end] * row["n"]) for end in ("low", "high"))
    return f"{low:,}-{high:,}"


def _least(row: Row) -> str:
    return share_text(row["low"], row["n"] or 0)


def share_text(share: float | None, n: int) -> str:
    """Return a share of n as a count, with the share: `31 (10.3 %)`."""
    return f"{round((share or 0.0) * n):,} ({percent(share or 0.0)})"


def counted_units(n: int | None, unit: str) -> str:
    """Return a number of records, groups or canaries: `12 canaries`."""
    noun = {"canary": "canaries"}.get(unit, f"{unit}s") if n != 1 else unit
    return f"{n or 0:,} {noun}"
