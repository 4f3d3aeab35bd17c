"""A report's measurements as CSV, one row a number, for spreadsheets and data frames."""

import csv
import io
import json
from typing import Any

from fedaudit.report.document import flat_columns, flat_rows
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible

FORMULA = (*"=+-@\t\r＝＋－＠",)
"""First characters of a text that a spreadsheet would take for a formula."""


def render(report: Row) -> str:
    """Return the measurements with a column for each key of a scope, in the order of the report.

    A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_cell, flat_columns(report)))
    writer.writerows(map(_cell, row.values()) for row in flat_rows(report))
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return "" if value is None else value
    text = make_visible(value if isinstance(value, str) else json.dumps(value, sort_keys=True))
    return f"'{text}" if text.startswith(FORMULA) else text
