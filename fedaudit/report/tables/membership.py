"""The table of membership inference: how well scores tell trained records from held-out ones."""

from collections.abc import Mapping, Sequence

from fedaudit.report import query as measurements
from fedaudit.report.number_format import format_measurement, number, percent
from fedaudit.report.query import Row, common_scope, missing_reasons
from fedaudit.report.tables.table import NONE, Table, build_table, common_note

AREA, BALANCED, GAP = "AUC [95 %]", "balanced", "gap [95 %]"
NAMES = {
    "text": "the texts alone",
    "loss": "loss",
    "zlib": "loss / zlib",
    "reference": "loss, less the base's",
    "counterfactual": "loss, less that without the client",
    "min_k": "Min-K %",
    "min_k++": "Min-K %++",
    "error_zone": "EZ-MIA",
    "lira": "LiRA",
    "neighbourhood": "loss, less its neighbours'",
    "trajectory": "loss, less the base's, all rounds",
}
"""Values of scope.score, as people read them."""


def membership(report: Row) -> list[Table]:
    """Return a table per attack with a line for each score, and one of organisations."""
    rows = [row for row in report["measurements"] if is_shown(row)]
    scored = [row for row in rows if not _of_organisation(row)]
    tested = [row for row in rows if _of_organisation(row)]
    return [
        *(_table(plugin, group) for plugin, group in measurements.by_plugin(scored).items()),
        *(
            _participation(plugin, group)
            for plugin, group in measurements.by_plugin(tested).items()
        ),
    ]


def is_shown(row: Row) -> bool:
    """Tell whether the table shows a row."""
    return bool(row["kind"] == "membership" and "score" in row["scope"])


def _of_organisation(row: Row) -> bool:
    return bool(row["scope"].get("unit") == "organisation")


def _participation(plugin: str, rows: Sequence[Row]) -> Table:
    """Return the table of whether an organisation took part, with a line for each round."""
    tests = [row for row in rows if row["metric"] == "p_value"]
    shared, _ = common_scope(tests)
    cells = []
    for test in tests:
        gaps = [r for r in rows if r["metric"] == "score_gap" and _same_scope(r, test)]
        totals = [row for row in gaps if "round" not in row["scope"]]
        cells += [
            {
                "after": "all rounds"
                if row is None or "round" not in row["scope"]
                else f"round {row['scope']['round']}",
                "claimed": f"{test['scope']['members']:,}",
                "held-out": f"{test['scope']['others']:,}",
                GAP: format_measurement(row) if row is not None else NONE,
                "p": number(test["value"]) if row in totals and test["value"] is not None else NONE,
            }
            for row in (*totals, *(r for r in gaps if r not in totals)) or (None,)
        ]
    return build_table(
        f"Did the organisation take part: {plugin}",
        cells,
        ("after", "claimed", "held-out", GAP, "p"),
        numeric=("claimed", "held-out", GAP, "p"),
        notes=(
            "Gap: by how many nats a token the tuned model gains more on records that the "
            "organisation says it gave than on its own held-out ones; p: how likely such a gap is "
            "if it took no part, whatever style it shares with those who did.",
            *common_note(shared),
            *missing_reasons(tests),
        ),
    )


def _same_scope(row: Row, test: Row) -> bool:
    return bool({k: v for k, v in row["scope"].items() if k != "round"} == test["scope"])


def _table(plugin: str, rows: Sequence[Row]) -> Table:
    areas = [row for row in rows if row["metric"] == "auc"]
    shared, scopes = common_scope(areas, {"score"})
    cells = [
        {**_cells(area, rows), "where": scope} for area, scope in zip(areas, scopes, strict=True)
    ]
    columns = list(dict.fromkeys(name for line in cells for name in line if name != "where"))
    return build_table(
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
    cells = {
        "score": NAMES.get(str(area["scope"]["score"]), str(area["scope"]["score"])),
        AREA: format_measurement(area) if area["value"] is not None else NONE,
    }
    for row in rows:
        if {k: v for k, v in row["scope"].items() if k != "fpr"} != area["scope"]:
            continue
        if row["metric"] == "balanced_accuracy":
            cells[BALANCED] = number(row["value"])
        elif row["metric"] == "p_value":
            pass
        elif row["metric"] == "tpr":
            title = f"TPR at {percent(row['scope']['fpr'])}"
            cells[title] = format_measurement(row) if row["value"] is not None else NONE
    return cells
