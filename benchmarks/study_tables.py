"""The tables of a study in its page, as its report has them: no number in them is typed by hand.

    python benchmarks/study_tables.py REPORT docs/cross.md    writes table, picture's data and page

Of the report what the table of trade-offs needs is kept beside the page, in docs/studies/, and the
page gets the table between the lines `<!-- trade-offs -->` and `<!-- end -->`. A test makes it anew
from what is kept and compares.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedaudit.report.renderers.markdown_blocks import table_lines
from fedaudit.report.tables.comparison import tradeoffs

START, END = "<!-- trade-offs -->\n", "<!-- end -->"
ROW = ("kind", "plugin", "metric", "value", "low", "high", "n", "hits", "scope")


def kept_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a report its table of trade-offs is made of."""
    columns = tradeoffs.tradeoff_columns(report)
    config = report["run"]["config"]
    cells = [
        cell
        for rows in tradeoffs.rows_by_variant(report).values()
        for column in columns
        if (cell := tradeoffs.find_measurement(rows, column)) is not None
    ]
    return {
        "run": {
            "started": report["run"]["started"],
            "config": {
                name: config[name]
                for name in ("profile", "scale", "seeds", "tradeoffs")
                if name in config
            },
        },
        "measurements": [{name: row[name] for name in ROW} for row in cells],
    }


def page_with_table(page: str, kept: Mapping[str, Any]) -> str:
    """Return a page with the table of a kept report in its place."""
    before, rest = page.split(START)
    _, after = rest.split(END)
    table = tradeoffs.tradeoff_table(kept, tradeoffs.tradeoff_columns(kept))
    lines = [line for line in table_lines(table) if not line.startswith("#")]
    return "".join([before, START, "\n".join(lines).strip("\n"), "\n", END, after])


def kept_path(page: Path) -> Path:
    """Return where what a page's table is made of is kept."""
    return page.parent / "studies" / f"{page.stem}.json"


def main() -> None:
    """Keep what is needed of a report, and write the page's table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("page", type=Path)
    given = parser.parse_args()
    kept = kept_report(json.loads(given.report.read_text("utf-8")))
    path = kept_path(given.page)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    given.page.write_text(page_with_table(given.page.read_text("utf-8"), kept), "utf-8")


if __name__ == "__main__":
    main()
