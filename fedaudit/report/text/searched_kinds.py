"""The kinds of personal data that a detector looked for in records, and those that it did not."""

from collections.abc import Iterable, Sequence

from fedaudit.pii.taxonomy import Category, category, taxonomy
from fedaudit.report.query import Row

METRIC = "annotation_labels"
FIRST = ("Art. 9(1)", "Art. 10", "Art. 87")
"""The clauses of the GDPR whose kinds are named first where they were not looked for."""


def searched_kinds(report: Row) -> list[str]:
    """Return what was looked for and what was not, for the place before a verdict.

    Nothing is said of records that came annotated: their annotation names its own kinds.
    """
    rows = [row for row in report["measurements"] if row["metric"] == METRIC]
    return list(dict.fromkeys(_sentence(row) for row in rows))


def _sentence(row: Row) -> str:
    labels = list(map(str, row["scope"].get("labels") or ()))
    searched = {found.name for label in labels if (found := category(label))}
    custom = [label for label in labels if category(label) is None]
    missing = [one for one in taxonomy().categories if one.name not in searched]
    parts = []
    for clause in FIRST:
        if of_clause := [one for one in missing if clause in one.references("gdpr")]:
            parts.append(f"{', '.join(_names(of_clause))} (GDPR {clause})")
            missing = [one for one in missing if one not in of_clause]
    parts += [", ".join(_names(missing))] if missing else []
    names = [one.name for one in taxonomy().categories if one.name in searched] + custom
    return (
        f"The records were not annotated; {row['plugin']} looked in them for {_list(names)}. "
        f"Not looked for, so nothing is known of them: {'; '.join(parts) or 'no kind'}."
    )


def _names(categories: Iterable[Category]) -> list[str]:
    return [one.name for one in categories]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "nothing"
