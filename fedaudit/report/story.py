"""What a report says in words: the answer, why, and what was audited."""

from collections.abc import Mapping
from typing import Any

from fedaudit.report import rows
from fedaudit.report.figures import NOT_MEASURED, number
from fedaudit.report.rows import Row

MOST_REASONS = 20

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

UNPROMPTED_ANSWERS = {
    "fail": "This model says personal data of these records when nobody asks for it, more of it"
    " than the base model or guessing explains.",
    "pass": "With what was tried, this model said no more personal data of these records unasked"
    " than its base or guessing may give. Other attacks may find more.",
    "inconclusive": "This audit cannot say whether this model says personal data of these records"
    " when nobody asks for it.",
}

KEYED = (
    "This is about what comes out without the right key: what a right key opens is meant to come"
    " out."
)

UNFINISHED = {
    "interrupted": "The audit was interrupted: the numbers cover only what it had finished.",
    "error": "The audit stopped with an error: the numbers cover only what it had finished.",
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
    found = (
        (ANSWERS, rows.totals(report)),
        (UNPROMPTED_ANSWERS, rows.unprompted(report, labelled=False)),
        (INFERENCE_ANSWERS, rows.inference(report, labelled=False)),
    )
    tried = [answers for answers, some in found if some]
    answers = tried[0] if len(tried) == 1 else ANSWERS
    keyed = any("key" in row["scope"] for _, some in found for row in some)
    sentences = (unfinished, answers[report["verdict"]["status"]], keyed and KEYED)
    return [sentence for sentence in sentences if sentence]


def reasons(report: Row) -> list[str]:
    """Return why the verdict is as it is: the first reasons, and how many more there are."""
    given = list(report["verdict"]["reasons"])
    more = len(given) - MOST_REASONS
    return [*given[:MOST_REASONS], *([f"and {more:,} more in report.json"] if more > 0 else [])]


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
