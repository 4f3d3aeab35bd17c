"""How likely personal data comes out of ordinary queries: the answer that benign requests give."""

from fedaudit.api.kind import Answer
from fedaudit.report import query
from fedaudit.report.number_format import format_rate
from fedaudit.report.query import Row
from fedaudit.report.tables.extraction.untargeted import leaking_answer_rows

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
    parts.append("They are no sample of a deployment's requests: --held-out takes those.")
    return Answer("in part", " ".join(parts), rows, against)


def _is_above(beyond: Row | None, control: Row | None) -> bool:
    """Tell whether significantly more answers hold strings of the records than control strings."""
    low = beyond["low"] if beyond else None
    most = control["high"] if control else 0.0
    return low is not None and most is not None and low > most
