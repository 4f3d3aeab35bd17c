"""The answers that numbers give."""

from typing import Literal

from fedaudit.api.kind import Answer
from fedaudit.report import query
from fedaudit.report.checklist import leaks
from fedaudit.report.checklist.answer import (
    MOST_ROWS,
    measured_rows,
    missing_reason,
    results_text,
)
from fedaudit.report.checklist.attackers import attack_class, headline_totals
from fedaudit.report.number_format import format_rate, number
from fedaudit.report.query import Row
from fedaudit.report.tables.extraction import leaking_answer_rows


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
    return Answer("in part", f"{text}{results_text(rows)} No price was set.".strip(), tuple(rows))


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
    flagged = [f["evidence"].get("client") for f in report["findings"] if f["label"] == "WATERMARK"]
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
