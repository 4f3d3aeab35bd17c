"""Whose data came out, of which kinds, how grave, how likely, and at what cost."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from fedaudit.api.kind import Table
from fedaudit.pii.taxonomy import category
from fedaudit.report import query
from fedaudit.report.checklist.answer import result
from fedaudit.report.checklist.attackers import (
    KNOWLEDGE,
    NEEDS,
    UNKNOWN,
    attack_class,
    headline_totals,
    is_source,
    position_of,
    unmeasured,
)
from fedaudit.report.kinds.memorization import unsearched_texts
from fedaudit.report.kinds.registry import kind_of
from fedaudit.report.number_format import (
    NOT_MEASURED,
    number,
)
from fedaudit.report.query import SEVERITIES, Row
from fedaudit.report.tables.grouping import victim_of
from fedaudit.report.tables.table import NONE, shorten
from fedaudit.report.verdict.recheck import judgements

SPECIAL = {
    "Art. 9": "special category (Art. 9)",
    "Art. 10": "convictions and offences (Art. 10)",
    "Art. 87": "national number (Art. 87)",
}
"""First words of the clauses that give a kind of data special protection."""
NOT_SEARCHED = "not searched"
"""The protection of passages: which kinds of data are in one, a report does not say."""
CAME_OUT, TOLD_APART = "came out", "told apart"
ROLES = {"victim": ("victim", "data"), "attacker": ("prefixes", "attacker")}
"""The options that name the records of a party, by its role."""
OTHER_VICTIMS, OTHER_CLIENTS = UNSEARCHED = ("other victims", "other clients")
"""Names in `left_out` of clients' records: those at hand that no step looked for, and those that
are not at hand."""
NOT_PERSONAL = ("WATERMARK", "GATE", "CANARY")
"""Labels of findings that are not data of a person."""
PASSAGES = ("DOCUMENT", "TEXT")
"""Labels of findings that are texts."""
MOST_KINDS = 60
NOT_LOOKED_FOR = "No attack that brings data out gave a number."
ALL_CAN = (
    "Each position includes the capabilities of those further out: a client those of the public,"
    " the server those of a client."
)
WORST_COUNTS = (
    "A string that several attacks found counts once, at its worst. Told apart: the true one was"
    " recognised among others, it did not come out. Not verified: it may not be a leak. Kinds that"
    " are in the records and of which nothing was found are not listed."
)
NO_KINDS = "Passages were not searched for kinds of data."
COMPUTED = (
    "A string whose probability was computed counts as one here, however small the probability."
)


def attackers(report: Row) -> Table:
    """Return a line for each attack by the position that it can be made from."""
    rows = headline_totals(report)
    lines = [(position_of(report, row), row) for row in rows]
    order = [*NEEDS, UNKNOWN]
    cells = [
        (
            position,
            row["plugin"],
            ", ".join(filter(None, (NEEDS.get(position, ""), KNOWLEDGE.get(row["plugin"], "")))),
            attack_class(row).replace("_", " ") or NONE,
            f"{row['metric'].replace('_', ' ')} {result(row)}",
        )
        for position, row in sorted(lines, key=lambda pair: order.index(pair[0]))
    ]
    cells += [(name, NONE, NEEDS[name], NONE, NOT_MEASURED) for name in unmeasured(report)]
    columns = ("attacker", "attack", "must know or have", "class", "result [95 %]")
    cells.sort(key=lambda line: order.index(line[0]))
    return Table(title="Attackers", columns=columns, rows=tuple(cells), notes=(ALL_CAN,))


def likelihood(report: Row) -> Table:
    """Return each attack's result with its interval, the baseline it must beat, and its queries."""
    cells = []
    for row in headline_totals(report):
        like = [r for r in report["measurements"] if r["metric"] == row["metric"]]
        base, control = (query.comparable_row(like, row, name) for name in ("base", "control"))
        asked = queries(report, row)
        cells.append(
            (
                f"{row['plugin']} {row['metric'].replace('_', ' ')}",
                result(row),
                NONE if base is None else result(base),
                _chance(report, row, control),
                NONE if asked is None else number(asked),
            )
        )
    columns = ("what", "model [95 %]", "base [95 %]", "guessing", "queries")
    numeric = frozenset({"queries"})
    return Table(title="Likelihood and cost", columns=columns, rows=tuple(cells), numeric=numeric)


def queries(report: Row, row: Row) -> float | None:
    """Return how many continuations an attack asked for, under its key if it had one."""
    scope = row["scope"]
    counts = [
        m["value"]
        for m in report["measurements"]
        if (m["plugin"], m["metric"]) == (row["plugin"], "queries")
        and m["value"] is not None
        and m["scope"].get("source", "tuned") == "tuned"
        and all(m["scope"].get(key) == scope.get(key) for key in ("key", "records", "variant"))
    ]
    return max(counts, default=None)


def _chance(report: Row, row: Row, control: Row | None) -> str:
    if control is not None:
        return result(control)
    chance = query.guessing_accuracy(report, row)
    return NONE if chance is None else number(chance)


def severity(report: Row) -> Table:
    """Return a line for each kind of data that came out, specially protected kinds first.

    A label is counted as its kind in the taxonomy; labels outside it keep their names.
    """
    kinds = [(key, _counts(findings), findings) for key, findings in _kinds(report).items()]
    kinds.sort(key=lambda kind: (not special(kind[0][0]), *(-n for n in kind[1]), kind[0]))
    lines = [_line(*key, counts, findings) for key, counts, findings in kinds]
    columns = ("kind", "how", "GDPR", "high", "medium", "low", "not verified", "by")
    table = Table(
        title="Severity by kind, of what was found",
        columns=columns,
        rows=tuple(lines),
        numeric=frozenset(columns[3:7]),
        notes=(WORST_COUNTS, *_severity_notes(report["findings"])),
    )
    return shorten(table, MOST_KINDS)


def _severity_notes(findings: Sequence[Row]) -> Iterator[str]:
    if any(finding["label"] in PASSAGES for finding in findings):
        yield NO_KINDS
    if any(map(is_computed, findings)):
        yield COMPUTED


def _kinds(report: Row) -> dict[tuple[str, str], list[Row]]:
    kinds: dict[tuple[str, str], list[Row]] = {}
    for finding, mode in zip(report["findings"], disclosure_modes(report), strict=True):
        kind = category(finding["label"])
        kinds.setdefault((kind.name if kind else finding["label"], mode), []).append(finding)
    return kinds


def disclosure_modes(report: Row) -> list[str]:
    """Return for each finding whether the data came out or was only told apart from other data."""
    rows = {f"{row['plugin']} {row['metric']}": row for row in report["measurements"]}
    finding_rows = (rows.get(finding["measurement"]) for finding in report["findings"])
    return [TOLD_APART if row and _tells_apart(row) else CAME_OUT for row in finding_rows]


def _tells_apart(row: Row) -> bool:
    """Tell whether an attack extracts nothing but distinguishes true data from other data."""
    kind = kind_of(row["kind"])
    return row["metric"] in query.INFERENCE if kind is None else kind.discloses is False


def _counts(findings: Sequence[Row]) -> list[int]:
    """Return how many strings there are of each severity, each at its worst."""
    worst: dict[str, int] = {}
    for finding in findings:
        key = identity(finding)
        worst[key] = min(worst.get(key, len(SEVERITIES)), SEVERITIES.index(finding["severity"]))
    return [sum(level == index for level in worst.values()) for index in range(len(SEVERITIES))]


def _line(name: str, mode: str, counts: Sequence[int], findings: list[Row]) -> tuple[str, ...]:
    cells = (f"{n:,}" if n else NONE for n in counts)
    protection = NOT_SEARCHED if name in PASSAGES else special(name) or NONE
    return (name, mode, protection, *cells, ", ".join(sorted(set(map(attack_of, findings)))))


def special(kind: str) -> str:
    """Return the special protection that the GDPR gives a kind of data; "" for none."""
    pii_category = category(kind)
    if pii_category is None:
        return ""
    clauses = (clause for clause in pii_category.references("gdpr"))
    return next((text for c in clauses for start, text in SPECIAL.items() if _begins(c, start)), "")


def _begins(clause: str, start: str) -> bool:
    """Tell whether a clause belongs to an article: `Art. 9(1)` to Art. 9, but not `Art. 95`."""
    suffix = clause.removeprefix(start)
    return suffix != clause and not suffix[:1].isdigit()


def came_out(report: Row) -> list[Row]:
    """Return the findings of data or texts that came out, and that chance does not explain.

    A passage with a p value is tested by itself. Others, and strings, are tested together: all
    count where their attack fails, and none elsewhere.
    """
    failed = _failed_attacks(report)
    return [
        f
        for f in _disclosed(report, CAME_OUT)
        if (_stands(report, f) if _is_tested_alone(f) else attack_of(f) in failed)
    ]


def doubtful_passages(report: Row) -> list[Row]:
    """Return the passages of attacks that fail which chance may explain, each taken alone."""
    failed = _failed_attacks(report)
    alone = (f for f in _disclosed(report, CAME_OUT) if _is_tested_alone(f))
    return [f for f in alone if attack_of(f) in failed and not _stands(report, f)]


def told_apart(report: Row) -> list[Row]:
    """Return the findings of data that an attack which fails recognised among other data."""
    failed = _failed_attacks(report)
    return [f for f in _disclosed(report, TOLD_APART) if attack_of(f) in failed]


def _disclosed(report: Row, how: str) -> list[Row]:
    """Return the findings of personal data that came out, or that were told apart."""
    pairs = zip(report["findings"], disclosure_modes(report), strict=True)
    found = (f for f, mode in pairs if mode == how and f["severity"] != "unverified")
    return [f for f in found if f["label"] not in NOT_PERSONAL]


def _failed_attacks(report: Row) -> set[str]:
    failed = (j["measurement"] or {} for j in judgements(report) if j["status"] == "fail")
    return {str(measurement.get("plugin")) for measurement in failed}


def _is_tested_alone(finding: Row) -> bool:
    return finding["label"] in PASSAGES and "p_value" in finding["evidence"]


def verified(report: Row) -> list[Row]:
    """Return the findings of `came_out` that are proven leaks, each by its own p value."""
    return [finding for finding in came_out(report) if _stands(report, finding)]


def _stands(report: Row, finding: Row) -> bool:
    p_value = finding["evidence"].get("p_value")
    return p_value is not None and p_value <= report["verdict"].get("level", 1.0)


def attack_of(finding: Row) -> str:
    """Return the attack that found something."""
    return str(finding["measurement"]).partition(" ")[0]


def probability(finding: Row) -> float:
    """Return how likely a finding's string comes out, and not of the base; 1 if it was seen."""
    if not is_computed(finding):
        return 1.0
    evidence = finding["evidence"]
    of_base = evidence.get("probability_of_base")
    missed = 1.0 - of_base if isinstance(of_base, int | float) else 1.0
    return float(evidence["probability"] * missed)


def is_computed(finding: Row) -> bool:
    """Tell whether a string was not seen: the exact estimator computed its probability."""
    return isinstance(finding["evidence"].get("probability"), int | float)


def identity(finding: Row) -> str:
    """Return the same text for all findings of one string."""
    return str(finding["evidence"].get("hmac") or finding["id"])


def persons(report: Row) -> list[Row]:
    """Return how many people are exposed beyond the base, a row per attack and victim."""
    rows = [row for row in report["measurements"] if row["metric"] == "persons"]
    rows = [row for row in rows if row["value"] is not None and not query.is_sweep(row)]
    best: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=query.source_rank, reverse=True):
        if row["scope"].get("source", "tuned") in ("tuned", "tuned-not-base"):
            best[row["plugin"], victim_of(row)] = row
    return list(best.values())


def uncounted(report: Row) -> str:
    """Return why there is no number of people."""
    rows = [r for r in report["measurements"] if r["value"] is not None]
    rows = [row for row in rows if attack_class(row) or is_source(row)]
    of_strings = [row for row in rows if "set" in row["scope"]]  # of attacks by prefixes
    if not all(map(_is_pair, of_strings)):
        why = "the records do not say whose they are (group), or have every string in common"
    elif rows:
        names = {"pairs of clients" if _is_pair(row) else row["plugin"] for row in rows}
        why = f"only an attack by prefixes on one victim does so, not {', '.join(sorted(names))}"
    else:
        why = "no attack gave a number"
    return f"People were not counted: {why}."


def _is_pair(row: Row) -> bool:
    """Tell whether a row is of an attack by prefixes of one client on another."""
    return bool({"set", "attacker"} <= row["scope"].keys())


def unsearched_records(report: Row) -> list[str]:
    """Return in sentences which records of clients, and parts of them, were not looked for."""
    left_out = report["run"]["config"].get("left_out")
    reasons = (left_out.get(name) for name in UNSEARCHED) if isinstance(left_out, Mapping) else ()
    records = [f"{why[0].upper()}{why[1:]}." for why in map(str, filter(None, reasons))]
    texts = unsearched_texts(report)
    return [*records, *([f"By memorize, {texts} were not looked for."] if texts else [])]


def looked_for(report: Row) -> bool:
    """Tell whether an attack that brings data out gave a number, be it 0."""
    rows = (row for row in report["measurements"] if row["value"] is not None)
    return any(attack_class(row) and not _tells_apart(row) for row in rows)


def parties(report: Row, role: str, titles: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return the parties that are `victim` or `attacker`: their titles, never a path.

    Titles that the report declares come behind `titles`.
    """
    declared = {**((report.get("context") or {}).get("parties") or {}), **titles}
    found = {Path(v).stem for key, v in options(report["run"]["config"]) if key in ROLES[role]}
    measured = (row for row in report["measurements"] if row["value"] is not None)
    for row in (*measured, *report["findings"]):
        where = row.get("scope") or row.get("evidence") or {}
        if isinstance(name := where.get(role), str) and name != "all":
            found.add(name)
    return [f"{declared[name]} ({name})" if name in declared else name for name in sorted(found)]


def options(config: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the options of a run that are strings, with those of its steps.

    Those of attacks and detectors are left out: a plugin may give any name to its own.
    """
    steps = config.get("steps")
    for table in (config, *(steps.values() if isinstance(steps, Mapping) else ())):
        if isinstance(table, Mapping):
            yield from ((k, v) for k, v in table.items() if isinstance(v, str) and v)
