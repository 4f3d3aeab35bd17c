"""What an officer asks first of a report: whose data, how many people, which kinds, what now."""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from fedaudit.pii.taxonomy import category
from fedaudit.report.checklist import leaks
from fedaudit.report.checklist.attackers import (
    CLIENT,
    KEY_HOLDER,
    KNOWLEDGE,
    PUBLIC,
    SERVER,
    attack_class,
    headline_totals,
    is_one_of,
    is_source,
    position_of,
)
from fedaudit.report.checklist.measures import measures
from fedaudit.report.checklist.validity import NOT_OWNED, UNTIL, ReportOwner, issued
from fedaudit.report.number_format import first_of, number, percent
from fedaudit.report.query import Row
from fedaudit.report.tables.grouping import variants_of, victim_of
from fedaudit.report.text.searched_kinds import Unsearched, unsearched
from fedaudit.report.text.summary import is_attribution
from fedaudit.report.verdict.attribution import accusations
from fedaudit.report.verdict.recheck import judgements

WHO = {
    PUBLIC: "Anyone who can ask the model",
    CLIENT: "Any member of the federation",
    KEY_HOLDER: "Anyone who holds a key",
    SERVER: "The server",
}
"""The attacker's positions as the subject of a sentence."""
WITH = {
    "own records": "with records of its own",
    "victim's prefix": "and knows how a record begins",
    "records to test": "and has the record already",
    "candidates": "and can list what the answer may be",
    "canaries": "and knows the canaries",
}
"""What an attacker must have, behind the subject."""
OUTCOMES = {
    "exfiltration": "strings of personal data came out",
    "regurgitation": "passages were repeated word for word",
    "attribute_inference": "blanked-out strings were picked among others",
}
"""What a class of attacks counts."""
COUNTS = ("coverage", "extraction_recall", "inference_accuracy")
"""Metrics of what OUTCOMES says."""
PASSAGES = {"DOCUMENT": "whole passages", "TEXT": "passages of texts"}
"""What labels that name no kind of personal data stand for."""
NOT_LOOKED_FOR = "Not looked for"
BY_CHANCE = ", which chance may explain"
MOST = 4
"""How many kinds, parties or attacks a line names before it counts the rest."""


class Fact(NamedTuple):
    """One question of the reader, and the sentences that answer it."""

    question: str
    answer: tuple[str, ...]


def brief(report: Row, owned: ReportOwner = NOT_OWNED) -> list[Fact]:
    """Return the first answers of an audit's report, in reading order."""
    variants = variants_of(report["measurements"])
    if len(variants) > 1:
        answers = {
            "What was compared": iter([f"{len(variants):,} variants: {_list(variants)}."]),
            "What to do now": _actions(report),
        }
    elif is_attribution(report):
        answers = {"Which parties": _flagged(report), "What to do now": _actions(report)}
    else:
        answers = {
            "Whose data": _whose(report, owned),
            "How many people": _how_many(report),
            "What to do now": _actions(report),
            "Which kinds of data": _which_kinds(report),
            "Who could do it": _who(report),
            NOT_LOOKED_FOR: _not_looked_for(report),
        }
        if any(row["kind"] == "attribution" for row in report["measurements"]):
            answers["Which parties trained on marked documents"] = _flagged(report)
    answers["Valid until"] = iter(
        [f"{in_words(owned.expires)}. {UNTIL}" if owned.expires else UNTIL]
    )
    return [Fact(question, lines) for question, found in answers.items() if (lines := (*found,))]


def byline(report: Row, owned: ReportOwner = NOT_OWNED) -> str:
    """Return who made the report, with what and when, in a line."""
    version = report["environment"]["versions"].get("fedaudit", "of an unknown version")
    declared = (report.get("context") or {}).get("declared_by")
    responsible = owned.owner or declared
    made = f"{'By ' + responsible + ' with' if responsible else 'By'} fedaudit {version}"
    return f"{made} on {in_words(issued(report))}, run {report['run']['id']}"


def in_words(day: date) -> str:
    """Return a date as `28 November 2026`."""
    return f"{day.day} {day:%B %Y}"


def _whose(report: Row, owned: ReportOwner) -> Iterator[str]:
    victims, attackers = (leaks.parties(report, role, owned.parties) for role in leaks.ROLES)
    if victims:
        asked = f", asked for by {_list(attackers)}" if attackers and attackers != victims else ""
        yield f"Records of {_list(victims)}{asked}."
    elif attackers:
        yield f"Only the records of {_list(attackers)}, who asked."
    else:
        yield "The report does not say whose."


def _how_many(report: Row) -> Iterator[str]:
    people = [row for row in leaks.persons(report) if row["n"]]
    failed = measurements_judged(report, "fail")
    if people:
        worst = max(people, key=lambda row: row["value"])
        proven = worst["plugin"] in {m["plugin"] for m in failed} or not worst["value"]
        doubt = "" if proven else BY_CHANCE
        yield f"{_of_n(worst, worst['value'])} people are exposed{doubt}."
    else:
        yield leaks.uncounted(report)
    totals = headline_totals(report)
    for name, words in OUTCOMES.items():
        rows = [row for row in totals if attack_class(row) == name]
        rows = [row for row in rows if row["scope"].get("key") != "right" and row["n"]]
        rows = [row for row in rows if row["metric"] in COUNTS]
        if rows:
            worst = max(rows, key=lambda row: (is_one_of(row, failed), row["value"]))
            doubt = "" if is_one_of(worst, failed) or not worst["value"] else BY_CHANCE
            yield f"{_of_n(worst, _hits(worst))} {words}{doubt}."


def _hits(row: Row) -> float:
    return float(row["value"] * row["n"] if row["hits"] is None else row["hits"])


def _of_n(row: Row, count: float) -> str:
    """Return how many of n, for a sentence's start; what was computed has no hits to count.

    Of several victims it is the one of whom most came out.
    """
    counted = f"{'an expected ' if row['hits'] is None else ''}{number(count)} of {row['n']:,}"
    victim = victim_of(row)
    return f"Of {victim}: {counted}" if victim else f"{counted[0].upper()}{counted[1:]}"


def measurements_judged(report: Row, status: str) -> list[Row]:
    """Return the measurements whose judgements have this status."""
    judged = [j["measurement"] for j in judgements(report) if j["status"] == status]
    return [measurement for measurement in judged if measurement is not None]


def _which_kinds(report: Row) -> Iterator[str]:
    found, doubtful = leaks.came_out(report), leaks.doubtful_passages(report)
    if found:
        yield f"{_list(_count_kinds(found))}."
    if doubtful:
        yield from _counted(found, doubtful)
    elif not leaks.looked_for(report):
        yield leaks.NOT_LOOKED_FOR
    elif not found:
        yield "None that chance does not explain."
    yield from _protected([*found, *doubtful])
    if recognised := [f for f in leaks.told_apart(report) if leaks.special(f["label"])]:
        yield f"Recognised among other data, without coming out: {_list(_count_kinds(recognised))}."


def _count_kinds(findings: Sequence[Row]) -> list[str]:
    """Return how many strings of each kind there are, those of special kinds first."""
    found: dict[str, dict[str, float]] = {}
    for finding in findings:
        strings = found.setdefault(kind_name(finding["label"]), {})
        name = leaks.identity(finding)
        strings[name] = max(strings.get(name, 0.0), leaks.probability(finding))
    total = {name: sum(strings.values()) for name, strings in found.items()}
    texts = []
    for name in sorted(found, key=lambda name: (not leaks.special(name), -total[name], name)):
        expected = "expected" if any(p < 1 for p in found[name].values()) else ""
        remark = ", ".join(filter(None, (expected, leaks.special(name))))
        texts.append(f"{name} {number(total[name])}{f' ({remark})' if remark else ''}")
    return texts


def _counted(found: Sequence[Row], doubtful: Sequence[Row]) -> Iterator[str]:
    """Yield why fewer passages are listed than were repeated, and strings are not."""
    count = len(set(map(leaks.identity, doubtful)))
    passages = [f for f in found if f["label"] in leaks.PASSAGES]
    more = f"{count:,}{' more' if passages else ''} {'passage' if count == 1 else 'passages'}"
    yield f"{more} came out, which chance may explain one by one, though not all together."
    if len(passages) < len(found):
        yield "Strings count all together, whatever their severity, where their attack is proven."


def _protected(found: Sequence[Row]) -> Iterator[str]:
    """Yield whether what came out is of a special kind, as far as that was looked at."""
    strings = [f for f in found if f["label"] not in leaks.PASSAGES]
    is_special = any(leaks.special(f["label"]) for f in strings)
    has_passages = len(strings) < len(found)
    if strings and not is_special:
        where = "the strings" if has_passages else "them"
        yield f"None of the special kinds of GDPR 9, 10 and 87 is among {where}."
    if has_passages:
        yield "Passages were not searched for the special kinds of GDPR 9, 10 and 87."


def kind_name(label: str) -> str:
    """Return the kind of data that a label of findings stands for."""
    kind = category(label)
    return kind.name if kind else PASSAGES.get(label, label)


def _who(report: Row) -> Iterator[str]:
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in measurements_judged(report, "fail"):
        if not attack_class(row):
            continue
        plugin = str(row["plugin"])
        position = position_of(report, row)
        subject = WHO.get(position, "An attacker whose place the attack does not state")
        having = WITH.get(KNOWLEDGE.get(plugin, ""), "")
        queries = leaks.queries(report, row)
        cost = "" if queries is None else f", {number(queries)} questions"
        lines.setdefault((subject, having), {})[plugin] = f"{plugin}{cost}"
    for (subject, having), attacks in lines.items():
        yield f"{' '.join(filter(None, (subject, having)))} ({_list([*attacks.values()], '; ')})."
    doubtful = dict.fromkeys(
        str(row["plugin"]) for row in measurements_judged(report, "inconclusive")
    )
    rows = [row for row in report["measurements"] if attack_class(row)]
    tried = dict.fromkeys(str(row["plugin"]) for row in rows if row["value"] is not None)
    sources = [row for row in headline_totals(report) if is_source(row) and row["n"]]
    if doubtful:
        yield f"Not settled for {_list([*doubtful])}."
    elif not lines and tried:
        yield f"None of the attackers that were tried: {_list([*tried])}."
    elif not lines and not sources:
        unmeasured = dict.fromkeys(str(row["plugin"]) for row in rows)
        why = f"{_list([*unmeasured])} gave no number" if unmeasured else "no attack was made"
        yield f"Not known: {why}."
    for row in sources:
        guessing = "" if row["chance"] is None else f"; guessing gives {percent(row['chance'])}"
        yield (
            f"{WHO[SERVER]} ({row['plugin']}): {_of_n(row, _hits(row))} records were put down to"
            f" the client that they are of{guessing}. This is not judged."
        )


def _actions(report: Row) -> Iterator[str]:
    return (measure.action for measure in measures(report))


def _not_looked_for(report: Row) -> Iterator[str]:
    for missing in unsearched(report) or [Unsearched("", (), (), ())]:
        special = [f"{', '.join(names)} (GDPR {clause})" for clause, names in missing.special]
        rest = f"{len(missing.rest)} other kinds of personal data" if missing.rest else ""
        if texts := [*special, *filter(None, [rest])]:
            yield f"{'; '.join(texts)}."
    if not unsearched(report):
        yield "Personal data beyond what the records' annotation names."
    yield from leaks.unsearched_records(report)
    classes = [e["class"] for e in report.get("coverage", ()) if e["status"] == "not_run"]
    if classes:
        yield f"Attacks: {_list([name.replace('_', ' ') for name in classes])}."
    if "coverage" not in report:
        yield "Attacks of other classes, which fedaudit audit makes."


def _flagged(report: Row) -> Iterator[str]:
    flagged = [f["evidence"].get("client") for f in accusations(report["findings"])]
    rows = [row for row in report["measurements"] if row["kind"] == "attribution"]
    clients = {str(row["scope"]["client"]) for row in rows if "client" in row["scope"]}
    if names := sorted({str(name) for name in flagged if name is not None}):
        yield f"{_list(names)} of {len(clients):,} that were tested. A flag is evidence, not proof."
    else:
        yield f"None of {len(clients):,} that were tested."


def _list(names: list[str], separator: str = ", ") -> str:
    return separator.join(first_of(names, MOST, "{:,} more"))
