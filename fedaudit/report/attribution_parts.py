"""The rows of an attribution, by the part of it that they belong to."""

from fedaudit.api.kind import Row
from fedaudit.report.verdict.attribution import PROTOCOL

_CLIENT_KEYS = frozenset({"client", "mark"})

_SIMULATED = ("innocent_flagged", "marked_found")
_OF_A_ROUND = ("sets", "smallest_set", "determined", "estimator_variance", "effective_masks")
ATTRIBUTION = {
    "client": {
        ("stouffer_z", frozenset({"client"})),
        *((metric, _CLIENT_KEYS) for metric in ("stouffer_z", "p_value", "contribution")),
        ("p_value", _CLIENT_KEYS | {"adjusted"}),
    },
    "round": {(metric, _CLIENT_KEYS | {"round"}) for metric in ("stouffer_z", "score")},
    "attribute": {("attribute_hits", _CLIENT_KEYS | {"attribute"})},
    "mean": {("stouffer_z", frozenset({"clients"}))},
    "rate": {(metric, frozenset[str]()) for metric in ("tpr", "fpr")},
    "global": {(metric, frozenset({"mark", "source"})) for metric in ("z", "p_value")},
    "masking": {
        ("queries", frozenset[str]()),
        ("leakage_bits", frozenset({"round", "strength"})),
        *((metric, frozenset({"round"})) for metric in _OF_A_ROUND),
    },
    "keys": {
        *((metric, frozenset[str]()) for metric in ("marks", "unopened")),
        ("committed", frozenset({"mark"})),
    },
    "levels": {(metric, frozenset[str]()) for metric in ("alpha", "tau")},
    "simulated": {
        (metric, keys)
        for metric in _SIMULATED
        for keys in (
            frozenset({"client"}),
            frozenset({"strength"}),
            frozenset({"strength", "rounds"}),
        )
    },
    "time": {(metric, frozenset({"step"})) for metric in ("seconds", "overhead")},
}
"""Parts of an attribution, by metric and by the keys of the scope except the variant."""

SUSPICION = {
    (metric, keys)
    for metric in ("stouffer_z", "p_value", "suspicion", "flagged")
    for keys in (frozenset({"client"}), _CLIENT_KEYS)
}
"""The same for the evidence that methods other than the protocol have against a client."""


def attribution_rows(report: Row, part: str = "") -> list[Row]:
    """Return the attribution rows that tables show, or those of one part (`attribution_part`)."""
    rows = ((row, attribution_part(row)) for row in report["measurements"])
    return [row for row, row_part in rows if row_part and part in ("", row_part)]


def attribution_part(row: Row) -> str:
    """Return the part of an attribution that a row belongs to; "" if no table shows the row.

    Parts are the keys of ATTRIBUTION, and "suspicion": evidence from the other methods.
    """
    if row["kind"] != "attribution":
        return ""
    shape = (row["metric"], frozenset(row["scope"]) - {"variant"})
    if row["plugin"] != PROTOCOL:
        parts = {name: ATTRIBUTION[name] for name in ("rate", "global")} | {"suspicion": SUSPICION}
    else:
        parts = ATTRIBUTION
    part = next((name for name, shapes in parts.items() if shape in shapes), "")
    untested = shape == ("stouffer_z", frozenset({"client"})) and row["plugin"] == PROTOCOL
    return "" if untested and row["value"] is not None else part
