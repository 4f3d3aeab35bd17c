"""What an audit of everything covered, for which release, and what was judged under its policy."""

from collections import Counter
from collections.abc import Sequence

from fedaudit.report.number_format import number
from fedaudit.report.query import Row
from fedaudit.report.tables.table import NONE, Table, shorten

MOST_JUDGED = 30
LEVELS = ("high", "medium", "low", "unverified")
ORDER = ("fail", "inconclusive", "pass")
STATUS = {"run": "run", "not_run": "not run", "not_applicable": "does not apply"}
NOT_DECLARED = "not declared"
OPINION = (
    "Classes of attacks after EDPB Opinion 28/2024, paragraph 55. What was run is evidence about"
    " these attacks only, and until weights, prompts or decoding change."
)


def coverage(report: Row) -> list[Table]:
    """Return the table of the classes of attacks: run or not, and why not."""
    if "coverage" not in report:
        return []
    rows = tuple(
        (
            one["class"].replace("_", " "),
            one["edpb"],
            STATUS[one["status"]],
            ", ".join(one["by"]) or NONE,
            NONE if one["n"] is None else f"{one['n']:,}",
            _detail(one) or NONE,
        )
        for one in report["coverage"]
    )
    columns = ("class of attack", "par.", "status", "by", "n", "access, knowledge; remark")
    return [
        Table(
            title="Coverage",
            columns=columns,
            rows=rows,
            numeric=frozenset({"n"}),
            notes=(OPINION,),
        )
    ]


def judged(report: Row) -> list[Table]:
    """Return the table of all that was judged, the worst first, each with its limit.

    Of what did not fail, rows of one attack that were held to one limit are one line: that of the
    most targets, and how many there are.
    """
    verdict = report["verdict"]
    if "judgements" not in verdict:
        return []
    policy = verdict.get("policy", {})
    table = Table(
        title=f"Judged under the policy {policy.get('name', '')}",
        columns=("status", "what", "measured [95 %]", "limit"),
        rows=tuple(map(_line, _groups(verdict["judgements"]))),
        notes=(str(policy["description"]),) if policy.get("description") else (),
    )
    return [shorten(table, MOST_JUDGED)]


def finding_counts(report: Row) -> list[Table]:
    """Return how many findings there are of each label and severity."""
    counts = Counter((one["label"], one["severity"]) for one in report["findings"])
    labels = sorted({label for label, _ in counts}, key=lambda name: (-_of(counts, name), name))
    rows = tuple(
        (label, *(f"{counts[label, level]:,}" if counts[label, level] else "" for level in LEVELS))
        for label in labels
    )
    table = Table(title="Findings", columns=("kind", *LEVELS), rows=rows, numeric=frozenset(LEVELS))
    return [shorten(table, MOST_JUDGED)] if rows else []


def _of(counts: Counter[tuple[str, str]], label: str) -> int:
    return sum(count for (name, _), count in counts.items() if name == label)


def context_facts(report: Row) -> list[tuple[str, str]]:
    """Return what was declared of the release, as (name, value); absent is said to be so."""
    if "context" not in report:
        return []
    said = report["context"]
    return [
        ("release", said["release"] or NOT_DECLARED),
        ("attackers", ", ".join(said["positions"]) or NOT_DECLARED),
        ("declared by", said["declared_by"] or NOT_DECLARED),
    ]


def _groups(judgements: Sequence[Row]) -> list[list[Row]]:
    """Return judgements that are one line, the worst first."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for place, one in enumerate(judgements):
        row = one["measurement"] or {}
        alike = (one["rule"], row.get("plugin"), row.get("metric"), one["limit"])
        failed = place if one["status"] == "fail" or not row else -1
        groups.setdefault((one["status"], failed, *alike), []).append(one)
    return sorted(groups.values(), key=lambda some: ORDER.index(some[0]["status"]))


def _line(some: Sequence[Row]) -> tuple[str, ...]:
    best = max(some, key=lambda one: (one["measurement"] or {}).get("n") or 0)
    name = judged_name(best)
    if len(some) > 1:
        row = best["measurement"]
        name = f"{row['plugin']} {row['metric']}: {len(some):,} rows, of which the largest"
    return best["status"], name, _measured(best), best["limit"]


def _detail(one: Row) -> str:
    reached = ", ".join([*one["access"], *one["knowledge"]])
    return "; ".join(filter(None, (reached, one["reason"])))


def judged_name(one: Row) -> str:
    """Return what was judged, in words without numbers that another run would change."""
    row = one["measurement"]
    if row is None:
        return str(one["rule"])
    where = ", ".join(f"{key} {value}" for key, value in row["scope"].items())
    return f"{row['plugin']} {row['metric']}" + (f" ({where})" if where else "")


def _measured(one: Row) -> str:
    row = one["measurement"]
    if row is None or row["value"] is None:
        return NONE
    told = number(row["value"])
    if row["low"] is not None and row["high"] is not None:
        told += f" [{number(row['low'])}, {number(row['high'])}]"
    if row["hits"] is not None and row["n"] is not None:
        return f"{row['hits']:,} / {row['n']:,}: {told}"
    return told
