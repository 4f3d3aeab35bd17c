"""How long a report is evidence, and who owns it."""

from dataclasses import dataclass
from datetime import date, datetime

from fedaudit.api.errors import UsageError
from fedaudit.report.query import Row

UNTIL = (
    "It is evidence until the weights, the prompt template, the decoding, the release or the"
    " records change, and about the attacks that were run only."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOwner:
    """Who owns a report, and until when it is valid; fields that nobody declared are empty."""

    owner: str = ""
    expires: date | None = None


def ownership(report: Row, owner: str, expires: str) -> ReportOwner:
    """Return the declared owner and date; UsageError for no date or one before the audit's end."""
    if not expires:
        return ReportOwner(owner=owner)
    try:
        until = date.fromisoformat(expires)
    except ValueError:
        raise UsageError(f"--expires {expires} is no date such as 2027-06-30.") from None
    if until < issued(report):
        raise UsageError(f"--expires {expires} is before the audit ended, {issued(report)}.")
    return ReportOwner(owner=owner, expires=until)


def issued(report: Row) -> date:
    """Return the day on which an audit ended, or began where it did not end."""
    run = report["run"]
    return datetime.fromisoformat(run["finished"] or run["started"]).date()
