"""Reconstruction: whether records can be read out of what a client sends."""

from collections.abc import Sequence

from fedaudit.api.kind import Judgement, Kind, Row, Test
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report.number_format import format_hits
from fedaudit.report.query import rows_like

RATE, TOKENS = "reconstruction_rate", "token_rate"
LIMIT = "no record can be read out of a client's update"


class Reconstruction(Kind):
    """How many of a client's records come out of its update."""

    name = "reconstruction"
    title = "Reconstruction from updates"
    attack_class = "reconstruction"
    rules = ("reconstruction",)
    discloses = True
    compared = frozenset({RATE, TOKENS})
    shown = frozenset({RATE, TOKENS, "p_value"})

    def tests(
        self, rows: Sequence[Measurement], policy: Policy
    ) -> list[tuple[Measurement, Test | None]]:
        """Return how many records of each client came out, word for word or as unordered tokens.

        Texts have the attack's p value; tokens that of Fisher's exact test against others' records.
        """
        rates = [
            row
            for row in rows
            if row.metric in (RATE, TOKENS)
            and row.scope.get("source") == "tuned"
            and row.value is not None
        ]
        return [(row, _test(row, rows)) for row in rates]

    def judge(self, rows: Sequence[Measurement], policy: Policy) -> list[Judgement]:
        """Return why nothing can be told of any update, if that is so."""
        tried = [row for row in rows if row.metric in (RATE, TOKENS)]
        if any(row.value is not None for row in tried):
            return []
        reasons = dict.fromkeys(f"{row.plugin}: not measured: {row.reason}." for row in tried)
        return [Judgement("inconclusive", one, "reconstruction", None, LIMIT) for one in reasons]

    def judge_test(
        self, row: Measurement, test: Test | None, adjusted: float | None, policy: Policy
    ) -> Judgement:
        """Return the status of one client's update: fail, or inconclusive.

        Nothing passes: that this search finds no record does not say that no search does.
        """
        client = row.scope.get("client", "a client")
        what = "records" if row.metric == RATE else "records' tokens"
        found = f"{row.plugin}: {row.hits or 0:,} of {row.n or 0:,} {what} of {client}"
        if test is not None and row.hits and adjusted is not None and adjusted <= policy.level:
            how = "word for word" if row.metric == RATE else "without their order"
            reason = f"{found} can be read out of its update, {how} (p = {adjusted:.2g})."
            return Judgement("fail", reason, "reconstruction", row, LIMIT)
        reason = f"{found} were read out of its update: a better search may find more."
        return Judgement("inconclusive", reason, "reconstruction", row, LIMIT)

    def sentences(self, report: Row) -> list[str]:
        """Return a sentence for each client whose update could be inverted."""
        return [
            f"The attack {row['plugin']} read {WHAT[row['metric']].format(format_hits(row))} of "
            f"{row['scope'].get('client')} out of its update."
            for row in self.rows(report)
            if row["metric"] in WHAT
            and row["scope"].get("source") == "tuned"
            and row["value"] is not None
        ]


WHAT = {RATE: "{} records", TOKENS: "the tokens of {} records, without their order,"}


def _test(row: Measurement, rows: Sequence[Measurement]) -> Test | None:
    what = " tokens" if row.metric == TOKENS else ""
    name = f"{row.plugin}{what} (client {row.scope.get('client', '')})"
    if row.metric == TOKENS:
        control = next(iter(rows_like(row, rows, source="control")), None)
        if control is None:
            return None
        from fedaudit.metrics.significance import Stratum, stratified_p_value

        counts = (row.hits or 0, row.n or 0, control.hits or 0, control.n or 0)
        p = stratified_p_value([Stratum(*counts)])
        return Test(name, p, "records whose tokens all came out", "more than others' records")
    found = next(iter(rows_like(row, rows, "p_value")), None)
    if found is None or found.value is None:
        return None
    return Test(name, found.value, "records came out", "more than chance gives")
