"""What an audit of everything covered, for which release, and what was judged under its policy."""

from collections import Counter
from collections.abc import Mapping, Sequence

from fedaudit.api.kind import Table
from fedaudit.api.target_sets import EXCLUSIVE
from fedaudit.report.number_format import format_measurement
from fedaudit.report.query import SETS, SEVERITIES, Row, group_by, scope_words
from fedaudit.report.tables.table import NONE, display_name, shorten

MOST_JUDGED = 30
ORDER = ("fail", "inconclusive", "pass")
STATUS = {"run": "run", "not_run": "not run", "not_applicable": "does not apply"}
UNSAID = (("source", "tuned"), ("source", "tuned-not-base"), ("set", EXCLUSIVE))
"""What goes without saying of a judged measurement."""
NOT_DECLARED = "not declared"
OPINION = (
    "Classes of attacks after EDPB Opinion 28/2024, paragraph 55. What was run is evidence about"
    " these attacks only, and until weights, prompts or decoding change."
)


def coverage(report: Row) -> list[Table]:
    """Return the table of the classes of attacks: whether each was run, and if not, why."""
    if "coverage" not in report:
        return []
    rows = tuple(
        (
            entry["class"].replace("_", " "),
            entry["edpb"],
            STATUS[entry["status"]],
            ", ".join(entry["by"]) or NONE,
            NONE if entry["n"] is None else f"{entry['n']:,}",
            _detail(entry) or NONE,
        )
        for entry in report["coverage"]
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


def judgement_tables(report: Row) -> list[Table]:
    """Return the table of all judgements, worst first, each with its limit.

    Rows of one attack with the same limit that did not fail share one line, which shows the row
    with the most targets and the number of rows.
    """
    verdict = report["verdict"]
    if "judgements" not in verdict:
        return []
    policy = verdict.get("policy", {})
    table = Table(
        title=f"Judged under the policy {policy.get('name', '')}",
        columns=("status", "what", "measured [95 %]", "limit"),
        rows=tuple(map(_line, _groups(verdict["judgements"]))),
        # Its author's words, which need not fit the limits above.
        notes=(f"The policy says: {policy['description']}",) if policy.get("description") else (),
    )
    return [shorten(table, MOST_JUDGED)]


def finding_counts(report: Row) -> list[Table]:
    """Return the number of findings of each label and severity."""
    counts = Counter((finding["label"], finding["severity"]) for finding in report["findings"])
    totals = Counter(finding["label"] for finding in report["findings"])
    labels = sorted(totals, key=lambda name: (-totals[name], name))
    rows = tuple(
        (
            label,
            *(f"{counts[label, level]:,}" if counts[label, level] else "" for level in SEVERITIES),
        )
        for label in labels
    )
    table = Table(
        title="Findings", columns=("kind", *SEVERITIES), rows=rows, numeric=frozenset(SEVERITIES)
    )
    return [shorten(table, MOST_JUDGED)] if rows else []


def context_facts(report: Row) -> list[tuple[str, str]]:
    """Return what was declared about the release, as (name, value), and what was not."""
    if "context" not in report:
        return []
    context = report["context"]
    return [
        ("release", context["release"] or NOT_DECLARED),
        ("attackers", ", ".join(context["positions"]) or NOT_DECLARED),
        ("declared by", context["declared_by"] or NOT_DECLARED),
    ]


def _groups(judgements: Sequence[Row]) -> list[list[Row]]:
    """Return the judgements grouped by line of the table, worst first."""

    def alike(judgement: Row) -> tuple[object, ...]:
        row = judgement["measurement"] or {}
        alone = id(judgement) if judgement["status"] == "fail" or not row else None
        names = (judgement["status"], judgement["rule"], judgement["limit"])
        return (alone, *names, row.get("plugin"), row.get("metric"))

    groups = group_by(judgements, alike).values()
    return sorted(groups, key=lambda group: ORDER.index(group[0]["status"]))


def _height(judgement: Row) -> tuple[float, float]:
    """Return value and n of the measurement that was judged, upside down if it is a p value."""
    row = judgement["measurement"] or {}
    value = float("-inf") if row.get("value") is None else row["value"]
    return (-value if row.get("metric") == "p_value" else value, row.get("n") or 0)


def _line(group: Sequence[Row]) -> tuple[str, ...]:
    strongest = max(group, key=_height)
    row = strongest["measurement"]
    name = strongest["rule"]
    if row:
        scope = {key: value for key, value in row["scope"].items() if (key, value) not in UNSAID}
        name = shown_name(row["plugin"], row["metric"], scope)
    if len(group) > 1:
        name = shown_name(row["plugin"], row["metric"], {})
        name = f"{name}: {len(group):,} rows, of which the highest"
    return strongest["status"], name, _measured_text(strongest), strongest["limit"]


def _detail(entry: Row) -> str:
    reached = ", ".join([*entry["access"], *entry["knowledge"]])
    return "; ".join(filter(None, (reached, entry["reason"])))


def judged_name(judgement: Row) -> str:
    """Return a stable identifier of what was judged, the same in every run and version."""
    row = judgement["measurement"]
    if row is None:
        return str(judgement["rule"])
    where = ", ".join(f"{key} {value}" for key, value in row["scope"].items())
    return f"{row['plugin']} {row['metric']}" + (f" ({where})" if where else "")


def shown_name(plugin: str, metric: str, scope: Mapping[str, object]) -> str:
    """Return the name of a measurement in tables, with readable names of sets."""
    named = {**scope, **({"set": display_name(SETS, scope["set"])} if "set" in scope else {})}
    where = ", ".join(scope_words(key, value) for key, value in named.items())
    return f"{plugin} {metric}" + (f" ({where})" if where else "")


def _measured_text(judgement: Row) -> str:
    row = judgement["measurement"]
    if row is None or row["value"] is None:
        return NONE
    text = format_measurement(row)
    if row["hits"] is not None and row["n"] is not None:
        return f"{row['hits']:,} / {row['n']:,}: {text}"
    return text
