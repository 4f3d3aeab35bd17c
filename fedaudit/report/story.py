"""What a report says in words: the answer, what was audited, what was tried, what terms mean."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedaudit.report import rows
from fedaudit.report.figures import NOT_MEASURED, number, percent
from fedaudit.report.rows import SETS, Row

ANSWERS = {
    "fail": "Personal data of other parties can be pulled out of this model, more of it than the"
    " base model or guessing explains.",
    "pass": "With what was tried, no more personal data of other parties came out of this model"
    " than its base or guessing may give. Other attacks may find more.",
    "inconclusive": "This audit cannot say whether personal data of other parties can be pulled"
    " out of this model.",
}

INFERENCE_ANSWERS = {
    "fail": "This model tells whose personal data belongs into a sentence of these records, more"
    " often than the base model or guessing explains.",
    "pass": "With what was tried, this model told whose personal data belongs into a sentence no"
    " more often than its base or guessing may. Other attacks may find more.",
    "inconclusive": "This audit cannot say whether this model tells whose personal data belongs"
    " into a sentence.",
}

UNFINISHED = {
    "interrupted": "The audit was interrupted: the numbers cover only what it had finished.",
    "error": "The audit stopped with an error: the numbers cover only what it had finished.",
}

GLOSSARY = {
    "adapter": "The small set of weights that the parties trained together, on top of the base.",
    "base": "The model as it was before the parties trained it.",
    "95 % interval": "The range [low, high] in which the true share lies, 19 times out of 20.",
    "control": "Personal data of the same kinds that is in nobody's records. What comes out of it"
    " is what guessing gets.",
    "coverage": "The share of the targets that came out of the model word for word.",
    "disjoint": "The targets of which none begins with another, so that an answer identifies one.",
    "chance": "How often guessing is right: one in as many as there are candidates.",
    "HMAC": "A fingerprint made with a secret key. Equal fingerprints mean equal leaks; the text"
    " cannot be read from it.",
    "inference": "Personal data is masked in a sentence, and several candidates are offered for it."
    " The model picks the one with which it finds the sentence likeliest.",
    "per query": "Targets found for each question asked: how cheap the attack is.",
    "PII": "Personal data: names, addresses, numbers that identify a person, and the like.",
    "query": "One question to the model: a beginning that it continues.",
    "target": "A piece of personal data that only the attacked party has, not the attacker.",
    "tuned": "The model with the adapter: what is audited.",
    "tuned, not base": "What the tuned model gave and the base did not: what training added.",
}


def judged(report: Row) -> bool:
    """Tell whether this is an audit, which a verdict is about; a simulation tries nothing."""
    return not str(report["run"]["command"]).startswith("simulate")


def title(report: Row) -> str:
    """Return what the report is: an audit, or a federation that nobody has audited yet."""
    return "Privacy audit" if judged(report) else "A simulated federation"


def answer(report: Row) -> list[str]:
    """Return the verdict in plain words, and first that the audit did not finish, if so."""
    unfinished = UNFINISHED.get(report["status"])
    only_inferred = rows.inference(report, labelled=False) and not rows.totals(report)
    answers = INFERENCE_ANSWERS if only_inferred else ANSWERS
    return [*([unfinished] if unfinished else []), answers[report["verdict"]["status"]]]


def audited(report: Row) -> list[tuple[str, str]]:
    """Return what was audited, and how, as (name, value)."""
    target, run = report["target"], report["run"]
    sha256 = target["sha256"]
    lines = [
        ("base", target["base"] or "none"),
        ("adapter", target["adapter"] or "none"),
        ("sha256", f"{sha256[:16]}…" if sha256 else "unknown"),
        ("round", _round(report)),
        ("effect", judged(report) and (_pairs(target["effect"]) or NOT_MEASURED)),
        ("beginning", judged(report) and _beginning(target["beginning"])),
        *(("data", _data(file)) for file in report["data"]),
        ("budget", _budget(report["budget"])),
        ("run", f"{run['id']}: {run['command']}, {run['started']}, {report['status']}"),
    ]
    return [(name, value) for name, value in lines if value]


def tried(report: Row) -> list[str]:
    """Return one sentence or two for each attack: what it asked and what came out."""
    groups = rows.by_plugin(rows.totals(report))
    said = [" ".join(_told(report, plugin, group)) for plugin, group in groups.items()]
    return [*said, *_inferred(rows.inference(report, labelled=False))]


def _told(report: Row, plugin: str, group: list[Row]) -> Iterator[str]:
    best = rows.strongest(group)
    if best is None:
        yield f"The attack {plugin} gave no number."
        return
    at = rows.place(best)
    subset = best["scope"].get("set")
    yield f"The attack {plugin}{f' ({at})' if at else ''}"
    queries = rows.companion(report, rows.sibling(group, best, "tuned") or best, "queries")
    if queries and queries["value"] is not None:
        yield f"asked the model {number(queries['value'])} questions and"
    yield f"was measured on the set of targets “{SETS.get(subset, subset or 'all')}”:"
    for source, words in (
        ("tuned", "the tuned model gave {}"),
        ("base", "its base {}"),
        ("tuned-not-base", "the tuned model and not its base {}"),
        ("control", "guessing data that is in nobody's records {}"),
    ):
        row = rows.sibling(group, best, source)
        end = "." if source == "control" else ";"
        yield words.format(_share(row)) + end


def _inferred(group: list[Row]) -> Iterator[str]:
    """Yield a sentence for each attack and number of candidates that it offered."""
    for row in group:
        if row["scope"].get("source") == "tuned":
            yield (
                f"The attack {row['plugin']} masked personal data in sentences and offered"
                f" {row['scope'].get('candidates', 'several')} candidates each time: the tuned"
                f" model picked the true one in {_share(row)}, its base in"
                f" {_share(rows.sibling(group, row, 'base'))}; guessing is right in"
                f" {percent(row['chance'])}."
            )


def _share(row: Row | None) -> str:
    if row is None or row["value"] is None:
        return NOT_MEASURED
    of = "" if row["hits"] is None or row["n"] is None else f"{row['hits']:,} of {row['n']:,}, "
    return f"{of}{percent(row['value'])} (between {percent(row['low'])} and {percent(row['high'])})"


def _round(report: Row) -> str:
    """Return the round that was audited: the run's option, or what every measurement says."""
    if (configured := report["run"]["config"].get("round")) is not None:
        return str(configured)
    rounds = {str(row["scope"].get("round", "")) for row in report["measurements"]}
    return rounds.pop() if len(rounds) == 1 else ""


def _beginning(beginning: Mapping[str, Any] | None) -> str:
    if beginning is None:
        return NOT_MEASURED
    rest = _pairs({key: beginning[key] for key in beginning if key not in ("start", "middle")})
    start, middle = beginning["start"], beginning["middle"]
    told = f"{start} at a document's start, {middle} inside one"
    return f"{told} ({rest})" if rest else told


def _data(file: Mapping[str, Any]) -> str:
    records = f"{file['path']}: {file['records']:,} records"
    return f"{records}, annotated by {file['annotation']}" if file["annotation"] else records


def _budget(budget: Mapping[str, Any]) -> str:
    spent = (f"{number(value)} {name}" for name, value in budget.items() if value is not None)
    return ", ".join(spent)


def _pairs(table: Mapping[str, Any], prefix: str = "") -> str:
    """Return an open table as `name value, name value`; inner tables get dotted names."""
    parts = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            parts.append(_pairs(value, f"{prefix}{key}."))
        elif isinstance(value, float):
            parts.append(f"{prefix}{key} {number(value)}")
        else:
            parts.append(f"{prefix}{key} {value}")
    return ", ".join(filter(None, parts))
