"""A claimed epsilon: refuted, not refuted, or audited without the power to refute it."""

from collections.abc import Sequence
from typing import ClassVar

from fedaudit.api.kind import Answer, Judgement, Kind, Question, Row, Table
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report.checklist.answer import MOST_ROWS, measured_rows, results_text
from fedaudit.report.number_format import format_measurement, number
from fedaudit.report.tables.table import NONE, cell_of, row_table, value_text

SOURCES = {
    "tuned": "audited",
    "noiseless": "without noise",
    "shuffled": "coins tossed anew",
}
ESTIMATORS = {"f_dp": "f-DP, Gaussian", "one_run": "any mechanism"}


class Epsilon(Kind):
    """What an audit proves of a claim of differential privacy."""

    name = "epsilon"
    rules = ("epsilon",)
    compared = frozenset({"epsilon_low", "auc"})
    shown = frozenset({"epsilon_cap", "epsilon_low", "auc"})
    outcomes = frozenset({"guesses", "correct"})
    answers: ClassVar = {
        "fail": "The claim of differential privacy is refuted: this model tells more of single"
        " documents than the claimed epsilon allows. Something in training is not as claimed.",
        "pass": "The claim of differential privacy is not refuted, by an audit that refutes it of"
        " the same training without noise. That does not make it true.",
        "inconclusive": "The claim of differential privacy is neither refuted nor tested by an"
        " audit with the power to refute it: the reasons say what is missing.",
    }
    question = Question(
        "Is the claim of differential privacy true?",
        "NIST SP 800-226",
        "The claim of differential privacy was not refuted.",
    )
    glossary: ClassVar = {
        "epsilon": "How much one record can change what is learned from all of them, under"
        " differential privacy. The smaller, the less the model can tell of a record; delta is the"
        " chance that the promise does not hold.",
    }

    def judge(self, rows: Sequence[Measurement], policy: Policy) -> list[Judgement]:
        """Return the status of the claimed epsilon, and why; nothing if no claim was audited.

        * inconclusive  coins tossed afresh, which training never saw, prove an epsilon as well
        * fail          otherwise, if some position proves a larger epsilon than is claimed
        * inconclusive  this number of canaries cannot prove more than is claimed; or the same
                        training without noise is not refuted, or was not audited: the audit has no
                        power
        * pass          otherwise: the claim is not refuted, which does not make it true

        The levels of all positions add up to the level in the file, so no correction is needed.
        """
        rows = [row for row in rows if row.scope.get("judged") is True]
        tuned_rows = [row for row in rows if row.scope.get("source") == "tuned"]
        if not rows:
            return []
        if not tuned_rows or any(row.value is None or row.baseline is None for row in rows):
            reason = "dp: a bound or the claim was not measured."
            return [Judgement("inconclusive", reason, "epsilon", rows[0])]
        claimed = tuned_rows[0].baseline or 0.0
        status, why = _judge(tuned_rows, rows, claimed)
        highest = max(tuned_rows, key=lambda row: row.value or 0.0)
        reason = f"dp: epsilon {claimed:g} is claimed{why}"
        limit = f"no more proved than {claimed:g}"
        return [Judgement(status, reason, "epsilon", highest, limit)]

    def tables(self, report: Row) -> list[Table]:
        """Return the table of the bounds, a line for each model, position and test."""
        rows = self.rows(report)
        bounds = [row for row in rows if row["metric"] == "epsilon_low"]
        caps = {
            row["scope"].get("estimator"): number(row["value"])
            for row in reversed(rows)
            if row["metric"] == "epsilon_cap"
        }
        columns = {
            "model": lambda row: SOURCES.get(str(row["scope"].get("source")), NONE),
            "seen as": lambda row: str(row["scope"].get("position", NONE)),
            "test": _test,
            "right": _right,
            "AUC [95 %]": lambda row: cell_of(_area(row, rows), format_measurement),
            "epsilon at least": value_text,
            "at most provable": lambda row: caps.get(row["scope"].get("estimator"), NONE),
            "claimed": lambda row: NONE if row["baseline"] is None else number(row["baseline"]),
        }
        numeric = tuple(columns)[3:]
        notes = _unit(bounds[0]) if bounds else ()
        table = row_table("Claimed epsilon", bounds, columns, numeric=numeric, notes=notes)
        return [table] if bounds else []

    def answer(self, report: Row) -> Answer:
        """Answer whether a claim of differential privacy is true."""
        lower = [row for row in measured_rows(report, "epsilon_low") if row["kind"] == "epsilon"]
        if lower:
            names = ("delta", "unit", "neighbouring", "position")
            scope = lower[0]["scope"]
            terms = ", ".join(f"{name} {scope[name]}" for name in names if name in scope)
            return Answer(
                "answered", f"{results_text(lower)} Claim: {terms}.", tuple(lower[:MOST_ROWS])
            )
        claimed = measured_rows(report, "epsilon")
        if not claimed:
            return Answer(
                "open", "The report has no claim of differential privacy, and tested none."
            )
        text = f"Claimed, not tested: {results_text(claimed)} `fedaudit dp audit` tests it."
        return Answer("in part", text, tuple(claimed[:MOST_ROWS]))


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


def _test(row: Row) -> str:
    name = str(row["scope"].get("estimator", ""))
    return ESTIMATORS.get(name, name) + (" (judged)" if row["scope"].get("judged") else "")


def _right(row: Row) -> str:
    scope = row["scope"]
    return f"{scope['correct']} / {scope['guesses']}" if "guesses" in scope else NONE


def _area(row: Row, rows: Sequence[Row]) -> Row | None:
    scope = {key: row["scope"].get(key) for key in ("source", "position", "client")}
    return next((r for r in rows if r["metric"] == "auc" and r["scope"] == scope), None)


def _unit(row: Row) -> list[str]:
    scope = row["scope"]
    return [
        f"Unit: {scope.get('unit')}; neighbours: {scope.get('neighbouring')}; public: "
        f"{scope.get('public')}; delta {scope.get('delta')}, {scope.get('canaries')} canaries of "
        f"{scope.get('client')}, p {scope.get('p')}."
    ]
