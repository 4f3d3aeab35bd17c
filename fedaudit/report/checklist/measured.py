"""The answers that numbers give."""

from collections.abc import Sequence

from fedaudit.report import query
from fedaudit.report.checklist import leaks
from fedaudit.report.checklist.answer import ChecklistAnswer
from fedaudit.report.checklist.attackers import attack_class, headline_totals
from fedaudit.report.checklist.benign_prompts import benign_answer
from fedaudit.report.number_format import number
from fedaudit.report.query import Row

MOST_ROWS = 4


def direct(report: Row) -> ChecklistAnswer:
    """Answer how likely direct extraction is, for the person most at risk."""
    people = leaks.persons(report)
    rows = _of_class(report, "exfiltration")
    if not rows and not people:
        return ChecklistAnswer("open", "No extraction gave a number.")
    exact = [r for r in (*rows, *people) if r["scope"].get("estimator") == "exact"]
    most = [r for r in report["measurements"] if r["metric"] == "most_kinds" and r["value"]]
    text = _results_text([*rows, *people])
    if most:
        worst = max(row["value"] for row in most)
        text += f" Whoever is exposed most is so by {number(worst)} kinds of data."
    if exact:
        return ChecklistAnswer("answered", f"Computed, not sampled. {text}", (*rows, *people))
    return ChecklistAnswer(
        "in part",
        f"Sampled: {text} The chance of each string by itself, which `--estimator exact` computes,"
        " is not in this report; a mean over strings does not answer for every data subject.",
        (*rows, *people),
    )


def ordinary(report: Row) -> ChecklistAnswer:
    """Answer how likely personal data comes out of ordinary queries, unintentionally."""
    if answer := benign_answer(report):
        return answer
    rows = [row for row in headline_totals(report) if row["plugin"] == "untargeted"]
    if not rows:
        return ChecklistAnswer("open", "Nothing was asked without an attack in mind.")
    caveat = "This asks for nothing, but it is no sample of a deployment's queries."
    return ChecklistAnswer("in part", f"{_results_text(rows)} {caveat}", tuple(rows))


def regurgitation(report: Row) -> ChecklistAnswer:
    """Answer how much is repeated word for word."""
    rows = _of_class(report, "regurgitation")
    if not rows:
        return ChecklistAnswer("open", _missing_reason(report, "regurgitation"))
    control = [
        row
        for row in report["measurements"]
        if attack_class(row) == "regurgitation"
        and row["scope"].get("source") in ("beyond-held-out", "control")
        and row["value"] is not None
    ]
    if not control:
        caveat = "No text that nobody trained on was compared with."
        return ChecklistAnswer("in part", f"{_results_text(rows)} {caveat}", tuple(rows))
    text = f"{_results_text(rows)} Beside it: {_results_text(control)}"
    return ChecklistAnswer("answered", text, (*rows, *control[:MOST_ROWS]))


def membership(report: Row) -> ChecklistAnswer:
    """Answer whether a person can be recognised as a member."""
    rows = [row for row in report["measurements"] if attack_class(row) == "membership_inference"]
    rates = [row for row in rows if row["metric"] == "tpr" and row["value"] is not None]
    if rates:
        return ChecklistAnswer("answered", _results_text(rates), tuple(rates[:MOST_ROWS]))
    known_rows = [r for r in rows if r["value"] is not None and r["metric"] in ("auc", "p_value")]
    known_rows.sort(key=lambda row: row["metric"] != "p_value")
    if not known_rows:
        return ChecklistAnswer("open", _missing_reason(report, "membership_inference"))
    reason = next(iter(query.missing_reasons(r for r in rows if r["metric"] == "tpr")), "")
    text = (
        f"{_results_text(known_rows)} No rate at few false positives. {reason}".strip().rstrip(".")
        + "."
    )
    return ChecklistAnswer("in part", text, tuple(known_rows[:MOST_ROWS]))


def attributes(report: Row) -> ChecklistAnswer:
    """Answer whether an attribute of a person can be inferred."""
    rows = _of_class(report, "attribute_inference")
    if not rows:
        return ChecklistAnswer("open", _missing_reason(report, "attribute_inference"))
    rates = [query.guessing_accuracy(report, row) for row in rows]
    against = [f"guessing {number(rate)}" for rate in rates if rate is not None]
    text = (
        f"{_results_text(rows)} To be beaten: {', '.join(against)}."
        if against
        else _results_text(rows)
    )
    return ChecklistAnswer("answered", text, tuple(rows))


def inversion(report: Row) -> ChecklistAnswer:
    """Answer whether updates can be inverted."""
    rows = [*_of_class(report, "inversion"), *_of_class(report, "reconstruction")]
    if rows:
        return ChecklistAnswer("answered", _results_text(rows), tuple(rows))
    single = _metrics(report, "determined", "leakage_bits")
    if single:
        text = "Nothing was inverted; what secure sums give away was measured."
        return ChecklistAnswer(
            "in part", f"{text} {_results_text(single)}", tuple(single[:MOST_ROWS])
        )
    kinds = {entry["status"] for entry in report.get("coverage", ()) if entry["edpb"] == "55 (iv)"}
    if kinds == {"not_applicable"}:
        return ChecklistAnswer(
            "answered", f"Does not apply: {_missing_reason(report, 'inversion')}"
        )
    return ChecklistAnswer("open", _missing_reason(report, "inversion"))


def canaries(report: Row) -> ChecklistAnswer:
    """Answer what is memorised though extraction misses it."""
    rows = _metrics(report, "maximal_exposure", "exposure")
    if not rows:
        return ChecklistAnswer(
            "open", "No canaries were planted before training, or none measured."
        )
    return ChecklistAnswer("answered", _results_text(rows), tuple(rows[:MOST_ROWS]))


def cause(report: Row) -> ChecklistAnswer:
    """Answer whether training on these records caused the leak."""
    without = [r for r in report["measurements"] if r["kind"] == "counterfactual"]
    without = [row for row in without if row["value"] is not None]
    if without:
        text = f"A model trained without the client was compared. {_results_text(without)}"
        return ChecklistAnswer("answered", text, tuple(without[:MOST_ROWS]))
    rows = [r for r in headline_totals(report) if r["scope"].get("source") == "tuned-not-base"]
    if not rows:
        return ChecklistAnswer("open", "There was no base model to compare with.")
    return ChecklistAnswer(
        "in part",
        f"Beyond the base on the same questions: {_results_text(rows)} No model was trained without"
        " the party (`fedaudit simulate --without`).",
        tuple(rows),
    )


def people(report: Row) -> ChecklistAnswer:
    """Answer whose data came out, and how many people that is."""
    rows, parties = leaks.persons(report), leaks.parties(report)
    text = f"Records of: {', '.join(parties)}. " if parties else "The report does not say whose. "
    if rows:
        return ChecklistAnswer(
            "answered" if parties else "in part", text + _results_text(rows), tuple(rows)
        )
    text += "Strings were counted, not people."
    return ChecklistAnswer("in part" if report["findings"] and parties else "open", text)


def cost(report: Row) -> ChecklistAnswer:
    """Answer what the attack costs."""
    rows = [*_metrics(report, "queries_per_person"), *_metrics(report, "queries")]
    rows = [r for r in rows if r["scope"].get("source", "tuned") == "tuned"]
    rows = [r for r in rows if not {"label", "category", "budget"} & r["scope"].keys()]
    rows = list({(row["plugin"], row["metric"], row["value"]): row for row in rows}.values())
    costs = [f"{number(v)} {name}" for name, v in report["budget"].items() if v is not None]
    if not rows and not costs:
        return ChecklistAnswer("open", "Nobody counted.")
    text = f"The whole audit took {', '.join(costs)}. " if costs else ""
    return ChecklistAnswer(
        "in part", f"{text}{_results_text(rows)} No price was set.".strip(), tuple(rows)
    )


def defence(report: Row) -> ChecklistAnswer:
    """Answer whether a defence holds."""
    rows = [row for row in report["measurements"] if row["kind"] == "defense"]
    keyed = [row for row in headline_totals(report) if "key" in row["scope"]]
    variants = {str(row["scope"].get("variant")) for row in report["measurements"]} - {"None"}
    known_rows = [row for row in (*rows, *keyed) if row["value"] is not None]
    if len(variants) > 1:
        text = f"{len(variants)} variants were compared: {', '.join(sorted(variants))}."
        return ChecklistAnswer("answered", text, tuple(known_rows[:MOST_ROWS]))
    defenses = report.get("defenses")
    if defenses and any(d["leaks"] and d["defense"] != "none" for d in defenses["tried"]):
        text = " ".join(defenses["recommendations"])
        return ChecklistAnswer(
            "in part" if known_rows else "answered",
            f"The federation was trained again with and without: {text}",
            tuple(known_rows[:MOST_ROWS]),
        )
    if not known_rows:
        return ChecklistAnswer("open", "No defence was measured.")
    text = f"{_results_text(known_rows)} Without the defence it was not measured here."
    return ChecklistAnswer("in part", text, tuple(known_rows[:MOST_ROWS]))


def epsilon(report: Row) -> ChecklistAnswer:
    """Answer whether a claim of differential privacy is true."""
    lower = [row for row in _metrics(report, "epsilon_low") if row["kind"] == "epsilon"]
    if lower:
        names = ("delta", "unit", "neighbouring", "position")
        scope = lower[0]["scope"]
        terms = ", ".join(f"{name} {scope[name]}" for name in names if name in scope)
        return ChecklistAnswer(
            "answered", f"{_results_text(lower)} Claim: {terms}.", tuple(lower[:MOST_ROWS])
        )
    claimed = _metrics(report, "epsilon")
    if not claimed:
        return ChecklistAnswer(
            "open", "The report has no claim of differential privacy, and tested none."
        )
    text = f"Claimed, not tested: {_results_text(claimed)} `fedaudit dp audit` tests it."
    return ChecklistAnswer("in part", text, tuple(claimed[:MOST_ROWS]))


def contribution(report: Row) -> ChecklistAnswer:
    """Answer which party contributed what came out."""
    rows = [r for r in report["measurements"] if r["kind"] == "attribution"]
    tested = [r for r in rows if r["metric"] == "p_value" and r["value"] is not None]
    if not tested:
        return ChecklistAnswer(
            "open", "No attribution was made: no marked documents, or no updates."
        )
    flagged = [f["evidence"].get("client") for f in report["findings"] if f["label"] == "WATERMARK"]
    names = ", ".join(str(name) for name in flagged) or "nobody"
    return ChecklistAnswer(
        "answered", f"Flagged: {names}. {_results_text(tested)}", tuple(tested[:MOST_ROWS])
    )


def _of_class(report: Row, name: str) -> list[Row]:
    return [row for row in headline_totals(report) if attack_class(row) == name]


def _metrics(report: Row, *names: str) -> list[Row]:
    rows = (row for row in report["measurements"] if row["metric"] in names)
    return [row for row in rows if row["value"] is not None and not query.is_sweep(row)]


def _missing_reason(report: Row, name: str) -> str:
    """Return why a class of attacks has no number."""
    reasons = (entry["reason"] for entry in report.get("coverage", ()) if entry["class"] == name)
    return f"{next(filter(None, reasons), 'it was not run')}."


def _results_text(rows: Sequence[Row]) -> str:
    """Return the first measurements in words, and how many more there are."""
    results = [f"{_name(row)} {leaks.result(row)}" for row in rows[:MOST_ROWS]]
    remaining = len(rows) - MOST_ROWS
    return "; ".join([*results, *([f"and {remaining:,} more"] if remaining > 0 else [])]) + "."


def _name(row: Row) -> str:
    keys = ("client", "mark", "key", "score", "fpr", "times", "candidates", "records", "test")
    where = query.scope_text(row, keys)
    control = " control" if row["scope"].get("source") in ("control", "beyond-held-out") else ""
    name = f"{row['plugin']} {row['metric'].replace('_', ' ')}{control}"
    return f"{name} ({where})" if where else name
