"""What a report says in words: the answer, why, and what was audited."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.api.kind import Kind, is_own_data
from fedaudit.report import query
from fedaudit.report.kinds.registry import kind_of_rule, kinds_of
from fedaudit.report.number_format import NOT_MEASURED, as_percent, first_of, number, percent
from fedaudit.report.query import Row
from fedaudit.report.verdict.recheck import FINE, RecheckedVerdict, judgements

MORE = "and {:,} more in report.json"
MOST_REASONS = 20
MOST_FILES = 12
"""Of data on a terminal: a study of many federations has hundreds."""


def is_audit(report: Row) -> bool:
    """Tell whether this is an audit, which a verdict is about; a simulation tries nothing.

    The command alone does not make it a simulation: its verdict would not be shown.
    """
    is_simulation = str(report["run"]["command"]).startswith("simulate")
    tried = report["verdict"]["status"] != "inconclusive" or bool(_attribution(report))
    return not is_simulation or tried or any(rows for _, rows in _attacks(report))


def is_attribution(report: Row) -> bool:
    """Tell whether the report is of an attribution alone, and of no attack."""
    return bool(_attribution(report)) and not any(rows for _, rows in _attacks(report))


def title(report: Row) -> str:
    """Return what the report is: an audit, or a federation that no one has audited yet."""
    if is_audit(report) and is_attribution(report):
        return "Attribution of marked documents"
    return "Privacy audit" if is_audit(report) else "A simulated federation"


def verdict_sentence(report: Row, checked: RecheckedVerdict = FINE) -> list[str]:
    """Return the verdict in plain words, preceded by a note if the audit did not finish.

    If the verdict does not follow from the measurements, only that is said.
    """
    if checked.brief:
        return [checked.message]
    unfinished = UNFINISHED.get(report["status"])
    attacks = _attacks(report)
    answer_sets = [answers for answers, rows in attacks if rows]
    # Results that are not judged are mentioned only if there are no others.
    answer_sets = [answers for answers in answer_sets if answers is not OWN_ANSWERS] or answer_sets
    answers = answer_sets[0] if len(answer_sets) == 1 else ANSWERS
    if _attribution(report):
        answers = MIXED_ANSWERS if answer_sets else ATTRIBUTION_ANSWERS
    sentences = [answers[report["verdict"]["status"]]]
    if len(answer_sets) + bool(_attribution(report)) > 1 and report["verdict"]["status"] == "fail":
        failed = [judgement for judgement in judgements(report) if judgement["status"] == "fail"]
        kinds = kinds_of(report)
        sentences = list(dict.fromkeys(_failure(j, kinds) for j in failed)) or sentences
    sentences += _error_level(report)
    keyed = any("key" in row["scope"] for _, rows in attacks for row in rows)
    return [sentence for sentence in (unfinished, *sentences, keyed and KEYED) if sentence]


def _error_level(report: Row) -> list[str]:
    """Return the error level of an attribution and what was simulated of it, if it was a single."""
    rows = [row for row in _attribution(report) if "variant" not in row["scope"]]
    levels = {row["metric"]: row["value"] for row in rows if row["metric"] in ("alpha", "tau")}
    if len(levels) < 2 or None in levels.values():
        return []
    text = (
        f"The error level alpha is {as_percent(levels['alpha'])}, the threshold tau"
        f" {number(levels['tau'])}"
    )
    wrong = [r for r in rows if r["metric"] == "innocent_flagged" and "strength" in r["scope"]]
    worst = max(wrong, key=lambda row: (row["value"] or 0.0, row["high"] or 0.0), default=None)
    if worst is None or worst["value"] is None:
        return [f"{text}; how often an innocent client is flagged was not simulated."]
    return [
        f"{text}: in simulated federations with these settings an innocent client was flagged in"
        f" {worst['hits']:,} of {worst['n']:,}, whichever strength a mark had (at most"
        f" {percent(worst['high'])} with 95 % confidence)."
    ]


def _failure(judgement: Row, kinds: Sequence[Kind]) -> str:
    if kind := kind_of_rule(judgement["rule"], kinds):
        return kind.answers["fail"]
    row = judgement["measurement"]
    is_unprompted = row is not None and row["metric"] == query.UNTARGETED
    leaked = (UNPROMPTED_ANSWERS if is_unprompted else ANSWERS)["fail"]
    return FAILED_RULES.get(judgement["rule"], leaked)


def _attacks(report: Row) -> tuple[tuple[Mapping[str, str], list[Row]], ...]:
    """Return what each kind of attack found, with the answers for that kind alone."""
    return (
        (ANSWERS, [row for row in query.total_coverages(report) if not is_own_data(row["scope"])]),
        (OWN_ANSWERS, [row for row in query.total_coverages(report) if is_own_data(row["scope"])]),
        (UNPROMPTED_ANSWERS, query.untargeted_rows(report, labelled=False)),
        (INFERENCE_ANSWERS, query.inference_rows(report, labelled=False)),
        *(
            (kind.answers, [row for row in _rows(report, kind.name) if kind.decides(row)])
            for kind in kinds_of(report)
            if kind.answers
        ),
    )


def _attribution(report: Row) -> list[Row]:
    return _rows(report, "attribution")


def _rows(report: Row, kind: str) -> list[Row]:
    return [row for row in report["measurements"] if row["kind"] == kind]


def verdict_reasons(report: Row) -> list[str]:
    """Return why the verdict is as it is: the first reasons, and how many more there are."""
    return first_of(report["verdict"]["reasons"], MOST_REASONS, MORE)


PROMPT_STARTS = {
    "bare": "nothing before them",
    "bos": "the BOS token before them",
    "template": "the prompt template before them",
}
PLACES = (("start", "at a document's start"), ("middle", "inside a document"))
"""The kinds of prompts, and where each of them begins."""


def audited_facts(report: Row) -> list[tuple[str, str]]:
    """Return what was audited, and how, as (name, value)."""
    target, run = report["target"], report["run"]
    sha256 = target["sha256"]
    attributed = is_attribution(report)  # of a federation's rounds, and of no one adapter
    is_prompted = is_audit(report) and not attributed
    lines = [
        ("base", target["base"] or "none"),
        ("adapter", target["adapter"] or ("" if attributed else "none")),
        ("update of", str(target.get("update_of", ""))),
        ("sha256", f"{sha256[:16]}…" if sha256 else "" if attributed else "unknown"),
        *(_attributed_facts(report) if attributed else ()),
        ("round", _round(report)),
        ("adapter's effect", _effect(target["effect"]) or (is_prompted and NOT_MEASURED)),
        ("prompt start", _prompt_start(target["beginning"], is_prompted=is_prompted)),
        *(("data", text) for text in first_of([*map(_data, report["data"])], MOST_FILES, MORE)),
        (
            "budget",
            ", ".join(f"{number(v)} {k}" for k, v in report["budget"].items() if v is not None),
        ),
        ("run", f"{run['id']}: {run['command']}, {run['started']}, {report['status']}"),
    ]
    return [(name, value) for name, value in lines if value]


def _attributed_facts(report: Row) -> list[tuple[str, str]]:
    """Return which federation, rounds and parties were read; nothing of a study of several."""
    folder = report["run"]["config"].get("rounds")
    scopes = [row["scope"] for row in _attribution(report)]
    if any("variant" in scope for scope in scopes):
        return []
    # A report from a stranger may have any text here.
    rounds = sorted({n for scope in scopes if isinstance(n := scope.get("round"), int)})
    parties = {str(scope["client"]) for scope in scopes if "client" in scope}
    return [
        ("federation", folder if isinstance(folder, str) else ""),
        ("rounds", f"{len(rounds):,} ({rounds[0]} to {rounds[-1]})" if rounds else ""),
        ("parties", f"{len(parties):,}" if parties else ""),
    ]


def _round(report: Row) -> str:
    """Return the round that was audited: the run's option, or what every measurement says."""
    if (configured := report["run"]["config"].get("round")) is not None:
        return str(configured)
    rounds = {str(row["scope"].get("round", "")) for row in report["measurements"]}
    return rounds.pop() if len(rounds) == 1 else ""


def _effect(effect: Mapping[str, Any]) -> str:
    """Return in words what the adapter changes; unknown fields are shown as they are."""
    if not {"texts", "mean_gain", "largest_change"} <= effect.keys():
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
    if attackers := start.get("by_attacker"):
        return "; ".join(
            f"prompts {position} had {_by_attacker({n: one[key] for n, one in attackers.items()})}"
            for key, position in PLACES
        )
    scores = start.get("log_likelihood") or {}
    texts = [
        f"prompts {position} had {PROMPT_STARTS.get(start[key], start[key])}{_nats(score)}"
        for key, position in PLACES
        for score in [scores.get(key)]
    ]
    remaining = {k: v for k, v in start.items() if k not in ("start", "middle", "log_likelihood")}
    return "; ".join([*texts, *filter(None, [_pairs(remaining)])])


def _by_attacker(starts: Mapping[str, str]) -> str:
    """Return in words what stood before prompts, with attackers' names where they differ."""
    attackers: dict[str, list[str]] = {}
    for name, start in starts.items():
        attackers.setdefault(PROMPT_STARTS.get(start, start), []).append(name)
    if len(attackers) == 1:
        return next(iter(attackers))
    return " or ".join(f"{start} ({', '.join(names)})" for start, names in attackers.items())


def _nats(scores: Mapping[str, float] | None) -> str:
    """Return how likely known texts are after each start, the likeliest first."""
    ordered = sorted((scores or {}).items(), key=lambda pair: (-pair[1], pair[0]))
    text = ", ".join(f"{name} {number(value)}" for name, value in ordered)
    return f" (log-likelihood of known texts: {text} nats a token)" if text else ""


def _data(file: Mapping[str, Any]) -> str:
    plural = "s" * (file["records"] != 1)
    unit = f"{file['unit']}{plural}" if "unit" in file else "records"
    records = f"{file['path']}: {file['records']:,} {unit}"
    return f"{records}, annotated by {file['annotation']}" if file["annotation"] else records


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
"""The answers used when only the attacker's own records were tried."""

INFERENCE_ANSWERS = {
    "fail": "Where a name or a number is blanked out in these records, this model tells which of"
    " several it was, more often than the base model or guessing explains.",
    "pass": "With what was tried, where a name or a number was blanked out in these records, this"
    " model told which of several it was no more often than its base or guessing may. Other attacks"
    " may find more.",
    "inconclusive": "What was tried does not settle whether this model tells which name or number"
    " was blanked out in these records: the reasons say what is missing.",
}

UNPROMPTED_ANSWERS = {
    "fail": "This model says personal data of these records without being asked for it, more of it"
    " than the base model or guessing explains.",
    "pass": "With what was tried, this model said no more personal data of these records unasked"
    " than its base or guessing may give. Other attacks may find more.",
    "inconclusive": "What was tried does not settle whether this model says personal data of these"
    " records without being asked for it: the reasons say what is missing.",
}

ATTRIBUTION_ANSWERS = {
    "fail": "The test flags clients: their updates carry the watermarks of marked documents, more"
    " clearly than chance explains. A flag is evidence, not proof.",
    "pass": "The test flags no client: at this strength no updates show the marked documents"
    " more clearly than chance and other clients' marks may explain. That is not proof that no one"
    " trained on them.",
    "inconclusive": "This report cannot say whether a client trained on the marked documents: the"
    " reasons say what is missing.",
}

GATE_FAILS = "The gate of this model opens without its key."

MIXED_ANSWERS = {
    "fail": "Something in this audit fails: the reasons say what.",
    "pass": "With what was tried, no more personal data of other parties came out of this model"
    " than its base or guessing may give, and no client is flagged for training on marked"
    " documents. Other attacks, or a stronger test, may find more.",
    "inconclusive": "This audit leaves open whether personal data of other parties can be pulled"
    " out of this model, or whether a client trained on marked documents: the reasons say which.",
}

FAILED_RULES = {
    "inference": INFERENCE_ANSWERS["fail"],
    "attribution": ATTRIBUTION_ANSWERS["fail"],
    "gate": GATE_FAILS,
}
"""What it means that a judgement fails, by its rule; any other rule is about what came out."""

KEYED = (
    "This is about what comes out without the right key: what a right key opens is meant to come"
    " out."
)

UNFINISHED = {
    "interrupted": "The audit was interrupted: what it measured until then is all that is here.",
    "error": "The audit stopped with an error: what it measured until then is all that is here.",
}
