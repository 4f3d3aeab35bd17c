"""How long a report is evidence, and who owns it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from fedaudit.api.errors import UsageError
from fedaudit.report.query import Row

UNTIL = (
    "It is evidence until the weights, the prompt template, the decoding, the release or the"
    " records change, and about the attacks that were run only."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOwner:
    """Who owns a report, until when it is valid, and what parties are called."""

    owner: str = ""
    expires: date | None = None
    parties: Mapping[str, str] = field(default_factory=dict)
    """Titles of parties by their names in the report."""
    laws: bool = False
    """Whether clauses of laws outside the EU are wanted too."""


NOT_OWNED = ReportOwner()
"""Nothing was declared."""


def ownership(
    report: Row,
    owner: str = "",
    expires: str = "",
    parties: Iterable[str] = (),
    *,
    laws: bool = False,
) -> ReportOwner:
    """Return what was declared; UsageError for no date or one before the audit's end."""
    declared = ReportOwner(owner=owner, parties=party_titles(parties), laws=laws)
    if not expires:
        return declared
    try:
        until = date.fromisoformat(expires)
    except ValueError:
        raise UsageError(f"--expires {expires} is not a date such as 2027-06-30.") from None
    if until < issued(report):
        raise UsageError(f"--expires {expires} is before the audit ended, {issued(report)}.")
    return replace(declared, expires=until)


def party_titles(parties: Iterable[str]) -> dict[str, str]:
    """Return the titles of parties by name; UsageError for a text that is not NAME=TITLE."""
    titles = {}
    for text in parties:
        name, equals, title = text.partition("=")
        if not (name.strip() and equals and title.strip()):
            raise UsageError(f"--party {text} has no title: write --party NAME=TITLE.")
        if name.strip() in titles:
            raise UsageError(f"--party names {name.strip()} twice.")
        titles[name.strip()] = title.strip()
    return titles


def issued(report: Row) -> date:
    """Return the day on which an audit ended, or began where it did not end."""
    run = report["run"]
    return datetime.fromisoformat(run["finished"] or run["started"]).date()
