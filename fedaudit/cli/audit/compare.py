"""fedaudit compare: what differs between two reports."""

import json as texts
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.cli.audit.baseline import gate_table, print_gate, read_baseline
from fedaudit.cli.console import VERDICT_CODES, console, print_note, print_text
from fedaudit.cli.options import Json
from fedaudit.system.outputs import COMPARISON, COMPARISON_PAGE, check_output, write_output


def compare(
    first: Annotated[Path, typer.Argument(help="A folder with a report.json, or the file.")],
    second: Annotated[Path, typer.Argument(help="The report to compare it with.")],
    gate: Annotated[
        bool,
        typer.Option(
            "--gate", help="Use the first as the baseline that the second is judged by, as in CI."
        ),
    ] = False,
    json: Json = None,
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the comparison as a page."),
    ] = None,
) -> int:
    """Compare two reports: what differs, appeared or disappeared.

    Differences have intervals. The exit code is 0 whatever differs; with --gate it is 0 where the
    second has nothing new or worse, 1 where it has, and 7 where that cannot be told.
    """
    from fedaudit.report import document
    from fedaudit.report.baseline import check_comparable
    from fedaudit.report.comparison import compare as compare_reports
    from fedaudit.report.renderers import comparison as comparison_page
    from fedaudit.report.renderers.terminal import print_tables
    from fedaudit.report.tables.comparison import change_sentence, comparison_tables

    if page is not None:
        check_output(page, COMPARISON_PAGE)
    paths = [path / "report.json" if path.is_dir() else path for path in (first, second)]
    reports = (read_baseline if gate else document.read)(paths[0]), document.read(paths[1])
    if gate:
        refusal = "This report cannot be held against a baseline."
        check_comparable(reports[1], "The second report", refusal)
    comparison = compare_reports(*reports)
    verdicts = [report["verdict"]["status"] for report in reports]
    gate_result = None
    if gate:
        gate_result = print_gate(*reports)
    else:
        print_text(f"Verdicts: {', then '.join(map(_verdict_text, reports))}.")
        sentences = [change_sentence(*reports, comparison), *comparison.notes]
        print_tables(comparison_tables(comparison), console(), sentences)
    if json is not None:
        table = {**document.to_plain(asdict(comparison), "comparison"), "verdicts": verdicts}
        table |= {"gate": gate_table(gate_result)} if gate_result else {}
        write_output(json, texts.dumps(table, indent=2, sort_keys=True) + "\n", COMPARISON)
        print_note(f"Written: {json}")
    if page is not None:
        write_output(page, comparison_page.render(*reports, comparison), COMPARISON_PAGE)
        print_note(f"Written: {page}")
    return VERDICT_CODES[gate_result.status] if gate_result else 0


def _verdict_text(report: Mapping[str, Any]) -> str:
    """Return the verdict that a report states, and why not to rely on it where that is so."""
    from fedaudit.report.verdict.recheck import recheck

    brief = recheck(report).brief
    return str(report["verdict"]["status"]) + (f" ({brief})" if brief else "")
