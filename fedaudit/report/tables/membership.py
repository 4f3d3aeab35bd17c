"""The table of membership inference: how well scores tell trained records from held-out ones."""

from collections.abc import Mapping, Sequence

from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_measurement, number, percent
from fedaudit.report.query import Row, common_scope, missing_reasons
from fedaudit.report.tables.table import NONE, Table, common_note, laid_out

AREA, BALANCED = "AUC [95 %]", "balanced"
NAMES = {
    "text": "the texts alone",
    "loss": "loss",
    "zlib": "loss / zlib",
    "reference": "loss, less the base's",
    "counterfactual": "loss, less that without the client",
    "min_k": "Min-K %",
    "min_k++": "Min-K %++",
    "error_zone": "EZ-MIA",
    "neighbourhood": "loss, less its neighbours'",
}
"""Values of scope.score, as people read them."""


def membership(report: Row) -> list[Table]:
    """Return a table an attack with a line for each score."""
    rows = [row for row in report["measurements"] if is_shown(row)]
    return [_table(plugin, own) for plugin, own in measurements.by_plugin(rows).items()]


def is_shown(row: Row) -> bool:
    """Tell whether a row is one of those that the table shows."""
    return bool(row["kind"] == "membership" and "score" in row["scope"])


def _table(plugin: str, rows: Sequence[Row]) -> Table:
    areas = [row for row in rows if row["metric"] == "auc"]
    shared, own = common_scope(areas, {"score"})
    cells = [{**_cells(area, rows), "where": at} for area, at in zip(areas, own, strict=True)]
    columns = list(dict.fromkeys(name for line in cells for name in line if name != "where"))
    return laid_out(
        f"Membership: {plugin}",
        cells,
        (*columns, "where"),
        numeric=columns[1:],
        notes=(
            "AUC: of a trained and a held-out record, how often the trained one has the higher "
            "score; 0.5 is guessing. TPR: trained records found where so many held-out ones are "
            "mistaken.",
            *common_note(shared),
            *missing_reasons(rows),
        ),
    )


def _cells(area: Row, rows: Sequence[Row]) -> Mapping[str, str]:
    """Return what is known of the score that `area` is of."""
    found = {
        "score": NAMES.get(str(area["scope"]["score"]), str(area["scope"]["score"])),
        AREA: format_measurement(area) if area["value"] is not None else NONE,
    }
    for row in rows:
        if {k: v for k, v in row["scope"].items() if k != "fpr"} != area["scope"]:
            continue
        if row["metric"] == "balanced_accuracy":
            found[BALANCED] = number(row["value"])
        elif row["metric"] == "p_value":
            pass
        elif row["metric"] == "tpr":
            title = f"TPR at {percent(row['scope']['fpr'])}"
            found[title] = format_measurement(row) if row["value"] is not None else NONE
    return found
