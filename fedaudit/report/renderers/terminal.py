"""A report on the terminal: plain at 80 columns, in a pipe too."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fedaudit.api.kind import Table
from fedaudit.report.checklist.leaks import unsearched_records
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables import assessment, overview
from fedaudit.report.tables.attribution import attribution
from fedaudit.report.tables.defense import defense_tables
from fedaudit.report.tables.evidence import headline
from fedaudit.report.text import summary
from fedaudit.report.text.searched_kinds import searched_kinds
from fedaudit.report.verdict.recheck import RecheckedVerdict, recheck

if TYPE_CHECKING:
    import rich.table
    from rich.console import Console
    from rich.text import Text

MOST_FINDINGS = 10
GAP = 2
"""The space between two columns."""

STYLES = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}


def render(report: Row, console: "Console") -> None:
    """Print a valid report's document to `console`; the verdict comes last, where the eye is.

    Doubts about the verdict come first, and again beside it.
    """
    checked = _begin(report, console)
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
    checked = _begin(report, console)
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


def _begin(report: Row, console: "Console") -> RecheckedVerdict:
    """Print doubts, which kinds of data an audit looked for, and what was audited."""
    checked = recheck(report)
    texts = [(checked.message, STYLES["fail"] if checked.brief else "")] if checked.message else []
    if summary.is_audit(report):
        sentences = (*searched_kinds(report), *unsearched_records(report))
        texts += [(sentence, "") for sentence in sentences]
    for text, style in texts:
        console.print(_text(text, style))
        console.print()
    _section("Audited", _grid(summary.audited_facts(report)), console)
    if declared := assessment.context_facts(report):
        _section("Release", _grid(declared), console)
    return checked


def _verdict(report: Row, checked: RecheckedVerdict, console: "Console") -> None:
    status = "fail" if checked.brief else report["verdict"]["status"]
    _list("Why", summary.verdict_reasons(report), console)
    console.print(_text(f"Verdict: {headline(report, checked)}", STYLES[status]))
    for sentence in summary.verdict_sentence(report, checked):
        console.print(_text(sentence))


def _grid(lines: Iterable[tuple[str, str]], gap: int = GAP) -> "rich.table.Table":
    """Return lines of a name or a mark, and a text that folds."""
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, gap, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for line in lines:
        grid.add_row(*map(_text, line))
    return grid


def _list(title: str, lines: Sequence[str], console: "Console") -> None:
    if lines:
        _section(title, _grid((("*", line) for line in lines), 1), console)


def _table(table: Table, console: "Console") -> None:
    """Print a table; one that is too wide for its words becomes a list of rows."""
    from rich import box
    from rich.table import Table as Grid

    widths = _column_widths(table, console.width)
    if widths is None:
        _section(table.title, _grid(_stacked(table)), console, table.notes)
        return
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, width in zip(table.columns, widths, strict=True):
        grid.add_column(
            _text(column),
            justify="right" if column in table.numeric else "left",
            overflow="fold",
            width=width,
        )
    for row in table.rows:
        grid.add_row(*map(_text, row))
    _section(table.title, grid, console, table.notes)


def _stacked(table: Table) -> Iterator[tuple[str, str]]:
    """Yield the cells of a table below each other, with an empty line between rows."""
    for number, row in enumerate(table.rows):
        if number:
            yield "", ""
        yield from zip(table.columns, row, strict=True)


def _column_widths(table: Table, width: int) -> list[int] | None:
    """Return the widths at which no word of a table breaks, nor a number if there is room.

    None if its words do not fit side by side.
    """
    columns = [
        [make_visible(cell) for cell in (name, *(row[index] for row in table.rows))]
        for index, name in enumerate(table.columns)
    ]
    words = [max(map(_longest_word, cells)) for cells in columns]
    whole = [
        max(word, *map(_width, cells[1:])) if name in table.numeric and cells[1:] else word
        for name, cells, word in zip(table.columns, columns, words, strict=True)
    ]
    free = width - GAP * (len(columns) - 1)
    fits = next((widths for widths in (whole, words) if sum(widths) <= free), None)
    if fits is None:
        return None
    needed = [[*map(_width, cells)] for cells in columns]
    return _share_out(free - sum(fits), list(fits), needed)


def _share_out(remaining: int, widths: list[int], needed: Sequence[Sequence[int]]) -> list[int]:
    """Return `widths` with what remains given to the columns that save most lines for it.

    `needed` has the width of every cell, by column.
    """
    import numpy as np

    cells, given = np.array(needed), np.array(widths)
    lines = -(-cells // given[:, None])
    while remaining > 0:
        best = 0.0, 0, 0
        for index, column in enumerate(cells):
            wider = np.arange(given[index] + 1, min(given[index] + remaining, column.max()) + 1)
            if not wider.size:
                continue
            others = np.delete(lines, index, axis=0)
            tried = -(-column // wider[:, None])
            # The tallest cell makes a row; the others break the tie.
            rows = np.maximum(tried, others.max(axis=0, initial=0)).sum(axis=1)
            saved = lines.max(axis=0).sum() - rows
            saved = saved + (lines[index].sum() - tried.sum(axis=1)) / 1e6
            each = saved / (wider - given[index])
            first = int(each.argmax())
            best = max(best, (float(each[first]), -index, int(wider[first])))
        if not best[0]:
            break
        _, index, width = best
        remaining -= width - int(given[-index])
        given[-index] = width
        lines[-index] = -(-cells[-index] // width)
    return [*map(int, given)]


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _longest_word(text: str) -> int:
    return max(map(_width, text.split()), default=0)


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
