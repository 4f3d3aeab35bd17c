"""What an audit shows against its baseline, printed, written, and as an exit code."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.cli.console import console, print_lines, print_text
from fedaudit.system.outputs import BASELINE, write_output

if TYPE_CHECKING:
    from fedaudit.report.baseline import BaselineComparison


def read_baseline(source: Path) -> dict[str, Any]:
    """Return the report that others are held against: a file, or a folder with a report.json."""
    from fedaudit.report import document
    from fedaudit.report.baseline import check_comparable

    path = source / "report.json" if source.is_dir() else source
    report = document.read(path)
    return dict(check_comparable(report, "The baseline", "This is not a baseline."))


def print_gate(baseline: Mapping[str, Any], report: Mapping[str, Any]) -> "BaselineComparison":
    """Print what is new, what is worse, what went and what stayed; return it."""
    from fedaudit.report.baseline import compare_with_baseline
    from fedaudit.report.renderers.terminal import print_tables
    from fedaudit.report.tables.comparison import baseline_tables

    comparison = compare_with_baseline(baseline, report)
    print_tables(baseline_tables(comparison), console())
    print_lines(f"* {reason}" for reason in comparison.reasons)
    verdicts = baseline["verdict"]["status"], report["verdict"]["status"]
    print_text(
        f"\nAgainst the baseline: {comparison.status} (verdicts: {verdicts[0]}, then {verdicts[1]})"
    )
    return comparison


def gate_table(comparison: "BaselineComparison") -> dict[str, Any]:
    """Return a comparison with a baseline as JSON has it."""
    from fedaudit.report import document

    return dict(document.to_plain(asdict(comparison), "gate"))


def write_gate(comparison: "BaselineComparison", path: Path) -> None:
    """Write a comparison with a baseline as a JSON file."""
    text = json.dumps(gate_table(comparison), indent=2, sort_keys=True) + "\n"
    write_output(path, text, BASELINE)
