"""The verdict on a claimed epsilon: refuted, not refuted, or no power to refute it."""

from collections.abc import Iterable, Sequence

from fedaudit.api.records import Measurement
from fedaudit.report.verdict.judgement import Judgement

KIND = RULE = "epsilon"


def judge_epsilon(measurements: Iterable[Measurement]) -> list[Judgement]:
    """Return the status of the claimed epsilon, and why; nothing if no claim was audited.

    * inconclusive  coins tossed afresh, which training never saw, prove an epsilon as well
    * fail          otherwise, if some position proves a larger epsilon than is claimed
    * inconclusive  this number of canaries cannot prove more than is claimed; or the same training
                    without noise is not refuted, or was not audited: the audit has no power
    * pass          otherwise: the claim is not refuted, which does not make it true

    The levels of all positions add up to the level in the file, so no correction is needed.
    """
    rows = [row for row in measurements if row.kind == KIND and row.scope.get("judged") is True]
    tuned_rows = [row for row in rows if row.scope.get("source") == "tuned"]
    if not rows:
        return []
    if not tuned_rows or any(row.value is None or row.baseline is None for row in rows):
        reason = "dp: a bound or the claim was not measured."
        return [Judgement("inconclusive", reason, RULE, rows[0])]
    claimed = tuned_rows[0].baseline or 0.0
    status, why = _judge(tuned_rows, rows, claimed)
    highest = max(tuned_rows, key=lambda row: row.value or 0.0)
    reason, limit = f"dp: epsilon {claimed:g} is claimed{why}", f"no more proved than {claimed:g}"
    return [Judgement(status, reason, RULE, highest, limit)]


def _judge(
    tuned_rows: Sequence[Measurement], rows: Sequence[Measurement], claimed: float
) -> tuple[str, str]:
    """Return the status of a claim, and the rest of the sentence "epsilon ... is claimed"."""
    odd, most = _highest_bound(rows, "shuffled"), _highest_bound(rows, "tuned")
    if odd is None or odd > 0:
        return (
            "inconclusive",
            f"; with coins tossed anew the audit proves {odd or 0:.3g}, and must prove 0.",
        )
    if most is not None and most > claimed:
        best = next(row for row in tuned_rows if row.value == most)
        return "fail", f", and refuted: it is at least {most:.3g} ({_bound_text(best)})."
    if trouble := _without_power(rows, claimed):
        return "inconclusive", f"; no power: {trouble}"
    return "pass", (
        f" and not refuted: at least {most:.3g} is proved; of the same training without noise this "
        f"audit proves {_highest_bound(rows, 'noiseless'):.3g}."
    )


def _without_power(rows: Sequence[Measurement], claimed: float) -> str:
    """Return why the audit could not have refuted the claim; empty if it could."""
    cap = max((row.value or 0.0 for row in rows if row.metric == "epsilon_cap"), default=0.0)
    if cap <= claimed:
        return f"so few canaries can prove {cap:.3g} at most, whatever the model gives away."
    control = _highest_bound(rows, "noiseless")
    if control is None:
        return "no training without noise was audited, so nothing shows that the audit has any."
    if control <= claimed:
        return f"of the same training without noise the audit proves only {control:.3g}."
    return ""


def _highest_bound(rows: Sequence[Measurement], source: str) -> float | None:
    """Return a source's highest lower bound on epsilon; None if there is none."""
    bounds = [row for row in rows if row.metric == "epsilon_low"]
    return max(
        (row.value or 0.0 for row in bounds if row.scope.get("source") == source), default=None
    )


def _bound_text(row: Measurement) -> str:
    scope = row.scope
    return (
        f"{scope.get('correct')} of {scope.get('guesses')} guesses are right, seen as "
        f"{scope.get('position')}, against {scope.get('hypothesis')}, delta {scope.get('delta')}, "
        f"p {scope.get('p')}"
    )
