"""What an attacker sees who has nobody's data but its own: candidates, ranked by likelihood."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedaudit.audit.prefixes import Place
from fedaudit.interfaces import Case, Result
from fedaudit.records import Finding, Generation, Measurement, Probe

SHOWN = 100
SCORED = 2000
"""Only the commonest candidates are scored: the rest were drawn too seldom to matter."""
_STOPS = frozenset(".,;:!?()[]\n，。；：！？（）、")

Origin = tuple[tuple[int, ...], str]
"""The prompt that drew a candidate, and the white space before it."""

Drawn = Mapping[tuple[str, str], Counter[Origin]]
"""(candidate, label) -> how often it was drawn from where."""

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


def result(
    plugin: str,
    case: Case,
    places: Sequence[Place],
    probes: Sequence[Probe],
    tuned: Sequence[Generation],
) -> Result:
    """Return the candidates as unverified findings, likeliest gain first."""
    found = ranked(case, drawn(case, places, probes, tuned))
    queries = sum(probe.samples for probe in probes)
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


def drawn(
    case: Case, places: Sequence[Place], probes: Sequence[Probe], tuned: Sequence[Generation]
) -> Drawn:
    """Return how often each prompt drew each candidate, without the attacker's own strings.

    A candidate is an answer up to the character that follows the attacker's PII at that place, or
    else up to the first punctuation; its label is that of the attacker's PII there.
    """
    at: dict[tuple[int, ...], set[tuple[str, str]]] = defaultdict(set)
    for place in places:
        prompt = case.begun(place.prefix, at_start=place.at_start)
        at[prompt].add((place.label or "UNKNOWN", place.after))
    own = "\x00".join(document.text for document in case.attacker)
    found: dict[tuple[str, str], Counter[Origin]] = defaultdict(Counter)
    for probe, generation in zip(probes, tuned, strict=True):
        for label, after in sorted(at[probe.prompt]):
            for text in generation.texts:
                candidate = cut(text, after)
                if candidate and candidate not in own:
                    lead = text[: len(text) - len(text.lstrip())]
                    found[candidate, label][probe.prompt, lead] += 1
    return found


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
    order = sorted(found, key=lambda key: (-found[key].total(), key))[:SCORED]
    origins = [min(found[key], key=lambda o: (-found[key][o], o)) for key in order]
    gains = _gains(case, [text for text, _ in order], origins)
    candidates = [
        Candidate(text, label, found[text, label].total(), gain)
        for (text, label), gain in zip(order, gains, strict=True)
    ]
    return sorted(candidates, key=lambda c: (-(c.gain or 0.0), -c.outputs, c.text))


def _gains(case: Case, texts: Sequence[str], origins: Sequence[Origin]) -> list[float] | list[None]:
    if case.base is None:
        return [None] * len(texts)
    drawn_as = [lead + text for text, (_, lead) in zip(texts, origins, strict=True)]
    tokens = [t.ids for t in case.engine.tokenize(drawn_as)]
    rows = [(*prompt, *ids) for (prompt, _), ids in zip(origins, tokens, strict=True)]
    tuned, base = case.engine.score(case.tuned, rows), case.engine.score(case.base, rows)
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
