"""What a report says in words: the answer, why, and what was audited."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.report import query
from fedaudit.report.number_format import NOT_MEASURED, number
from fedaudit.report.query import Row
from fedaudit.report.verdict.policy import is_own_data
from fedaudit.report.verdict.recheck import FINE, RecheckedVerdict

MOST_REASONS = 20
MOST_FILES = 12
"""Of data on a terminal: a study of many federations has hundreds."""

ANSWERS = {
    "fail": "Personal data of other parties can be pulled out of this model, more of it than the"
    " base model or guessing explains.",
    "pass": "With what was tried, no more personal data of other parties came out of this model"
    " than its base or guessing may give. Other attacks may find more.",
    "inconclusive": "What was tried does not settle whether personal data of other parties can be"
    " pulled out of this model: the reasons say what is missing.",
}

OWN_ANSWERS = ANSWERS | {
    "inconclusive": "No victim was named: whether personal data of other parties can be pulled out"
    " of this model was not judged. The numbers tell how well it knows the attacker's own records.",
}
"""Where nothing but the attacker's own records was tried."""

INFERENCE_ANSWERS = {
    "fail": "This model tells whose personal data belongs into a sentence of these records, more"
    " often than the base model or guessing explains.",
    "pass": "With what was tried, this model told whose personal data belongs into a sentence no"
    " more often than its base or guessing may. Other attacks may find more.",
    "inconclusive": "What was tried does not settle whether this model tells whose personal data"
    " belongs into a sentence: the reasons say what is missing.",
}

UNPROMPTED_ANSWERS = {
    "fail": "This model says personal data of these records when nobody asks for it, more of it"
    " than the base model or guessing explains.",
    "pass": "With what was tried, this model said no more personal data of these records unasked"
    " than its base or guessing may give. Other attacks may find more.",
    "inconclusive": "What was tried does not settle whether this model says personal data of these"
    " records when nobody asks for it: the reasons say what is missing.",
}

ATTRIBUTION_ANSWERS = {
    "fail": "The test flags clients: their updates carry the watermarks of marked documents, more"
    " clearly than chance explains. A flag is evidence, not proof.",
    "pass": "The test flags no client: at this strength nobody's updates show the marked documents"
    " more clearly than chance and other clients' marks may explain. That is no proof that nobody"
    " trained on them.",
    "inconclusive": "This report cannot say whether a client trained on the marked documents.",
}

MEMORIZATION_ANSWERS = {
    "fail": "With one client's text before it, this model writes what is in another client's texts,"
    " more often than its base does.",
    "pass": "With what was tried, no client's text made this model write what is in another"
    " client's more often than its base may. Other prompts may draw more.",
    "inconclusive": "What was tried does not settle whether one client's text makes this model"
    " write what is in another client's: the reasons say what is missing.",
}

EXPOSURE_ANSWERS = {
    "fail": "Training gave planted secrets away: this model finds them likelier than secrets of the"
    " same kind that nobody was given. Real records of the kind are at the same risk.",
    "pass": "With what was planted, this model finds secrets that clients were given no likelier"
    " than secrets that nobody was. Others, or more of them, may show more.",
    "inconclusive": "What was planted does not settle whether training gives secrets of this kind"
    " away: the reasons say what is missing.",
}

MEMBERSHIP_ANSWERS = {
    "fail": "Records that this model was tuned on can be told from records like them that it was"
    " not tuned on: whoever has a record can see whether it was used.",
    "pass": "With these scores, records that this model was tuned on could not be told from others."
    " Better attacks may tell more.",
    "inconclusive": "Whether records that this model was tuned on can be told from others is not"
    " settled: the reasons say what is missing.",
}

EPSILON_ANSWERS = {
    "fail": "The claim of differential privacy is refuted: this model tells more of single"
    " documents than the claimed epsilon allows. Something in training is not as claimed.",
    "pass": "The claim of differential privacy is not refuted, by an audit that refutes it of the"
    " same training without noise. That does not make it true.",
    "inconclusive": "The claim of differential privacy is neither refuted nor tested by an audit"
    " with the power to refute it: the reasons say what is missing.",
}

MIXED_ANSWERS = {
    "fail": "Personal data of other parties can be pulled out of this model, or clients are flagged"
    " for training on marked documents: the reasons say which.",
    "pass": "With what was tried, no more personal data of other parties came out of this model"
    " than its base or guessing may give, and no client is flagged for training on marked"
    " documents. Other attacks, or a stronger test, may find more.",
    "inconclusive": "This audit leaves open whether personal data of other parties can be pulled"
    " out of this model, or whether a client trained on marked documents: the reasons say which.",
}

KEYED = (
    "This is about what comes out without the right key: what a right key opens is meant to come"
    " out."
)

UNFINISHED = {
    "interrupted": "The audit was interrupted: the numbers cover only what it had finished.",
    "error": "The audit stopped with an error: the numbers cover only what it had finished.",
}


def is_audit(report: Row) -> bool:
    """Tell whether this is an audit, which a verdict is about; a simulation tries nothing."""
    return not str(report["run"]["command"]).startswith("simulate")


def is_attribution(report: Row) -> bool:
    """Tell whether the report is of an attribution alone, and of no attack."""
    return bool(_attribution(report)) and not any(rows for _, rows in _attacks(report))


def title(report: Row) -> str:
    """Return what the report is: an audit, or a federation that nobody has audited yet."""
    if is_audit(report) and is_attribution(report):
        return "Attribution of marked documents"
    return "Privacy audit" if is_audit(report) else "A simulated federation"


def verdict_sentence(report: Row, checked: RecheckedVerdict = FINE) -> list[str]:
    """Return the verdict in plain words, and first that the audit did not finish, if so.

    If the verdict does not follow from the measurements, that is said instead.
    """
    if checked.brief:
        return [checked.message]
    unfinished = UNFINISHED.get(report["status"])
    attacks = _attacks(report)
    answer_sets = [answers for answers, rows in attacks if rows]
    # What is not judged is mentioned only where it is all that there is.
    answer_sets = [answers for answers in answer_sets if answers is not OWN_ANSWERS] or answer_sets
    answers = answer_sets[0] if len(answer_sets) == 1 else ANSWERS
    if _attribution(report):
        answers = MIXED_ANSWERS if answer_sets else ATTRIBUTION_ANSWERS
    keyed = any("key" in row["scope"] for _, rows in attacks for row in rows)
    sentences = (unfinished, answers[report["verdict"]["status"]], keyed and KEYED)
    return [sentence for sentence in sentences if sentence]


def _attacks(report: Row) -> tuple[tuple[Mapping[str, str], list[Row]], ...]:
    """Return what each kind of attack found, with the answers that are about it alone."""
    return (
        (ANSWERS, [row for row in query.total_coverages(report) if not is_own_data(row["scope"])]),
        (OWN_ANSWERS, [row for row in query.total_coverages(report) if is_own_data(row["scope"])]),
        (UNPROMPTED_ANSWERS, query.untargeted_rows(report, labelled=False)),
        (INFERENCE_ANSWERS, query.inference_rows(report, labelled=False)),
        (MEMORIZATION_ANSWERS, [r for r in report["measurements"] if r["kind"] == "memorization"]),
        (EXPOSURE_ANSWERS, [r for r in report["measurements"] if r["kind"] == "exposure"]),
        (MEMBERSHIP_ANSWERS, [r for r in report["measurements"] if _is_judged_membership(r)]),
        (EPSILON_ANSWERS, [r for r in report["measurements"] if r["kind"] == "epsilon"]),
    )


def _is_judged_membership(row: Row) -> bool:
    scope = row["scope"]
    return row["kind"] == "membership" and row["metric"] == "p_value" and "test" in scope


def _attribution(report: Row) -> list[Row]:
    return [row for row in report["measurements"] if row["kind"] == "attribution"]


def verdict_reasons(report: Row) -> list[str]:
    """Return why the verdict is as it is: the first reasons, and how many more there are."""
    reasons = list(report["verdict"]["reasons"])
    remaining = len(reasons) - MOST_REASONS
    return [
        *reasons[:MOST_REASONS],
        *([f"and {remaining:,} more in report.json"] if remaining > 0 else []),
    ]


PROMPT_STARTS = {
    "bare": "nothing before the prompt",
    "bos": "the BOS token before the prompt",
    "template": "the prompt template before the prompt",
}


def audited_facts(report: Row) -> list[tuple[str, str]]:
    """Return what was audited, and how, as (name, value)."""
    target, run = report["target"], report["run"]
    sha256 = target["sha256"]
    attributed = is_attribution(report)  # of a federation's rounds, and of no one adapter
    is_prompted = is_audit(report) and not attributed
    lines = [
        ("base", target["base"] or "none"),
        ("adapter", target["adapter"] or ("" if attributed else "none")),
        ("sha256", f"{sha256[:16]}…" if sha256 else "" if attributed else "unknown"),
        *(_attributed_facts(report) if attributed else ()),
        ("round", _round(report)),
        ("adapter's effect", _effect(target["effect"]) or (is_prompted and NOT_MEASURED)),
        ("prompt start", _prompt_start(target["beginning"], is_prompted=is_prompted)),
        *(("data", text) for text in _data_files(report["data"])),
        ("budget", _budget(report["budget"])),
        ("run", f"{run['id']}: {run['command']}, {run['started']}, {report['status']}"),
    ]
    return [(name, value) for name, value in lines if value]


def _attributed_facts(report: Row) -> list[tuple[str, str]]:
    """Return which federation, rounds and parties were read; nothing of a study of several."""
    folder = report["run"]["config"].get("rounds")
    scopes = [row["scope"] for row in _attribution(report)]
    if any("variant" in scope for scope in scopes):
        return []
    # A stranger's report may have any text there.
    rounds = sorted({n for scope in scopes if isinstance(n := scope.get("round"), int)})
    parties = {str(scope["client"]) for scope in scopes if "client" in scope}
    return [
        ("federation", folder if isinstance(folder, str) else ""),
        ("rounds", f"{len(rounds):,} ({rounds[0]} to {rounds[-1]})" if rounds else ""),
        ("parties", f"{len(parties):,}" if parties else ""),
    ]


def _data_files(files: Sequence[Row]) -> list[str]:
    """Return the first files of data, and how many more there are."""
    remaining = len(files) - MOST_FILES
    return [
        *(_data(file) for file in files[:MOST_FILES]),
        *([f"and {remaining:,} more in report.json"] if remaining > 0 else []),
    ]


def _round(report: Row) -> str:
    """Return the round that was audited: the run's option, or what every measurement says."""
    if (configured := report["run"]["config"].get("round")) is not None:
        return str(configured)
    rounds = {str(row["scope"].get("round", "")) for row in report["measurements"]}
    return rounds.pop() if len(rounds) == 1 else ""


def _effect(effect: Mapping[str, Any]) -> str:
    """Return in words what the adapter changes; unknown fields are shown as they are."""
    if effect.keys() != {"texts", "mean_gain", "largest_change"}:
        return _pairs(effect)
    gain = effect["mean_gain"]
    return (
        f"{number(effect['texts'])} known texts are {number(abs(gain))} nats a token"
        f" {'likelier' if gain >= 0 else 'less likely'} with the adapter; one token changes by up"
        f" to {number(effect['largest_change'])}"
    )


def _prompt_start(start: Mapping[str, Any] | None, *, is_prompted: bool) -> str:
    """Return in words what stood before prompts, and how likely known texts are after it."""
    if start is None:
        return NOT_MEASURED if is_prompted else ""
    scores = start.get("log_likelihood") or {}
    places = (("start", "at a document's start"), ("middle", "inside one"))
    texts = [
        f"{position}, {PROMPT_STARTS.get(start[key], start[key])}{_nats(scores.get(key))}"
        for key, position in places
    ]
    remaining = {k: v for k, v in start.items() if k not in ("start", "middle", "log_likelihood")}
    return "; ".join([*texts, *filter(None, [_pairs(remaining)])])


def _nats(scores: Mapping[str, float] | None) -> str:
    """Return how likely known texts are after each start, the likeliest first."""
    ordered = sorted((scores or {}).items(), key=lambda pair: (-pair[1], pair[0]))
    text = ", ".join(f"{name} {number(value)}" for name, value in ordered)
    return f" ({text} nats a token)" if text else ""


def _data(file: Mapping[str, Any]) -> str:
    plural = "s" * (file["records"] != 1)
    unit = f"{file['unit']}{plural}" if "unit" in file else "records"
    records = f"{file['path']}: {file['records']:,} {unit}"
    return f"{records}, annotated by {file['annotation']}" if file["annotation"] else records


def _budget(budget: Mapping[str, Any]) -> str:
    amounts = (f"{number(value)} {name}" for name, value in budget.items() if value is not None)
    return ", ".join(amounts)


def _pairs(table: Mapping[str, Any], prefix: str = "") -> str:
    """Return an open table as `name value, name value`; inner tables get dotted names."""
    pairs = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            pairs.append(_pairs(value, f"{prefix}{key}."))
        elif isinstance(value, float):
            pairs.append(f"{prefix}{key} {number(value)}")
        else:
            pairs.append(f"{prefix}{key} {value}")
    return ", ".join(filter(None, pairs))
