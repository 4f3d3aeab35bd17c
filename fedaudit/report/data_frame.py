"""The measurements of a report as flat rows, and as a pandas data frame where there is pandas."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

FIELDS = (
    *("kind", "plugin", "metric", "value", "low", "high"),
    *("n", "hits", "chance", "baseline", "reason"),
)
COUNTS = ("n", "hits")
"""Columns of integers, some of which may be missing."""


def scope_columns(measurements: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return all keys of the measurements' scopes, sorted."""
    return sorted({name for row in measurements for name in row["scope"]})


def flat_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a report's measurements in their order, each with every key of a scope as a column.

    A key that a measurement does not have is None, as is a value that could not be measured.
    """
    columns = scope_columns(document["measurements"])
    return [
        {name: row[name] for name in FIELDS}
        | {f"scope.{name}": row["scope"].get(name) for name in columns}
        for row in document["measurements"]
    ]


def data_frame(document: Mapping[str, Any]) -> "pd.DataFrame":
    """Return the measurements as a pandas data frame; UsageError if pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        raise UsageError(
            "There is no pandas: pip install pandas, or take rows(), which are dicts."
        ) from None
    rows = flat_rows(document)
    columns = [*FIELDS, *(f"scope.{name}" for name in scope_columns(document["measurements"]))]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype(dict.fromkeys(COUNTS, "Int64"))
