"""The twenty questions that assessors of data protection ask, each with its source and answer.

They are drawn from EDPB Opinion 28/2024 (its paragraphs are named), NIST AI 100-2 and SP 800-226,
and the documentation duties of the AI Act's code of practice for general-purpose models. Answers
are what the run, its context and its coverage state, and what was measured.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, NamedTuple

from fedaudit.api.kind import Answer, Kind, Question
from fedaudit.report import query
from fedaudit.report.checklist import leaks
from fedaudit.report.checklist.answer import (
    MOST_ROWS,
    measured_rows,
    missing_reason,
    result,
    results_text,
)
from fedaudit.report.checklist.attackers import DECLARED, attack_class, headline_totals, unmeasured
from fedaudit.report.kinds.epsilon import Epsilon
from fedaudit.report.kinds.exposure import Exposure
from fedaudit.report.kinds.forget import AFTER, Forget
from fedaudit.report.kinds.general import answer_of
from fedaudit.report.kinds.membership import Membership
from fedaudit.report.kinds.registry import kinds_of
from fedaudit.report.kinds.watch import Watch
from fedaudit.report.number_format import format_rate, number
from fedaudit.report.query import Row
from fedaudit.report.tables.evidence import detectable_text
from fedaudit.report.tables.extraction import leaking_answer_rows
from fedaudit.report.verdict.attribution import accusations
from fedaudit.report.verdict.recheck import judgements

NO_COVERAGE = "The report has no coverage: it is of one attack, not of `fedaudit audit`."
FOUND = "The verdict is fail: how small a leak would have been missed is not the question."
RESISTANCE = (
    "What was tried is evidence about these attacks only. It is not a finding that the model "
    "holds no"
    " personal data, and none about what the law calls it."
)


def model(report: Row) -> Answer:
    """Answer which model exactly was audited."""
    target = report["target"]
    texts = [f"Base {target['base'] or 'unknown'}: {_digest(target.get('base_sha256'))}."]
    if target["adapter"]:
        texts.append(f"Adapter {target['adapter']}: {_digest(target['sha256'])}.")
    has_digests = target["sha256"] and (target.get("base_sha256") or not target["adapter"])
    if not target["adapter"]:
        texts = [f"Model {target['base'] or 'unknown'}: {_digest(target['sha256'])}."]
    if has_digests:
        return Answer("answered", " ".join(texts))
    return Answer("in part" if target["sha256"] else "open", " ".join(texts))


def _digest(digest: str | None) -> str:
    return f"SHA-256 {digest}" if digest else "no digest"


def release(report: Row) -> Answer:
    """Answer to whom the model is released, as declared by a person."""
    context = report.get("context") or {}
    if not context.get("release"):
        return Answer("open", "It was not declared: fedaudit audit --release.")
    declared_by = context["declared_by"]
    text = f"Declared: {context['release']}, by {declared_by or 'someone who is not named'}."
    return Answer("answered" if declared_by else "in part", text)


def attacks(report: Row) -> Answer:
    """Answer which of the six classes of attacks were run, and why not the others."""
    if "coverage" not in report:
        return Answer("open", NO_COVERAGE)
    texts = []
    for entry in report["coverage"]:
        name = entry["class"].replace("_", " ")
        detail = f"by {', '.join(entry['by'])}" if entry["by"] else entry["reason"].rstrip(".")
        texts.append(
            f"{name}: {entry['status'].replace('_', ' ')}" + (f", {detail}" if detail else "")
        )
    return Answer("answered", "; ".join(texts) + ".")


def attackers(report: Row) -> Answer:
    """Answer who the attacker is, with what access and knowledge."""
    rows = headline_totals(report)
    if not rows:
        return Answer("open", "Nothing was measured from any attacker's position.")
    missing = unmeasured(report)
    positions = (report.get("context") or {}).get("positions") or list(DECLARED)
    gaps = [DECLARED[p] for p in positions if DECLARED[p] in missing]
    text = "The table of attackers says it of each attack."
    if missing:
        text += f" Not measured: {', '.join(missing)}."
    return Answer("in part" if gaps else "answered", text, tuple(rows))


def repeatable(report: Row) -> Answer:
    """Answer whether the tests were frequent, independent and can be repeated."""
    run, versions = report["run"], report["environment"]["versions"]
    seeds = ", ".join(f"{name} {value}" for name, value in report["seeds"].items()) or "none"
    return Answer(
        "in part",
        f"Run {run['id']} of fedaudit {versions.get('fedaudit', 'of an unknown version')}, "
        f"{run['started']} to {run['finished'] or 'no end'}; seeds: {seeds}. The options are in"
        " run.config, so that it can be repeated. One run: how far another seed differs, and who"
        " ran it, it does not say.",
    )


def zero(report: Row) -> Answer:
    """Answer what finding nothing means: upper bounds, and the smallest leak that would be seen."""
    rate = report["verdict"].get("detectable")
    none = [row for row in headline_totals(report) if row["hits"] == 0 and row["high"] is not None]
    texts = [f"{row['plugin']}: {result(row)}." for row in none]
    if rate is None:
        texts.append("The report does not say how small a leak would have been seen.")
        return Answer("in part" if none else "open", " ".join(texts), tuple(none))
    texts.append(detectable_text(report) or FOUND)
    answered = rate < 1 or texts[-1] == FOUND
    return Answer("answered" if answered else "in part", " ".join(texts), tuple(none))


def remains(report: Row) -> Answer:
    """Answer what remains: what was not measured, and what no test can show."""
    missing = [
        entry["class"].replace("_", " ")
        for entry in report.get("coverage", ())
        if entry["status"] == "not_run"
    ]
    text = f"Not run: {', '.join(missing)}. " if missing else ""
    limits = len(report["limits"])
    return Answer("answered", f"{text}{limits:,} limits are listed below. {RESISTANCE}")


def direct(report: Row) -> Answer:
    """Answer how likely direct extraction is, for the person most at risk."""
    people = leaks.persons(report)
    rows = _of_class(report, "exfiltration")
    if not rows and not people:
        return Answer("open", "No extraction gave a number.")
    exact = [r for r in (*rows, *people) if r["scope"].get("estimator") == "exact"]
    most = [r for r in report["measurements"] if r["metric"] == "most_kinds" and r["value"]]
    text = results_text([*rows, *people])
    if most:
        worst = max(row["value"] for row in most)
        text += f" The most exposed person is exposed through {number(worst)} kinds of data."
    if exact:
        return Answer("answered", f"Computed, not sampled. {text}", (*rows, *people))
    return Answer(
        "in part",
        f"Sampled: {text} The chance of each string by itself, which `--estimator exact` computes,"
        " is not in this report; a mean over strings does not answer for every data subject.",
        (*rows, *people),
    )


def ordinary(report: Row) -> Answer:
    """Answer how likely personal data comes out of ordinary queries, unintentionally."""
    if answer := benign_answer(report):
        return answer
    rows = [row for row in headline_totals(report) if row["plugin"] == "untargeted"]
    if not rows:
        return Answer("open", "Nothing was asked without an attack in mind.")
    caveat = "This asks for nothing, but it is not a sample of a deployment's queries."
    return Answer("in part", f"{results_text(rows)} {caveat}", tuple(rows))


def regurgitation(report: Row) -> Answer:
    """Answer how much is repeated word for word."""
    rows = _of_class(report, "regurgitation")
    left = [row for row in measured_rows(report, "extractable") if _is_left(row)]
    if left and not rows:
        text = f"Of the records of a member that left: {results_text(left)}"
        return Answer("in part", text, tuple(left))
    if not rows:
        return Answer("open", missing_reason(report, "regurgitation"))
    control = [
        row
        for row in report["measurements"]
        if attack_class(row) == "regurgitation"
        and row["scope"].get("source") in ("beyond-held-out", "control")
        and row["value"] is not None
    ]
    if not control:
        caveat = "It was compared with no held-out text."
        return Answer("in part", f"{results_text(rows)} {caveat}", tuple(rows))
    text = f"{results_text(rows)} Beside it: {results_text(control)}"
    return Answer("answered", text, (*rows, *control[:MOST_ROWS]))


def _is_left(row: Row) -> bool:
    """Tell whether a row is of the model that a member's records should no longer be in."""
    return bool(row["kind"] == Forget.name and row["scope"].get("model") == AFTER)


def membership(report: Row) -> Answer:
    """Answer whether a person can be recognised as a member, by attack or by a member's own test.

    A member tests its own records only, so its tests answer in part.
    """
    answer = answer_of(Membership(), report)
    tests = [k for k in (Watch(), Forget()) if any(r["value"] is not None for r in k.rows(report))]
    if answer.status != "open" or not tests:
        return answer
    found = [answer_of(kind, report) for kind in tests]
    text = " ".join(one.text for one in found)
    return Answer("in part", text, tuple(row for one in found for row in one.rows))


def attributes(report: Row) -> Answer:
    """Answer whether an attribute of a person can be inferred."""
    rows = _of_class(report, "attribute_inference")
    if not rows:
        return Answer("open", missing_reason(report, "attribute_inference"))
    rates = [query.guessing_accuracy(report, row) for row in rows]
    against = [f"guessing {number(rate)}" for rate in rates if rate is not None]
    text = (
        f"{results_text(rows)} To be beaten: {', '.join(against)}."
        if against
        else results_text(rows)
    )
    return Answer("answered", text, tuple(rows))


def inversion(report: Row) -> Answer:
    """Answer whether the model, or an update, can be inverted."""
    rows = {name: _of_class(report, name) for name in ("inversion", "reconstruction")}
    found = [row for of_class in rows.values() for row in of_class]
    if not rows["reconstruction"]:
        found += measured_rows(report, "determined", "leakage_bits")[:MOST_ROWS]
    reasons = [f"{name}: {missing_reason(report, name)}" for name in rows if not rows[name]]
    text = " ".join([*([results_text(found)] if found else []), *reasons])
    statuses = {entry["class"]: entry["status"] for entry in report.get("coverage", ())}
    open_ = [name for name in rows if not rows[name] and statuses.get(name) != "not_applicable"]
    status: Literal["answered", "in part", "open"] = "in part" if found else "open"
    return Answer(status if open_ else "answered", text, tuple(found))


def cause(report: Row) -> Answer:
    """Answer whether training on these records caused the leak."""
    without = [r for r in report["measurements"] if r["kind"] == "counterfactual"]
    without = [row for row in without if row["value"] is not None]
    if without:
        text = f"A model trained without the client was compared. {results_text(without)}"
        return Answer("answered", text, tuple(without[:MOST_ROWS]))
    rows = [r for r in headline_totals(report) if r["scope"].get("source") == "tuned-not-base"]
    retrained = [
        row for row in measured_rows(report, "residual") if row["kind"] == Forget.name and row["n"]
    ]
    if retrained:
        text = f"Models trained without the member were compared. {results_text(retrained)}"
        return Answer("answered", text, tuple(retrained))
    if not rows and report["target"]["adapter"]:
        return Answer("open", "No leak was counted beyond the base on the same questions.")
    if not rows:
        return Answer("open", "There was no base model to compare with.")
    return Answer(
        "in part",
        f"Beyond the base on the same questions: {results_text(rows)} No model was trained without"
        " the party (`fedaudit simulate --without`).",
        tuple(rows),
    )


def people(report: Row) -> Answer:
    """Answer whose data came out, and how many people that is."""
    rows = leaks.persons(report)
    parties = leaks.parties(report, "victim") or leaks.parties(report, "attacker")
    text = f"Records of: {', '.join(parties)}. " if parties else "The report does not say whose. "
    if rows:
        return Answer("answered" if parties else "in part", text + results_text(rows), tuple(rows))
    text += leaks.uncounted(report)
    return Answer("in part" if report["findings"] and parties else "open", text)


def cost(report: Row) -> Answer:
    """Answer what the attack costs."""
    rows = [*measured_rows(report, "queries_per_person"), *measured_rows(report, "queries")]
    rows = [r for r in rows if r["scope"].get("source", "tuned") == "tuned"]
    rows = [r for r in rows if not {"label", "category", "budget"} & r["scope"].keys()]
    rows = list({(row["plugin"], row["metric"], row["value"]): row for row in rows}.values())
    costs = [f"{number(v)} {name}" for name, v in report["budget"].items() if v is not None]
    if not rows and not costs:
        return Answer("open", "No cost was recorded.")
    text = f"The whole audit took {', '.join(costs)}. " if costs else ""
    text = " ".join(filter(None, (text.strip(), results_text(rows), "No price was set.")))
    return Answer("in part", text, tuple(rows))


def defence(report: Row) -> Answer:
    """Answer whether a defence holds."""
    rows = [row for row in report["measurements"] if row["kind"] == "defense"]
    keyed = [row for row in headline_totals(report) if "key" in row["scope"]]
    variants = {str(row["scope"].get("variant")) for row in report["measurements"]} - {"None"}
    known_rows = [row for row in (*rows, *keyed) if row["value"] is not None]
    if len(variants) > 1:
        text = f"{len(variants)} variants were compared: {', '.join(sorted(variants))}."
        return Answer("answered", text, tuple(known_rows[:MOST_ROWS]))
    defenses = report.get("defenses")
    if defenses and any(d["leaks"] and d["defense"] != "none" for d in defenses["tried"]):
        text = " ".join(defenses["recommendations"])
        return Answer(
            "in part" if known_rows else "answered",
            f"The federation was trained again with and without: {text}",
            tuple(known_rows[:MOST_ROWS]),
        )
    if not known_rows:
        return Answer("open", "No defence was measured.")
    text = f"{results_text(known_rows)} Without the defence it was not measured here."
    return Answer("in part", text, tuple(known_rows[:MOST_ROWS]))


def contribution(report: Row) -> Answer:
    """Answer which party contributed what came out."""
    rows = [r for r in report["measurements"] if r["kind"] == "attribution"]
    tested = [r for r in rows if r["metric"] == "p_value" and r["value"] is not None]
    if not tested:
        return Answer("open", "No attribution was made: no marked documents, or no updates.")
    flagged = [f["evidence"].get("client") for f in accusations(report["findings"])]
    names = ", ".join(str(name) for name in flagged) or "nobody"
    return Answer(
        "answered", f"Flagged: {names}. {results_text(tested)}", tuple(tested[:MOST_ROWS])
    )


def _of_class(report: Row, name: str) -> list[Row]:
    return [row for row in headline_totals(report) if attack_class(row) == name]


REQUESTS = {
    "held-out": "of held-out records",
    "own": "of the attacker's own records",
    "general": "that fit no task in particular",
}
"""In words, whose ordinary requests the model was asked, by scope.requests."""

ENOUGH_REQUESTS = 30
"""With fewer requests, the result says little about what other requests would bring out."""


def benign_answer(report: Row) -> Answer | None:
    """Answer from the variant and key under which most answers to ordinary requests held data.

    Requests with the right key do not count, since their data is meant to come out. Returns None
    if there are no other requests.
    """
    benign = [
        row
        for row in leaking_answer_rows(report)
        if row["value"] is not None and row["scope"].get("key") != "right"
    ]
    tuned = [row for row in benign if row["scope"].get("source") == "tuned"]
    if not tuned:
        return None
    worst = max(tuned, key=lambda row: row["value"])
    origin = str(worst["scope"].get("requests"))
    base, beyond, control = (
        query.comparable_row(benign, worst, source)
        for source in ("base", "tuned-not-base", "control")
    )
    asked = query.companion_row(report, worst, "leaking_requests")
    count = asked["n"] if asked and asked["n"] is not None else 0
    parts = [
        f"Answers to {count:,} ordinary requests {REQUESTS.get(origin, '')}".rstrip(),
        f"that hold personal data of these records: {format_rate(worst)}.",
    ]
    if where := query.scope_text(worst, {"key", "client", "adapter", "variant"}):
        parts.append(f"Asked with {where}.")
    others = (("of the base's answers", base), ("with as many control strings", control))
    parts += [f"The same {name}: {format_rate(row)}." for name, row in others if row]
    parts.append("The verdict judges which strings came out, not how many answers hold one.")
    rows = tuple(row for row in (worst, beyond, base, control, asked) if row)
    against = _is_above(beyond, control)
    if origin == "held-out" and count >= ENOUGH_REQUESTS:
        return Answer("answered", " ".join(parts), rows, against)
    parts.append("They are not a sample of a deployment's requests: --held-out takes those.")
    return Answer("in part", " ".join(parts), rows, against)


def _is_above(beyond: Row | None, control: Row | None) -> bool:
    """Tell whether significantly more answers hold strings of the records than control strings."""
    low = beyond["low"] if beyond else None
    most = control["high"] if control else 0.0
    return low is not None and most is not None and low > most


class ChecklistItem(NamedTuple):
    """One question, its number in the list, where it comes from, and what answers it."""

    number: int
    text: str
    source: str
    statement: str
    """What must be true to give no cause for concern."""
    answer: Callable[[Row], Answer]
    rules: tuple[str, ...] = ()
    """The rules whose judgements decide it, where it is the question about a kind."""

    @property
    def name(self) -> str:
        """The question's name in formats that want one."""
        return f"Q{self.number:02}"


_QUESTIONS: tuple[Kind | tuple[Question, Callable[[Row], Answer]], ...] = (
    (Question("Which model exactly?", "EDPB 28/2024, 58; GPAI form 1.3, 1.6",
     "What was tested is identified by digests."), model),
    (Question("Released to whom?", "EDPB 28/2024, 46",
     "The release was declared, and by whom."), release),
    (Question("Which attacks were run, which not?", "EDPB 28/2024, 55, 58(c)",
     "The attacks of every class were run, or a reason is given."), attacks),
    (Question("Who attacks, with what access and knowledge?", "EDPB 28/2024, 58(c); NIST AI 100-2",
     "Every attacker's access and knowledge is stated."), attackers),
    (Question("How likely is direct extraction, for any data subject?", "EDPB 28/2024, 43(i)",
     "No more can be extracted with an attack than the policy allows."), direct),
    (Question("How likely does it come out of ordinary queries?", "EDPB 28/2024, 43(ii)",
     "No more comes out unprompted than the policy allows."), ordinary),
    (Question("What is repeated word for word?", "EDPB 28/2024, 55(iii)",
     "No more is repeated word for word than the policy allows."), regurgitation),
    Membership(),
    (Question("Can an attribute be inferred?", "EDPB 28/2024, 55(i)",
     "No attribute can be inferred beyond what base and guessing give."), attributes),
    (Question("Can the model or its updates be inverted?", "EDPB 28/2024, 55(iv), (v)",
     "Neither the model nor a client's update can be inverted."), inversion),
    Exposure(),
    (Question("Did training cause it?", "EDPB 28/2024, 43",
     "It is known what training caused."), cause),
    (Question("Whose data, and how many people?", "EDPB 28/2024, 43; GDPR 9",
     "It is known whose data came out, and of how many people."), people),
    (Question("What does the attack cost?", "EDPB 28/2024, 43: means reasonably likely",
     "The cost of the attacks is known."), cost),
    (Question("Does the defence hold?", "EDPB 28/2024, 107",
     "The defence lets no one in without a key."), defence),
    Epsilon(),
    (Question("Which party contributed it?", "EDPB 28/2024, 114",
     "No client is shown to have trained on marked documents."), contribution),
    (Question("Is it repeatable, and by whom was it run?", "EDPB 28/2024, 55",
     "The tests can be repeated."), repeatable),
    (Question("What does nothing found mean?", "EDPB 28/2024, 55",
     "It is known how small a leak would have been seen."), zero),
    (Question("What remains?", "EDPB 28/2024, 55, 58, 134",
     "What remains is stated."), remains),
)  # fmt: skip
"""What is asked, in order: questions with what answers them, and kinds with a question."""


def _item(number: int, entry: Kind | tuple[Question, Callable[[Row], Answer]]) -> ChecklistItem:
    if isinstance(entry, Kind):
        question = entry.question or Question(f"What of {entry.name}?", "", "")
        if isinstance(entry, Membership):
            return ChecklistItem(number, *question, membership, entry.rules)
        return ChecklistItem(number, *question, partial(answer_of, entry), entry.rules)
    question, answer = entry
    return ChecklistItem(number, *question, answer)


QUESTIONS = tuple(_item(number, entry) for number, entry in enumerate(_QUESTIONS, start=1))


_LISTED = frozenset(entry.name for entry in _QUESTIONS if isinstance(entry, Kind))
"""Kinds whose question is one of the twenty."""


def questions(report: Row) -> tuple[ChecklistItem, ...]:
    """Return the twenty questions, and behind them those about other kinds that a report has."""
    names = {row["kind"] for row in report["measurements"]} - _LISTED
    more = [kind for kind in kinds_of(report) if kind.question and kind.name in names]
    return (*QUESTIONS, *(_item(n, kind) for n, kind in enumerate(more, len(QUESTIONS) + 1)))


def answers(report: Row) -> list[tuple[ChecklistItem, Answer]]:
    """Return every question with the report's answer."""
    return [(question, question.answer(report)) for question in questions(report)]


OF_CLASS = {
    "exfiltration": 5,
    "regurgitation": 7,
    "attribute_inference": 9,
    "inversion": 10,
    "reconstruction": 10,
}
OF_RULE = {
    "required": 3,
    "gate": 15,
    "attribution": 17,
    **{rule: item.number for item in QUESTIONS for rule in item.rules},
}
JUDGED_QUESTIONS = frozenset({*OF_CLASS.values(), *OF_RULE.values(), 6} - {3})
"""Questions that judgements decide; the claims of the others hold if they are answered."""


class AssessedClaim(NamedTuple):
    """A statement about the model under one question, and what the report says about it."""

    item: ChecklistItem
    statement: str
    answer: Answer
    judgements: tuple[Row, ...]

    @property
    def score(self) -> int | None:
        """1 if the claim holds, 0 if it does not; None if the report cannot tell."""
        statuses = {judgement["status"] for judgement in self.judgements}
        if "fail" in statuses:
            return 0
        if self.item.number in JUDGED_QUESTIONS or self.item.rules:
            return 1 if statuses == {"pass"} and not self.answer.against else None
        return 1 if self.answer.status == "answered" and "inconclusive" not in statuses else None


def claims(report: Row) -> list[AssessedClaim]:
    """Return the claim of every question, in their order."""
    answered = answers(report)
    of_rule = OF_RULE | {rule: item.number for item, _ in answered for rule in item.rules}
    by_question: Mapping[int, list[Row]] = {item.number: [] for item, _ in answered}
    for judgement in judgements(report):
        if number := _question(judgement, of_rule):
            by_question[number].append(judgement)
    return [
        AssessedClaim(item, item.statement, answer, tuple(by_question[item.number]))
        for item, answer in answered
    ]


def _question(judgement: Row, of_rule: Mapping[str, int]) -> int | None:
    """Return the number of the question that a judgement decides; None for none."""
    row = judgement["measurement"]
    if judgement["rule"] in of_rule:
        return of_rule[judgement["rule"]]
    if row is None:
        return None
    return 6 if row["plugin"] in ("untargeted", "benign") else OF_CLASS.get(attack_class(row))
