"""A report on the terminal: plain at 80 columns, in a pipe too."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedaudit.api.kind import Table
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables import assessment, overview
from fedaudit.report.tables.attribution.methods import attribution
from fedaudit.report.tables.comparison.defenses import defense_tables
from fedaudit.report.tables.extraction.evidence import headline
from fedaudit.report.text import summary
from fedaudit.report.text.searched_kinds import searched_kinds
from fedaudit.report.verdict.recheck import RecheckedVerdict, recheck

if TYPE_CHECKING:
    import rich.table
    from rich.console import Console
    from rich.text import Text

MOST_FINDINGS = 10
MIN_NAME_WIDTH = 8
"""The minimum width of a column of names when numbers need the room."""

STYLES = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}


def render(report: Row, console: "Console") -> None:
    """Print a valid report's document to `console`; the verdict comes last, where the eye is.

    Doubts about the verdict come first, and again beside it.
    """
    checked = recheck(report)
    _doubt(checked, console)
    _searched(report, console)
    _pairs("Audited", summary.audited_facts(report), console)
    if declared := assessment.context_facts(report):
        _pairs("Release", declared, console)
    for table in (
        *overview.attack_tables(report),
        *attribution(report),
        *overview.other_tables(report),
        *defense_tables(report),
        *assessment.coverage(report),
        *assessment.judgement_tables(report),
        *overview.finding_tables(report, MOST_FINDINGS),
        *overview.claim_table(report),
    ):
        _table(table, console)
    _list("Limits", report["limits"], console)
    if summary.is_audit(report):
        _verdict(report, checked, console)


def render_summary(report: Row, console: "Console") -> None:
    """Print what an audit covered, what was judged, the worst findings and the verdict."""
    checked = recheck(report)
    _doubt(checked, console)
    _searched(report, console)
    _pairs("Audited", summary.audited_facts(report), console)
    _pairs("Release", assessment.context_facts(report), console)
    for table in (
        *overview.flagged_table(report, MOST_FINDINGS),
        *assessment.finding_counts(report),
        *assessment.coverage(report),
        *assessment.judgement_tables(report),
        *defense_tables(report),
    ):
        _table(table, console)
    _verdict(report, checked, console)


def print_tables(
    tables: Sequence[Table], console: "Console", sentences: Sequence[str] = ()
) -> None:
    """Print tables in the style of a report, below sentences about them."""
    for sentence in sentences:
        console.print(_text(sentence))
    if sentences:
        console.print()
    for table in tables:
        _table(table, console)


def _doubt(checked: RecheckedVerdict, console: "Console") -> None:
    if checked.message:
        console.print(_text(checked.message, STYLES["fail"] if checked.brief else ""))
        console.print()


def _searched(report: Row, console: "Console") -> None:
    """Print which kinds of personal data an audit looked for, on its first screen."""
    for sentence in searched_kinds(report) if summary.is_audit(report) else ():
        console.print(_text(sentence))
        console.print()


def _verdict(report: Row, checked: RecheckedVerdict, console: "Console") -> None:
    status = "fail" if checked.brief else report["verdict"]["status"]
    _list("Why", summary.verdict_reasons(report), console)
    console.print(_text(f"Verdict: {headline(report, checked)}", STYLES[status]))
    for sentence in summary.verdict_sentence(report, checked):
        console.print(_text(sentence))


def _pairs(title: str, pairs: list[tuple[str, str]], console: "Console") -> None:
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(_text(name), _text(value))
    _section(title, grid, console)


def _list(title: str, lines: Sequence[str], console: "Console") -> None:
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for line in lines:
        grid.add_row(_text("*"), _text(line))
    if lines:
        _section(title, grid, console)


def _table(table: Table, console: "Console") -> None:
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    unbroken_columns = _unbroken_columns(table, console.width)
    for column in table.columns:
        grid.add_column(
            _text(column),
            justify="right" if column in table.numeric else "left",
            overflow="fold",
            no_wrap=column in unbroken_columns,
        )
    for row in table.rows:
        grid.add_row(*map(_text, row))
    _section(table.title, grid, console, table.notes)


def _unbroken_columns(table: Table, width: int) -> frozenset[str]:
    """Return the columns whose lines never break: numeric ones, if names still have enough room."""
    from rich.cells import cell_len

    widths = [
        max(cell_len(make_visible(cell)) for cell in (column, *(row[index] for row in table.rows)))
        if column in table.numeric
        else MIN_NAME_WIDTH
        for index, column in enumerate(table.columns)
    ]
    return table.numeric if sum(widths) + 2 * (len(widths) - 1) <= width else frozenset()


def _section(
    title: str, body: "rich.table.Table", console: "Console", notes: Sequence[str] = ()
) -> None:
    console.print(_text(title, "bold"))
    console.print(body)
    for note in notes:
        console.print(_text(note, "dim"))
    console.print()


def _text(text: str, style: str = "") -> "Text":
    """Return `text` for rich, without interpreting markup, with nothing hidden and nothing cut."""
    from rich.text import Text

    return Text(make_visible(text), style=style, overflow="fold")
