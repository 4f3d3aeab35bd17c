"""Which class of attacks a measurement is of, after EDPB Opinion 28/2024, paragraph 55."""

from fedaudit.api.records import Measurement

KINDS = frozenset(
    {
        *("extraction", "utility", "cost", "probability", "defense", "attribution"),
        *("memorization", "membership", "exposure", "counterfactual", "epsilon", "persons"),
        *("source", "instrument"),
    }
)
"""Kinds of rows that tables and verdicts know; plugins may define others."""

_KINDS = {
    "membership": "membership_inference",
    "memorization": "regurgitation",
    "exposure": "regurgitation",
    "inversion": "inversion",
    "reconstruction": "reconstruction",
}
_METRICS = {
    "rouge_l": "regurgitation",
    "edit_distance": "regurgitation",
    "extractable": "regurgitation",
    "coverage": "exfiltration",
    "extraction_recall": "exfiltration",
}
"""Metrics of extraction."""


def class_of(row: Measurement) -> str:
    """Return the class of attacks that a row is a result of; "" for other rows, such as utility.

    Coverage of whole records, whose scope names no set of strings, is regurgitation.
    """
    if row.kind in _KINDS:
        return _KINDS[row.kind]
    if row.metric == "inference_accuracy":
        return "attribute_inference"
    if row.kind != "extraction":
        return ""
    whole_records = "threshold" in row.scope or ("records" in row.scope and "set" not in row.scope)
    attack_class = _METRICS.get(row.metric, "")
    return "regurgitation" if attack_class and whole_records else attack_class
