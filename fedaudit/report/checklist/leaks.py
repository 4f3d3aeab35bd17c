"""Whose data came out, of which kinds, how grave, how likely, and at what cost."""

from collections.abc import Iterator, Mapping

from fedaudit.pii.taxonomy import category
from fedaudit.report import query
from fedaudit.report.checklist.attackers import (
    KNOWLEDGE,
    NEEDS,
    UNKNOWN,
    attack_class,
    position_of,
    telling_rows,
    unmeasured,
)
from fedaudit.report.number_format import (
    NOT_MEASURED,
    RATES,
    format_measurement,
    format_rate,
    number,
)
from fedaudit.report.query import Row
from fedaudit.report.tables.table import NONE, Table, shorten

LEVELS = ("high", "medium", "low", "unverified")
SPECIAL = {
    "Art. 9": "special category (Art. 9)",
    "Art. 10": "convictions and offences (Art. 10)",
    "Art. 87": "national number (Art. 87)",
}
"""How a clause begins that gives a kind of data a protection of its own."""
CAME_OUT, TOLD_APART = "came out", "told apart"
RECOGNISED = ("attribute_inference", "membership_inference")
"""Classes of attacks in which nothing comes out: what is true is told from what is not."""
MOST_KINDS = 60
ALL_CAN = (
    "Whoever stands nearer can do what those further off can: a client what the public can, the"
    " server what a client can."
)
WORST_COUNTS = (
    "A string that several attacks found counts once, at its worst. Told apart: the true one was"
    " recognised among others, it did not come out. Not proven: it may not be a leak. Kinds that"
    " are in the records and of which nothing was found are not listed."
)


def attackers(report: Row) -> Table:
    """Return a line for each attack by the position that it can be made from."""
    rows = telling_rows(report)
    lines = [(position_of(row), row) for row in rows]
    order = [*NEEDS, UNKNOWN]
    cells = [
        (
            position,
            row["plugin"],
            ", ".join(filter(None, (NEEDS.get(position, ""), KNOWLEDGE.get(row["plugin"], "")))),
            attack_class(row).replace("_", " "),
            f"{row['metric'].replace('_', ' ')} {result(row)}",
        )
        for position, row in sorted(lines, key=lambda pair: order.index(pair[0]))
    ]
    cells += [(name, NONE, NEEDS[name], NONE, NOT_MEASURED) for name in unmeasured(report)]
    columns = ("attacker", "attack", "must know or have", "class", "result [95 %]")
    cells.sort(key=lambda line: order.index(line[0]))
    return Table(title="Attackers", columns=columns, rows=tuple(cells), notes=(ALL_CAN,))


def likelihood(report: Row) -> Table:
    """Return what each attack gave, with interval, what it must beat, and its cost in queries."""
    cells = []
    for row in telling_rows(report):
        like = [one for one in report["measurements"] if one["metric"] == row["metric"]]
        base, control = (query.comparable_row(like, row, name) for name in ("base", "control"))
        asked = _queries(report, row)
        cells.append(
            (
                f"{row['plugin']} {row['metric'].replace('_', ' ')}",
                result(row),
                NONE if base is None else result(base),
                _chance(row, control),
                NONE if asked is None else number(asked),
            )
        )
    columns = ("what", "model [95 %]", "base [95 %]", "guessing", "queries")
    numeric = frozenset({"queries"})
    return Table(title="Likelihood and cost", columns=columns, rows=tuple(cells), numeric=numeric)


def _queries(report: Row, row: Row) -> float | None:
    """Return the continuations that an attack asked of the model, under its key if it had one."""
    scope = row["scope"]
    asked = [
        one["value"]
        for one in report["measurements"]
        if (one["plugin"], one["metric"]) == (row["plugin"], "queries")
        and one["value"] is not None
        and one["scope"].get("source", "tuned") == "tuned"
        and all(one["scope"].get(key) == scope.get(key) for key in ("key", "records", "variant"))
    ]
    return max(asked, default=None)


def result(row: Row) -> str:
    """Return a measurement with what it is out of and its interval."""
    told = format_rate(row) if row["metric"] in RATES else format_measurement(row)
    return told if row["hits"] is not None or row["n"] is None else f"{told}, n {row['n']:,}"


def _chance(row: Row, control: Row | None) -> str:
    if control is not None:
        return result(control)
    chance = row.get("chance")
    return NONE if chance is None else number(chance)


def severity(report: Row) -> Table:
    """Return a line for each kind of data that came out; what has a protection of its own is first.

    A label is counted as its kind in the taxonomy; labels outside it keep their names.
    """
    lines = [_line(*key, found) for key, found in _kinds(report).items()]
    lines.sort(key=lambda line: (line[2] == NONE, *(-_count(cell) for cell in line[3:7]), line[:2]))
    columns = ("kind", "how", "GDPR", "high", "medium", "low", "not proven", "by")
    table = Table(
        title="Severity by kind, of what was found",
        columns=columns,
        rows=tuple(lines),
        numeric=frozenset(columns[3:7]),
        notes=(WORST_COUNTS,),
    )
    return shorten(table, MOST_KINDS)


def _kinds(report: Row) -> dict[tuple[str, str], list[Row]]:
    kinds: dict[tuple[str, str], list[Row]] = {}
    for one, manner in zip(report["findings"], manners(report), strict=True):
        known = category(one["label"])
        kinds.setdefault((known.name if known else one["label"], manner), []).append(one)
    return kinds


def manners(report: Row) -> list[str]:
    """Return of each finding how it was found: it came out, or was told apart from others."""
    rows = {f"{row['plugin']} {row['metric']}": row for row in report["measurements"]}
    found = (rows.get(one["measurement"]) for one in report["findings"])
    classes = ("" if row is None else attack_class(row) for row in found)
    return [TOLD_APART if name in RECOGNISED else CAME_OUT for name in classes]


def _line(name: str, manner: str, found: list[Row]) -> tuple[str, ...]:
    worst: dict[str, int] = {}
    for one in found:
        key = str(one["evidence"].get("hmac") or one["id"])
        worst[key] = min(worst.get(key, len(LEVELS)), LEVELS.index(one["severity"]))
    counts = (sum(level == place for level in worst.values()) for place in range(len(LEVELS)))
    by = sorted({str(one["measurement"]).partition(" ")[0] for one in found})
    cells = (f"{n:,}" if n else NONE for n in counts)
    return (name, manner, special(name) or NONE, *cells, ", ".join(by))


def _count(cell: str) -> int:
    return 0 if cell == NONE else int(cell.replace(",", ""))


def special(kind: str) -> str:
    """Return the protection that the GDPR gives a kind of data beside Art. 4; "" for none."""
    known = category(kind)
    if known is None:
        return ""
    said = (clause for clause in known.references("gdpr"))
    return next((told for c in said for start, told in SPECIAL.items() if _begins(c, start)), "")


def _begins(clause: str, start: str) -> bool:
    """Tell whether a clause is of an article: `Art. 9(1)` of Art. 9, `Art. 95` not."""
    rest = clause.removeprefix(start)
    return rest != clause and not rest[:1].isdigit()


def verified(report: Row) -> list[Row]:
    """Return the findings that are proven leaks of personal data or texts: these came out."""
    other = ("WATERMARK", "GATE", "CANARY")
    found = zip(report["findings"], manners(report), strict=True)
    proven = (one for one, manner in found if manner == CAME_OUT)
    proven = (one for one in proven if one["severity"] != "unverified")
    return [one for one in proven if one["label"] not in other]


def persons(report: Row) -> list[Row]:
    """Return how many people are exposed beyond the base, a row an attack, without sweeps."""
    rows = [row for row in report["measurements"] if row["metric"] == "persons"]
    rows = [row for row in rows if row["value"] is not None and not query.is_sweep(row)]
    best: dict[str, Row] = {}
    for row in sorted(rows, key=query.telling_rank, reverse=True):
        if row["scope"].get("source", "tuned") in ("tuned", "tuned-not-base"):
            best[row["plugin"]] = row
    return list(best.values())


def parties(report: Row) -> list[str]:
    """Return whose records the audit was about: files of victims, clients that rows name."""
    named = {str(v) for path, v in _options(report["run"]["config"]) if path in ("victim", "data")}
    for row in (*report["measurements"], *report["findings"]):
        where = row.get("scope") or row.get("evidence") or {}
        names = (where.get(key) for key in ("victim", "client"))
        named |= {name for name in names if isinstance(name, str) and name != "all"}
    return sorted(named)


def _options(table: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the options of a run that are texts, those of its steps too."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _options(value)
        elif isinstance(value, str) and value:
            yield key, value
