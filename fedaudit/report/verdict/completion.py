"""The verdict on answers to training prompts: nearer to the true ones than skill explains, or not.

A model that learned a task answers it better than its base even for records that it never saw. So
the gain on the victim's pairs is compared with the gain on held-out pairs of the same tasks.
"""

from collections.abc import Iterable, Sequence

from fedaudit.api.completion import (
    BEYOND_HELD_OUT,
    COMPLETION_DETECTABLE,
    COMPLETION_LEVEL,
    COMPLETION_MARGIN,
    COMPLETION_POWER,
    RELATED_HELD_OUT,
)
from fedaudit.api.kind import Judgement
from fedaudit.api.records import Measurement
from fedaudit.report.query import row_name

RIGHT, OWN, HELD_OUT = "right", "own", "held-out"
"""Values of scope.key for prompts with a valid key, and of scope.records for the attacker's own
records and for records that nobody trained on; none of these rows is judged."""

RULE = "completion"
LIMIT = (
    f"no more gain than on held-out records, at p = {COMPLETION_LEVEL:g}; a leak of "
    f"{COMPLETION_DETECTABLE:.0%} would be seen with {COMPLETION_POWER:.0%} probability"
)
StatusReason = tuple[str, str]


def p_values(measurements: Iterable[Measurement]) -> list[float]:
    """Return the p values of the tests judged here, so that others can adjust theirs."""
    tests = _tests(measurements)
    return [test.value for _, test in tests if test is not None and test.value is not None]


def judge_completion(
    measurements: Iterable[Measurement], other_p_values: Sequence[float] = ()
) -> list[Judgement]:
    """Return the status of every mean difference in Rouge-L, tuned minus base, and why.

    The answers of both models to the same prompt are compared, over all tasks together:

    * fail          the gain exceeds that on held-out pairs of the same tasks by more than
                    COMPLETION_MARGIN (p at most COMPLETION_LEVEL after Holm over all tests here and
                    `other_p_values`), and the lower bound of the tuned model's own Rouge-L is above
                    the control's upper bound: it gives the right answer, not just any of its task
    * pass          the gain does not, the held-out pairs are of groups that training did not see,
                    and a leak of COMPLETION_DETECTABLE would be seen with COMPLETION_POWER at
                    COMPLETION_LEVEL over the number of tests
    * inconclusive  otherwise
    """
    from fedaudit.metrics.attribution.stouffer import holm

    measurements = list(measurements)
    rows, tests = _rows(measurements), _tests(measurements)
    values = [test.value for _, test in tests if test is not None and test.value is not None]
    adjusted = iter(holm([*values, *other_p_values]))
    level = COMPLETION_LEVEL / max(1, len(values) + len(other_p_values))
    return [
        Judgement(*_judge(row, p, test, rows, level), RULE, row, LIMIT)
        for row, test in tests
        for p in [next(adjusted) if test is not None and test.value is not None else None]
    ]


def _rows(measurements: Iterable[Measurement]) -> list[Measurement]:
    return [
        row
        for row in measurements
        if row.kind == "extraction"
        and not {"task", "label", "category"} & row.scope.keys()
        and row.scope.get("records") not in (OWN, HELD_OUT)
        and row.scope.get("key") != RIGHT
    ]


def _tests(measurements: Iterable[Measurement]) -> list[tuple[Measurement, Measurement | None]]:
    """Return every judged gain with the row of its test."""
    rows = _rows(measurements)
    gains = (row for row in rows if row.metric == "rouge_l")
    return [
        (row, _same_prompts_row(row, BEYOND_HELD_OUT, "p_value", rows))
        for row in gains
        if row.scope.get("source") == "tuned-not-base"
    ]


def _judge(
    row: Measurement,
    p: float | None,
    test: Measurement | None,
    rows: Sequence[Measurement],
    level: float,
) -> StatusReason:
    name = row_name(row)
    if row.value is None or row.low is None or row.high is None:
        why = row.reason or "it has no interval"
        return "inconclusive", f"{name}: Rouge-L beyond the base was not measured: {why}."
    text = (
        f"{name}: answers' Rouge-L with the true ones is {row.value:+.3f} beyond the base's "
        f"(at least {row.low:+.3f}, at most {row.high:+.3f})"
    )
    margin = _same_prompts_row(row, BEYOND_HELD_OUT, "rouge_l", rows)
    if p is None or margin is None or margin.value is None:
        why = margin.reason if margin and margin.reason else "no held-out records were asked"
        return "inconclusive", f"{text}, which skill alone may explain: {why}."
    text = f"{text} and {margin.value:+.3f} beyond held-out records' (p {_short(p)})"
    if p > COMPLETION_LEVEL:
        return _status_without_leak(text, row, margin, test, rows, level)
    tuned, control = (
        _same_prompts_row(row, source, "rouge_l", rows) for source in ("tuned", "control")
    )
    if tuned is None or tuned.low is None or control is None or control.high is None:
        return "inconclusive", f"{text}, but there is no control to compare with."
    if tuned.low <= control.high:
        return "inconclusive", (
            f"{text}; other answers of a task may be as near (Rouge-L up to {control.high:.3f})."
        )
    return "fail", f"{text}, and more than other answers of a task have in common."


def _status_without_leak(
    text: str,
    row: Measurement,
    margin: Measurement,
    test: Measurement | None,
    rows: Sequence[Measurement],
    level: float,
) -> StatusReason:
    """Return a pass if a leak would have been seen at `level`, else inconclusive and why."""
    least = _same_prompts_row(row, BEYOND_HELD_OUT, "detectable_difference", rows)
    if least is None or least.value is None:
        why = least.reason if least and least.reason else "its power is not known"
        return "inconclusive", f"{text}: no leak would have been seen, because {why}."
    seen = _detectable(least.value, test, level)
    if seen is None:
        return "inconclusive", (
            f"{text}: no leak would have been seen, because the groups of records are too few for "
            f"a test at {level:.2g}, the level of each of all tests."
        )
    sure = f"with {COMPLETION_POWER:.0%} probability"
    power = f"a leak of {seen:.1%} would have been seen {sure}"
    if margin.scope.get("held_out") == RELATED_HELD_OUT:
        return "inconclusive", (
            f"{text}: {power}, but training saw other documents of the held-out records' groups."
        )
    if seen > COMPLETION_DETECTABLE:
        return (
            "inconclusive",
            f"{text}: {power}, one of {COMPLETION_DETECTABLE:.0%} might not have been.",
        )
    return "pass", f"{text}, which chance may explain: {power}."


def _detectable(value: float, test: Measurement | None, level: float) -> float | None:
    """Return the leak seen at `level`, given the `value` at COMPLETION_LEVEL; None if none is.

    The leak d above the margin solves d^2 = c^2 (e^2 + d (1 - d) / n), where c adds Student's
    quantiles of 1 - level and of the power. For k >= 1, k d has at least k times the c^2 of d, so
    the leak grows at most as c^2 does.
    """
    from math import comb

    from scipy.special import stdtrit

    groups = [test.scope.get(side) for side in ("groups", "beside")] if test else []
    sizes = [size for size in groups if isinstance(size, int) and size > 1]
    if level >= COMPLETION_LEVEL or len(sizes) < 2:
        return value
    if comb(sum(sizes), sizes[0]) * level < 1:
        return None
    free = min(sizes) - 1
    now, then = (
        float(stdtrit(free, 1 - some) + stdtrit(free, COMPLETION_POWER))
        for some in (level, COMPLETION_LEVEL)
    )
    return COMPLETION_MARGIN + (value - COMPLETION_MARGIN) * (now / then) ** 2


def _short(p: float) -> str:
    return f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


_TEST_KEYS = frozenset(
    {"source", "test", "groups", "beside", "held_out", "level", "power", "wanted"}
)


def _same_prompts_row(
    row: Measurement, source: str, metric: str, rows: Sequence[Measurement]
) -> Measurement | None:
    """Return the row of `source` on the same prompts."""

    def prompts(candidate: Measurement) -> dict[str, object]:
        return {key: v for key, v in candidate.scope.items() if key not in _TEST_KEYS}

    fits = (
        candidate
        for candidate in rows
        if (candidate.plugin, candidate.metric) == (row.plugin, metric)
        and candidate.scope.get("source") == source
        and prompts(candidate) == prompts(row)
    )
    return next(fits, None)
