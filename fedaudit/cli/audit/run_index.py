"""fedaudit report on a folder of many runs: a table, and one page with links and trends."""

from pathlib import Path

INDEX = "index.html"
MOST_ROUNDS = 4
"""Columns of rounds that fit a width of 80."""


def is_folder_of_runs(folder: Path) -> bool:
    """Tell whether a folder holds several runs: it has no report of its own."""
    return folder.is_dir() and not (folder / "report.json").exists()


def print_index(folder: Path, format_: str | None, out: Path | None) -> int:
    """Print a line for each run below a folder, and write the page beside them, or to `out`."""
    from fedaudit.api.errors import UsageError
    from fedaudit.cli.console import console, print_note
    from fedaudit.report.index.entries import run_entries
    from fedaudit.report.index.tables import problems_table, runs_table, trend_tables
    from fedaudit.report.index.trends import trends
    from fedaudit.report.renderers import run_index
    from fedaudit.report.renderers.terminal import print_tables
    from fedaudit.system.outputs import PAGE, check_output, write_output

    if format_ not in (None, "html", "terminal"):
        raise UsageError(f"A folder of runs is shown as html or terminal, not as {format_}.")
    if format_ != "terminal":
        check_output(out or folder / INDEX, PAGE)
    entries = run_entries(folder)
    changes = trend_tables(trends(entries), MOST_ROUNDS)
    tables = [runs_table(entries), *changes, *problems_table(entries)]
    if format_ != "html":
        print_tables([table for table in tables if table.rows], console())
    if format_ != "terminal":
        page = out or folder / INDEX
        write_output(page, run_index.render(entries, f"Runs in {folder.resolve().name}"), PAGE)
        print_note(f"Written: {page}")
    return 0
