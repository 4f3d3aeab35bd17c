"""What came out of a model, by kind of personal data: `python examples/read_report.py REPORT`."""

import sys
from pathlib import Path

from fedaudit.report.document import data_frame, read


def leaks_by_kind(path: Path) -> str:
    """Return a table: of each attack and kind, what the tuned model gives beyond its base."""
    document = read(path)
    rows = data_frame(document)
    judged = rows[
        (rows["metric"] == "coverage")
        & (rows["scope.set"] == "exclusive")
        & (rows["scope.source"] == "tuned-not-base")
        & rows["scope.label"].notna()
        & rows["scope.budget"].isna()  # no part of a sweep
    ]
    shown = judged[["plugin", "scope.label", "hits", "n", "value", "low", "high"]]
    table = shown.sort_values("value", ascending=False).to_string(index=False)
    return f"verdict: {document['verdict']['status']}\n{table}"


if __name__ == "__main__":
    print(leaks_by_kind(Path(sys.argv[1])))
