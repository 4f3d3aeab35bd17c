"""One judgement: what a rule concludes from one measurement, and the limit compared with it."""

from typing import Any, NamedTuple

from fedaudit.api.records import Measurement


class Judgement(NamedTuple):
    """A status, the reason for it, and what was judged; a verdict consists of judgements."""

    status: str
    reason: str
    rule: str = ""
    """Which rule judged: "leak", "kind", "membership", ..."""
    row: Measurement | None = None
    """The measurement that was judged; None where there was none to judge."""
    limit: str = ""
    """What the policy allows, in words."""

    def table(self) -> dict[str, Any]:
        """Return the judgement as a report holds it, with the number that was judged."""
        table = {"rule": self.rule, "status": self.status, "reason": self.reason}
        return {**table, "limit": self.limit, "measurement": self._measurement_table()}

    def _measurement_table(self) -> dict[str, Any] | None:
        if self.row is None:
            return None
        names = ("kind", "plugin", "metric", "value", "low", "high", "n", "hits", "scope")
        return {name: getattr(self.row, name) for name in names}
