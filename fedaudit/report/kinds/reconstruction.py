"""Reconstruction: whether records can be read out of what a client sends."""

from collections.abc import Sequence

from fedaudit.api.kind import Judgement, Kind, Row, Test
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report.number_format import format_hits

RATE = "reconstruction_rate"
LIMIT = "no record can be read out of a client's update"


class Reconstruction(Kind):
    """How many of a client's records come out of its update."""

    name = "reconstruction"
    title = "Reconstruction from updates"
    attack_class = "reconstruction"
    rules = ("reconstruction",)
    discloses = True
    compared = frozenset({RATE})

    def tests(
        self, rows: Sequence[Measurement], policy: Policy
    ) -> list[tuple[Measurement, Test | None]]:
        """Return how many records of each client came out, each with the attack's p value.

        An update of which nothing can be told has no number, and is not judged: `coverage` and the
        report's limits say so.
        """
        rates = [
            row
            for row in rows
            if (row.metric, row.scope.get("source")) == (RATE, "tuned") and row.value is not None
        ]
        return [(row, _test(row, rows)) for row in rates]

    def judge_test(
        self, row: Measurement, test: Test | None, adjusted: float | None, policy: Policy
    ) -> Judgement:
        """Return the status of one client's update: fail, or inconclusive.

        Nothing passes: that this search finds no record does not say that no search does.
        """
        client = row.scope.get("client", "a client")
        found = f"{row.plugin}: {row.hits or 0:,} of {row.n or 0:,} records of {client}"
        if test is not None and row.hits and adjusted is not None and adjusted <= policy.level:
            reason = f"{found} can be read out of its update, word for word (p = {adjusted:.2g})."
            return Judgement("fail", reason, "reconstruction", row, LIMIT)
        reason = f"{found} were read out of its update: a better search may find more."
        return Judgement("inconclusive", reason, "reconstruction", row, LIMIT)

    def shows(self, row: Row) -> bool:
        """Tell whether the table shows a row."""
        return row["metric"] in (RATE, "p_value")

    def sentences(self, report: Row) -> list[str]:
        """Return a sentence for each client whose update could be inverted."""
        return [
            f"The attack {row['plugin']} read {format_hits(row)} records of "
            f"{row['scope'].get('client')} out of its update."
            for row in self.rows(report)
            if (row["metric"], row["scope"].get("source")) == (RATE, "tuned")
            and row["value"] is not None
        ]


def _test(row: Measurement, rows: Sequence[Measurement]) -> Test | None:
    p = next(
        (
            other.value
            for other in rows
            if (other.plugin, other.metric) == (row.plugin, "p_value")
            and dict(other.scope) == dict(row.scope)
        ),
        None,
    )
    name = f"{row.plugin} (client {row.scope.get('client', '')})"
    return None if p is None else Test(name, p, "records came out", "more than chance gives")
