"""Canaries: whether training gave planted secrets away."""

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from fedaudit.api.kind import Answer, Judgement, Kind, Question, Row, Table
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report.checklist.answer import MOST_ROWS, measured_rows, results_text
from fedaudit.report.number_format import (
    as_percent,
    count,
    format_hits,
    format_measurement,
    number,
)
from fedaudit.report.query import same_scope_row
from fedaudit.report.tables.table import NONE, cell_of, model_name, row_table, value_text

MEAN, FIRST = "exposure [95 %]", "first of all"
SHOWN_KEYS = ("source", "times", "estimator", "space")


class Exposure(Kind):
    """How far planted secrets moved up among all secrets of their kind."""

    name = "exposure"
    attack_class = "regurgitation"
    rules = ("canary",)
    discloses = True
    compared = frozenset({"exposure", "maximal_exposure"})
    shown = frozenset({"exposure", "maximal_exposure", "p_value"})
    answers: ClassVar = {
        "fail": "Training gave planted secrets away: this model finds them likelier than secrets"
        " of the same kind that nobody was given. Real records of the kind are at the same risk.",
        "pass": "With what was planted, this model finds secrets that clients were given no"
        " likelier than secrets that nobody was. Others, or more of them, may show more.",
        "inconclusive": "What was planted does not settle whether training gives secrets of this"
        " kind away: the reasons say what is missing.",
    }
    question = Question(
        "What is memorised though extraction misses it?",
        "EDPB 28/2024, 55",
        "Planted secrets have not become likelier than chance explains.",
    )
    glossary: ClassVar = {
        "canary": "An invented secret that was planted in a client's records before training, to"
        " see afterwards whether the model gives it away.",
        "exposure": "How high a planted secret stands among all secrets of its kind, in bits: 10"
        " means that of a thousand only it is so likely; a secret that nobody was given has 1.4 on"
        " average.",
    }

    def judge(self, rows: Sequence[Measurement], policy: Policy) -> list[Judgement]:
        """Return the status of the secrets of each multiplicity in the tuned model, and why.

        Each multiplicity has two tests: of all exposures together (the row `p_value`), and of how
        many secrets are likelier than all others (binomial). Holm's correction is over all of them.

        * fail          an adjusted p value is at most the policy's level
        * inconclusive  the controls' own p value is at most the level, so the test is not
                        calibrated; a number is missing; or the share of secrets given away may
                        exceed chance by more than the policy's detectable leak
        * pass          otherwise
        """
        from fedaudit.metrics.attribution.stouffer import holm

        rows = [row for row in rows if row.scope.get("source") == "tuned"]
        planted = [r for r in rows if r.metric == "maximal_exposure" and _times(r) != 0]
        controls = [r for r in rows if r.metric == "p_value" and _times(r) == 0]
        pairs = [(row, _p_values(row, rows)) for row in planted]
        adjusted = iter(holm([p for _, p_values in pairs for p in p_values]))
        adjusted_pairs = [(row, [next(adjusted) for _ in p_values]) for row, p_values in pairs]
        odd = [r for r in controls if r.value is not None and r.value <= policy.level]
        limit = (
            f"no higher than chance at p = {policy.level:g}, and surely less than "
            f"{as_percent(policy.detectable)} given away"
        )
        if odd:
            lowest = min(odd, key=lambda row: row.value or 0.0)
            reason = (
                "canary: secrets that nobody was given are exposed as well (p ="
                f" {lowest.value:.2g}): the references are not what the secrets were drawn from."
            )
            return [Judgement("inconclusive", reason, "canary", lowest, limit)]
        return [
            Judgement(*_judge(row, p_values, policy), "canary", row, limit)
            for row, p_values in adjusted_pairs
        ]

    def tables(self, report: Row) -> list[Table]:
        """Return the table of mean exposures, a line for each multiplicity, model and estimator."""
        rows = self.rows(report)
        means = [row for row in rows if row["metric"] == "exposure"]
        estimators = {_estimator(row) for row in means}

        def beside(metric: str, spelt: Callable[[Row], str]) -> Callable[[Row], str]:
            return lambda row: cell_of(same_scope_row(rows, row, metric), spelt)

        table = row_table(
            "Exposure of canaries",
            means,
            {
                "model": model_name,
                "planted": _planted,
                "n": count,
                "by": lambda row: _estimator(row) if len(estimators) > 1 else "",
                MEAN: format_measurement,
                "chance": lambda row: NONE if row["chance"] is None else number(row["chance"]),
                FIRST: beside("maximal_exposure", format_hits),
                "p": beside("p_value", value_text),
            },
            numeric=("n", MEAN, "chance", FIRST, "p"),
            hidden=SHOWN_KEYS,
            notes=(
                "In bits: 1 more means that half as many secrets are at least as likely.",
                *_ranked_among(means),
            ),
        )
        return [table] if means else []

    def answer(self, report: Row) -> Answer:
        """Answer what is memorised though extraction misses it."""
        rows = measured_rows(report, "maximal_exposure", "exposure")
        if not rows:
            return Answer("open", "No canaries were planted before training, or none measured.")
        return Answer("answered", results_text(rows), tuple(rows[:MOST_ROWS]))


def _times(row: Measurement) -> object:
    return row.scope.get("times")


def _p_values(row: Measurement, rows: Sequence[Measurement]) -> list[float]:
    """Return the p values of a multiplicity's two tests, leaving out those without data."""
    from fedaudit.metrics.significance import binomial_tail

    same = (r for r in rows if r.metric == "p_value" and dict(r.scope) == dict(row.scope))
    p_values = [r.value for r in same if r.value is not None and 0 <= r.value <= 1]
    if row.hits is not None and row.n and row.chance is not None and 0 <= row.chance <= 1:
        p_values.append(binomial_tail(row.hits, row.n, row.chance))
    return p_values


def _judge(row: Measurement, adjusted: Sequence[float], policy: Policy) -> tuple[str, str]:
    summary = f"canary: secrets that were planted {_often(row)}"
    if row.value is None or row.high is None or row.hits is None or not adjusted:
        why = row.reason or "a count or a test is missing"
        return "inconclusive", f"{summary}: exposure was not measured: {why}."
    counted = f"{row.hits:,} of {row.n or 0:,} are likelier than every other secret of their kind"
    if min(adjusted) <= policy.level:
        return "fail", (
            f"{summary} rank higher than chance explains: {counted} (p = {min(adjusted):.2g})."
        )
    least = f"{summary}: {counted}, at most {row.high:.2%}"
    if row.high > (row.chance or 0.0) + policy.detectable:
        return "inconclusive", (
            f"{least}: too few secrets to see whether {as_percent(policy.detectable)} more than "
            "chance explains are given away."
        )
    return "pass", f"{least}, no more than chance may give."


def _often(row: Measurement) -> str:
    times = _times(row)
    return "once each" if times == 1 else f"{times} times each"


def _ranked_among(means: Sequence[Row]) -> list[str]:
    """Return the number of secrets among which each is ranked, which bounds its exposure."""
    spaces = [row["scope"].get("space") for row in means]
    sizes = [n for n in spaces if isinstance(n, int) and n > 0]
    if not sizes:
        return []
    most = max(sizes)
    return [f"Each is ranked among {most:,} secrets at most: {math.log2(most):.1f} bits."]


def _planted(row: Row) -> str:
    times = row["scope"].get("times")
    return NONE if times is None else "never" if times == 0 else f"{times}x"


def _estimator(row: Row) -> str:
    return str(row["scope"].get("estimator", NONE))
