"""What a report says in words of what was tried, and what came of it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from fedaudit.report import query
from fedaudit.report.kinds.general import sentences_of
from fedaudit.report.kinds.registry import FIRST, kinds_of
from fedaudit.report.number_format import NOT_MEASURED, number, percent
from fedaudit.report.query import SETS, Row, comparable_row
from fedaudit.report.tables import grouping
from fedaudit.report.tables.attribution import attribution_sentence
from fedaudit.report.tables.extraction import group_by_search, precision

Summarizer = Callable[[str, Sequence[Row]], list[str]]
"""A function that describes the rows of one attack, given the attack's name."""

UNDER = {
    "right": "with the client's own key",
    "wrong": "with a wrong key",
    "none": "without a key",
    "other": "with another client's key",
}
"""Values of scope.key, as a sentence says under which key something was asked."""

KEYED = frozenset({"key", "adapter"})
"""Keys of the scope that distinguish the rows of one question asked under several keys."""

ONLY_RIGHT = "Nothing was asked without the right key."


def attack_summaries(report: Row) -> list[str]:
    """Return one sentence or two for each attack: what it asked and what came out."""
    attacks: tuple[tuple[Summarizer, dict[str, list[Row]]], ...] = (
        (partial(_extraction_texts, report), query.by_plugin(query.total_coverages(report))),
        (
            partial(_unprompted_texts, report),
            group_by_search(query.untargeted_rows(report, labelled=False)),
        ),
        (
            partial(_inference_texts, report),
            query.by_plugin(query.inference_rows(report, labelled=False)),
        ),
    )
    sentences = [*attribution_sentence(report), *sentences_of(FIRST, report)]
    for describe, groups in attacks:
        for name, group in groups.items():
            if (count := len(grouping.variants_of(group))) > 1:
                compared = f"on {count} variants; a table below compares them."
                sentences.append(f"The attack {name} was made {compared}")
            else:
                sentences += describe(name, group)
    others = (kind for kind in kinds_of(report) if kind not in FIRST)
    return [*sentences, *sentences_of(others, report)]


def _extraction_texts(report: Row, plugin: str, group: Sequence[Row]) -> list[str]:
    """Return what came out, on the set of targets where most did."""
    best_row = query.strongest_total(
        grouping.preferred_source_rows(group) if grouping.has_many_lines(group) else group
    )
    if best_row is None:
        return [f"The attack {plugin} gave no number."]
    subset = best_row["scope"].get("set")
    return [
        " ".join(
            (
                _attack_text(plugin, best_row),
                *_query_text(report, group, best_row),
                f"was measured on the set of targets “{SETS.get(subset, subset or 'all')}”:",
                *_came_out(group, best_row),
            )
        )
    ]


def _query_text(report: Row, group: Sequence[Row], best_row: Row) -> Iterator[str]:
    queries = query.companion_row(
        report, comparable_row(group, best_row, "tuned") or best_row, "queries"
    )
    if queries and queries["value"] is not None:
        yield f"asked the model {number(queries['value'])} questions and"


def _unprompted_texts(report: Row, name: str, group: Sequence[Row]) -> list[str]:
    """Return in words which record data the model gave without being asked for any."""
    best_row = query.strongest_total(grouping.preferred_source_rows(group))
    if best_row is None:
        return [f"The attack {name} gave no number."]
    texts = query.companion_row(
        report, comparable_row(group, best_row, "tuned") or best_row, "queries"
    )
    drew = f" and drew {number(texts['value'])} texts" if texts else ""
    asked = "asked ordinary requests" if "requests" in best_row["scope"] else "asked for nothing"
    intro = f"{_attack_text(name, best_row)} {asked}{drew}. Of the personal data in the records,"
    return [" ".join((intro, *_came_out(group, best_row), *_precise(report, best_row)))]


def _precise(report: Row, best_row: Row) -> Iterator[str]:
    row = precision(report, best_row)
    if row and row["value"] is not None and "key" not in best_row["scope"]:
        only = (
            " and its base did not" if best_row["scope"].get("source") == "tuned-not-base" else ""
        )
        yield f"Of the strings that the tuned model said{only}, {_share(row)} are in the records."


def _inference_texts(report: Row, plugin: str, group: Sequence[Row]) -> list[str]:
    tuned = [row for row in group if row["scope"].get("source") == "tuned"]
    if not any("key" in row["scope"] for row in group):
        return [_choice_text(report, plugin, group, row, f"in {_share(row)}") for row in tuned]
    first: dict[tuple[object, ...], Row] = {}
    for row in tuned:
        first.setdefault(grouping.scope_without(row, KEYED), row)
    return [
        _choice_text(report, plugin, group, row, "; ".join(_by_key(group, row, "in {}")))
        for row in first.values()
    ]


def _choice_text(report: Row, plugin: str, group: Sequence[Row], row: Row, share: str) -> str:
    guessing = query.guessing_accuracy(report, row)
    base = _share(comparable_row(group, row, "base"))
    return (
        f"{_attack_text(plugin, row)} masked personal data in sentences and offered"
        f" {row['scope'].get('candidates', 'several')}"
        f" candidates each time: the tuned model picked the true one {share}, its base in"
        f" {base}; guessing is right in {percent(guessing)}."
        f"{_only_right(group)}"
    )


def _came_out(group: Sequence[Row], best_row: Row) -> Iterator[str]:
    """Yield in words what came out of each model, under each key if there are keys."""
    base, control = (
        f"{_share(comparable_row(group, best_row, source))}" for source in ("base", "control")
    )
    guessing = f"guessing data that is in no member's records {control}."
    beyond = "the tuned model and not its base gave"
    if "key" in best_row["scope"]:
        subject = (
            beyond
            if best_row["scope"].get("source") == "tuned-not-base"
            else "the tuned model gave"
        )
        yield f"{subject} {'; '.join(_by_key(group, best_row, '{}'))};"
        yield f"its base {base}; {guessing}{_only_right(group)}"
        return
    for source, words in (
        ("tuned", "the tuned model gave"),
        ("base", "its base"),
        ("tuned-not-base", beyond),
    ):
        yield f"{words} {_share(comparable_row(group, best_row, source))};"
    yield guessing


def _by_key(group: Sequence[Row], like: Row, words: str) -> Iterator[str]:
    """Yield what was found under each key, with everything else as for `like`."""
    for row in grouping.order_rows(group):
        if grouping.scope_without(row, KEYED) == grouping.scope_without(like, KEYED):
            yield f"{_under(row)} {words.format(_share(row))}"


def _under(row: Row) -> str:
    kind = str(row["scope"].get("key"))
    adapter = row["scope"].get("adapter")
    text = UNDER.get(kind, f"with the key {kind}")
    return text if adapter is None else f"{text} for {adapter}"


def _only_right(group: Sequence[Row]) -> str:
    kinds = {str(row["scope"].get("key")) for row in group}
    return f" {ONLY_RIGHT}" if kinds == {"right"} else ""


def _attack_text(plugin: str, row: Row) -> str:
    scope = query.scope_of(row, {"key", "adapter", "detection"})
    return f"The attack {plugin}{f' ({scope})' if scope else ''}"


def _share(row: Row | None) -> str:
    if row is None or row["value"] is None:
        return NOT_MEASURED
    hits = "" if row["hits"] is None or row["n"] is None else f"{row['hits']:,} of {row['n']:,}, "
    return (
        f"{hits}{percent(row['value'])} (between {percent(row['low'])} and {percent(row['high'])})"
    )
