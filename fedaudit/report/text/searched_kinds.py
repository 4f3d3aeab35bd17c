"""The kinds of personal data that a detector looked for in records, and those that it did not."""

from typing import NamedTuple

from fedaudit.pii.taxonomy import category, taxonomy
from fedaudit.report.query import Row

METRIC = "annotation_labels"
FIRST = ("Art. 9(1)", "Art. 10", "Art. 87")
"""The clauses of the GDPR whose kinds are named first where they were not looked for."""


MODEL_GAIN = "an English spaCy model took names from 83 to 94 % (--set names.ner=installed)"
"""What a model of one's own gained on sentences that no rule was made on: docs/pii-detection.md."""


class Unsearched(NamedTuple):
    """What one detector looked for in records, and the kinds that it did not look for."""

    detector: str
    searched: tuple[str, ...]
    special: tuple[tuple[str, tuple[str, ...]], ...]
    """Clauses of FIRST, each with those of its kinds that were not looked for."""
    rest: tuple[str, ...]


def searched_kinds(report: Row) -> list[str]:
    """Return what was looked for and what was not, for the place before a verdict.

    Nothing is said of records that came annotated: their annotation names its own kinds.
    """
    return list(dict.fromkeys(map(_sentence, unsearched(report))))


def unsearched(report: Row) -> list[Unsearched]:
    """Return what each detector looked for in records without annotation, and what it did not."""
    rows = [row for row in report["measurements"] if row["metric"] == METRIC]
    return list(dict.fromkeys(map(_unsearched, rows)))


def _unsearched(row: Row) -> Unsearched:
    labels = list(map(str, row["scope"].get("labels") or ()))
    searched = {found.name for label in labels if (found := category(label))}
    custom = [label for label in labels if category(label) is None]
    missing = [one for one in taxonomy().categories if one.name not in searched]
    special = []
    for clause in FIRST:
        if of_clause := [one for one in missing if clause in one.references("gdpr")]:
            special.append((clause, tuple(one.name for one in of_clause)))
            missing = [one for one in missing if one not in of_clause]
    names = [one.name for one in taxonomy().categories if one.name in searched] + custom
    rest = tuple(one.name for one in missing)
    return Unsearched(str(row["plugin"]), tuple(names), tuple(special), rest)


def _sentence(one: Unsearched) -> str:
    parts = [f"{', '.join(names)} (GDPR {clause})" for clause, names in one.special]
    parts += [", ".join(one.rest)] if one.rest else []
    # Only a model finds places, so their absence tells that names were looked for without one.
    alone = "Name" in one.searched and "Address" not in one.searched
    gain = f" Names were looked for without a model: {MODEL_GAIN}." if alone else ""
    return (
        f"The records were not annotated; {one.detector} looked in them for"
        f" {', '.join(one.searched) or 'nothing'}. "
        f"Not looked for, so nothing is known of them: {'; '.join(parts) or 'no kind'}.{gain}"
    )
