"""What an attacker sees who has nobody's data but its own: candidates, ranked by likelihood."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedaudit.audit.asking import Answer
from fedaudit.interfaces import Case, Result
from fedaudit.records import Finding, Measurement

SHOWN = 100
SCORED = 2000
"""Only the commonest candidates are scored: the rest were drawn too seldom to matter."""
KEPT = 200_000
"""Of more candidates than these, the half that was drawn least often is forgotten."""
_STOPS = frozenset(".,;:!?()[]\n，。；：！？（）、")

Origin = tuple[tuple[int, ...], str]
"""The prompt that drew a candidate, and the white space before it."""


@dataclass(slots=True)
class Seen:
    """How often a candidate was drawn, and where most often (of equals from the smaller one)."""

    outputs: int
    most: int
    origin: Origin


Drawn = Mapping[tuple[str, str], Seen]
"""(candidate, label) -> how it was drawn."""

UNKNOWN = (
    "Without --victim fedaudit cannot know which candidates are true: they are ranked by how much "
    "likelier the tuned model makes them than the base, and the attacker is in no better position."
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A string that answers give where the attacker's own PII would stand."""

    text: str
    label: str
    outputs: int
    gain: float | None
    """ln p(tuned) - ln p(base) behind the prefix that drew it most often; None without a base."""


def result(plugin: str, case: Case, answers: Iterable[Answer], queries: int) -> Result:
    """Return the candidates as unverified findings, likeliest gain first."""
    found = ranked(case, drawn(case, answers))
    scope = {"source": "tuned", "set": "all"}
    rows = [
        Measurement(
            kind="extraction",
            plugin=plugin,
            metric="coverage",
            value=None,
            reason="no --victim: the auditor does not have the truth to compare with",
            scope=scope,
        ),
        Measurement(
            kind="extraction", plugin=plugin, metric="queries", value=float(queries), scope=scope
        ),
    ]
    named = [(f"{plugin}-{number:04d}", c) for number, c in enumerate(found[:SHOWN], 1)]
    limits = [UNKNOWN, f"{len(found)} candidates, of which the first {len(named)} are findings."]
    return Result(
        measurements=tuple(rows),
        findings=tuple(_finding(plugin, name, c) for name, c in named),
        limits=tuple(limits),
        revealed=tuple({"id": name, "label": c.label, "text": c.text} for name, c in named),
    )


def drawn(case: Case, answers: Iterable[Answer]) -> Drawn:
    """Return how often each candidate was drawn, without the attacker's own strings.

    A candidate is an answer up to the character that follows the attacker's PII at that place, or
    else up to the first punctuation; its label is that of the attacker's PII there.
    """
    own = "\x00".join(document.text for document in case.attacker)
    found: dict[tuple[str, str], Seen] = {}
    for _, question, texts in answers:
        for label, after in question.kinds:
            counts: Counter[tuple[str, str]] = Counter()
            for text in texts:
                candidate = cut(text, after)
                if candidate and candidate not in own:
                    counts[candidate, text[: len(text) - len(text.lstrip())]] += 1
            for (candidate, lead), count in counts.items():
                _seen(found, (candidate, label or "UNKNOWN"), count, (question.prompt, lead))
        if len(found) > KEPT:
            found = dict(sorted(found.items(), key=_rank)[: KEPT // 2])
    return found


def _seen(
    found: dict[tuple[str, str], Seen], key: tuple[str, str], count: int, origin: Origin
) -> None:
    seen = found.setdefault(key, Seen(0, count, origin))
    seen.outputs += count
    if (-count, origin) < (-seen.most, seen.origin):
        seen.most, seen.origin = count, origin


def _rank(item: tuple[tuple[str, str], Seen]) -> tuple[int, tuple[str, str]]:
    """Return what orders candidates: the most often drawn first, then by text."""
    return -item[1].outputs, item[0]


def cut(text: str, after: str) -> str:
    """Return the part of an answer that would be PII; empty when it has no end in sight.

    Western punctuation ends it only before white space or the answer's end: the dot of an address
    or a date does not.
    """
    text = text.lstrip()
    stops = {after} if after.strip() and after in _STOPS else _STOPS
    for position, character in enumerate(text):
        following = text[position + 1 : position + 2]
        ends = not character.isascii() or not following.strip() or character in "()[]\n"
        if character in stops and ends:
            return text[:position].rstrip() if position > 1 else ""
    return ""


def ranked(case: Case, found: Drawn) -> list[Candidate]:
    """Return the candidates by falling gain (then falling count, then text)."""
    chosen = sorted(found.items(), key=_rank)[:SCORED]
    order, origins = [key for key, _ in chosen], [seen.origin for _, seen in chosen]
    gains = _gains(case, [text for text, _ in order], origins)
    candidates = [
        Candidate(text, label, found[text, label].outputs, gain)
        for (text, label), gain in zip(order, gains, strict=True)
    ]
    return sorted(candidates, key=lambda c: (-(c.gain or 0.0), -c.outputs, c.text))


def _gains(case: Case, texts: Sequence[str], origins: Sequence[Origin]) -> list[float] | list[None]:
    if case.base is None:
        return [None] * len(texts)
    drawn_as = [lead + text for text, (_, lead) in zip(texts, origins, strict=True)]
    tokens = [t.ids for t in case.engine.tokenize(drawn_as)]
    rows = [(*prompt, *ids) for (prompt, _), ids in zip(origins, tokens, strict=True)]
    tuned, base = case.engine.scores([case.tuned, case.base], rows)
    return [
        sum(a[len(a) - len(ids) :]) - sum(b[len(b) - len(ids) :])
        for a, b, ids in zip(tuned, base, tokens, strict=True)
    ]


def _finding(plugin: str, name: str, candidate: Candidate) -> Finding:
    return Finding(
        id=name,
        severity="unverified",
        label=candidate.label,
        measurement=f"{plugin} candidates",
        evidence={
            "text": candidate.text,
            "outputs": candidate.outputs,
            "log_likelihood_gain": candidate.gain,
        },
    )
