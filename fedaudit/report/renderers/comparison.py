"""Two reports beside each other as one HTML page: what changed in a sentence, then the numbers."""

from fedaudit.report.checklist.brief import byline
from fedaudit.report.comparison import ReportComparison
from fedaudit.report.query import Row
from fedaudit.report.renderers.html_environment import render_page
from fedaudit.report.tables.comparison import change_sentence, comparison_tables
from fedaudit.report.tables.evidence import headline
from fedaudit.report.text import summary
from fedaudit.report.verdict.recheck import recheck

NAMES = ("first", "second")


def render(first: Row, second: Row, comparison: ReportComparison) -> str:
    """Return the comparison of two valid reports' documents as a page that loads nothing."""
    reports = tuple(zip(NAMES, (first, second), strict=True))
    return render_page(
        "comparison",
        {
            "title": "What changed between two reports",
            "sentence": change_sentence(first, second, comparison),
            "reports": [_verdict(name, report) for name, report in reports],
            "notes": comparison.notes,
            "tables": comparison_tables(comparison),
            "audited": [(name, summary.audited_facts(report)) for name, report in reports],
        },
    )


def _verdict(name: str, report: Row) -> tuple[str, str, str]:
    checked = recheck(report)
    status = "fail" if checked.brief else str(report["verdict"]["status"])
    return f"{name}: {summary.title(report)}. {byline(report)}", status, headline(report, checked)
