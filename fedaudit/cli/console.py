"""What commands show: results on stdout, progress on stderr."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.report.redaction import make_visible
from fedaudit.system.files import existing_parent, make_folder
from fedaudit.system.outputs import REPORT, check_output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

    from fedaudit.report.document import Report
    from fedaudit.simulation.context import Event

WIDTH = 80
"""The width of results when stdout is not a terminal."""


def console() -> "Console":
    """Return the console for results: as wide as the terminal, 80 columns when piped."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, markup=False)


def print_item(label: str, text: str) -> None:
    """Print a line of a list: `label`, then `text`, wrapped beside it on a terminal.

    A pipe gets it in one line, so that grep and cut find what belongs together.
    """
    label, text = make_visible(label), make_visible(text)
    if sys.stdout.isatty():
        width = max(get_terminal_size().columns, len(label) + 20)
        wrapped = fill(
            text,
            width,
            initial_indent=label,
            subsequent_indent=" " * len(label),
            break_long_words=False,
            break_on_hyphens=False,
        )
        line = wrapped or label  # of no text, `fill` makes no line
    else:
        line = label + text
    print(line, flush=True)


def print_text(text: str = "") -> None:
    """Print lines of a result, with control characters spelt out."""
    print("\n".join(map(make_visible, text.split("\n"))))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines at 80 columns; continuation lines are indented further than their first line."""
    for line in map(make_visible, lines):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        print_text(fill(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False))


def print_note(text: str, *, quiet: bool = False) -> None:
    """Tell the user something that is not a result."""
    if not quiet:
        print(make_visible(text), file=sys.stderr)


VERDICT_CODES = {"pass": 0, "fail": 1, "inconclusive": 7}
"""Exit codes of finished audits, by verdict."""


def verdict_code(report: Mapping[str, Any]) -> int:
    """Return the exit code that goes with a report's verdict."""
    return VERDICT_CODES[report["verdict"]["status"]]


def save_report(report: "Report", *paths: Path | None) -> Mapping[str, Any]:
    """Write `report` to every path given and return it as read by renderers."""
    from fedaudit.report.document import save

    document = report.to_json()
    for path in paths:
        if path is not None:
            make_folder(path.parent)
            save(document, path)
    return document


def print_report(report: Mapping[str, Any]) -> None:
    """Print a report to stdout."""
    from fedaudit.report.renderers.terminal import render

    render(report, console())


def print_summary(report: Mapping[str, Any]) -> None:
    """Print a report's summary: what was covered, what was judged, the worst findings."""
    from fedaudit.report.renderers.terminal import render_summary

    render_summary(report, console())


@contextmanager
def progress_bars(quiet: bool) -> Iterator[Callable[[str], Progress]]:
    """Give a maker of progress bars on stderr, one for each title."""
    if quiet:
        yield lambda title: no_progress
        return
    with _live() as (shown_bars, begin):

        def bar(title: str) -> Progress:
            task = None

            def advance(done: int, total: int) -> None:
                nonlocal task
                begin()
                if task is None:
                    task = shown_bars.add_task(make_visible(title), total=total, note="")
                shown_bars.update(task, completed=done, total=total)

            return advance

        yield bar


@contextmanager
def training_progress(quiet: bool) -> Iterator[Callable[["Event"], None]]:
    """Give a listener that shows a simulation's rounds with loss and time left.

    Where no one watches a bar, in a log, each round begins a line.
    """
    if quiet or not sys.stderr.isatty():
        yield (lambda event: None) if quiet else _Lines().hear
        return
    with _live() as (progress, begin):
        task = progress.add_task("loading", total=None, note="")

        def hear(event: "Event") -> None:
            begin()
            progress.update(
                task,
                description=f"round {event.round}",
                completed=event.done,
                total=event.total,
                note=f"{make_visible(event.model_name)} loss {event.loss:.3f}",
            )

        yield hear


class _Lines:
    """Prints the progress of a simulation in lines."""

    def __init__(self) -> None:
        self.started, self.round, self.before = 0.0, 0, 0

    def hear(self, event: "Event") -> None:
        """Print a line for the first training of every round, with the time left after one more.

        The clock starts with the first event: what went before it prepared the federation, and
        trainings that an earlier run of it had finished.
        """
        if event.round == self.round:
            return
        message = (
            f"round {event.round}: {event.done} of {event.total} trainings, {event.model_name} "
            f"loss {event.loss:.3f}"
        )
        if self.round == 0 or event.round < self.round:  # the first, or another federation
            self.started, self.before = time.monotonic(), event.done
        self.round = event.round
        if done := event.done - self.before:
            seconds = time.monotonic() - self.started
            message += f", about {seconds / done * (event.total - event.done):.0f} s left"
        print_note(message)


@contextmanager
def _live() -> Iterator[tuple["Bars", Callable[[], None]]]:
    """Give bars that vanish at the end, and what starts them.

    On a terminal they start at once; elsewhere with the first progress, so that a mistake in the
    input leaves one line and no empty bar.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    shown_bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True, markup=False),
        transient=True,
    )
    if sys.stderr.isatty():
        shown_bars.start()
    try:
        yield shown_bars, shown_bars.start
    finally:
        if shown_bars.live.is_started:  # stopping what never started prints an empty line
            shown_bars.stop()


def report_folder(out: Path | None, otherwise: Path, json: Path | None, command: str) -> Path:
    """Return the report's folder, after checking that it and the file `json` can be written.

    Raises InputError for a folder with the report of another command than `command`.
    """
    from fedaudit.report.document import read

    folder = out or otherwise
    if folder.is_file():
        raise InputError(f"{folder} is a file; --out needs a folder.")
    if (folder / "federation.json").exists():
        raise InputError(f"{folder} is a federation's folder; choose another --out.")
    path = folder / "report.json"
    if path.exists() and read(path)["run"]["command"] != command:
        raise InputError(f"{folder} holds another run's report; choose another --out or remove it.")
    for file in (path, json or path):
        check_output(file, REPORT.of(command))
        existing_parent(file.absolute().parent)
    return folder


def report_and_exit_code(report: Any, folder: Path, json: Path | None, quiet: bool) -> int:
    """Save a report into its folder, show it, and return the exit code of its verdict."""
    document = save_report(report, folder / "report.json", json)
    print_report(document)
    print_note(f"The report is {folder / 'report.json'}.", quiet=quiet)
    return verdict_code(document)
