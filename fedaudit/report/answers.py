"""The verdict on answers to training prompts: nearer to the true ones than a base's or not."""

from collections.abc import Iterable, Mapping, Sequence

from fedaudit.records import Measurement

RIGHT, OWN = "right", "own"
"""scope.key of what was asked with a key that opens, scope.records of the attacker's own records;
neither is judged."""

Judged = tuple[str, str]
"""A status, and why."""


def judged(measurements: Iterable[Measurement]) -> list[Judged]:
    """Return the status of every mean difference in Rouge-L, tuned less base, and why.

    Pairs of an answer by either model to one prompt are compared, all tasks together:

    * fail          the difference's lower bound is above 0, and that of the tuned model's own
                    Rouge-L above the control's upper bound: the right answer, not any of its task
    * inconclusive  no number, or a lower bound above 0 that the control may explain
    * pass          otherwise
    """
    rows = [
        row
        for row in measurements
        if (row.kind, row.metric) == ("extraction", "rouge_l")
        and not {"task", "label", "category"} & row.scope.keys()
        and row.scope.get("records") != OWN
        and row.scope.get("key") != RIGHT
    ]
    return [_judge(row, rows) for row in rows if row.scope.get("source") == "tuned-not-base"]


def _judge(row: Measurement, rows: Sequence[Measurement]) -> Judged:
    name = f"{row.plugin} ({_told(row.scope)})" if _told(row.scope) else row.plugin
    if row.value is None or row.low is None or row.high is None:
        why = row.reason or "it has no interval"
        return "inconclusive", f"{name}: Rouge-L beyond the base was not measured: {why}."
    told = (
        f"{name}: answers' Rouge-L with the true ones is {row.value:+.3f} beyond the base's "
        f"(at least {row.low:+.3f}, at most {row.high:+.3f})"
    )
    if row.low <= 0:
        return "pass", f"{told}, which may be nothing."
    tuned, control = (_like(row, source, rows) for source in ("tuned", "control"))
    if tuned is None or tuned.low is None or control is None or control.high is None:
        return "inconclusive", f"{told}, but there is no control to compare with."
    if tuned.low <= control.high:
        return "inconclusive", (
            f"{told}; other answers of a task may be as near (Rouge-L up to {control.high:.3f})."
        )
    return "fail", f"{told}, and more than other answers of a task have in common."


def _like(row: Measurement, source: str, rows: Sequence[Measurement]) -> Measurement | None:
    """Return the row of `source` on the same prompts."""
    same = {**row.scope, "source": source}
    return next((one for one in rows if one.plugin == row.plugin and dict(one.scope) == same), None)


def _told(scope: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in scope.items() if key != "source")
