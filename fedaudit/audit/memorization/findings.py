"""The drawn suffixes as findings: masked, with an outline of where the match lies."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from fedaudit.api.records import Finding
from fedaudit.audit.memorization.matching import Match, MatchedContinuation
from fedaudit.audit.memorization.rows import PLUGIN

MAX_EXAMPLES = 100
"""The maximum number of examples in a report; the measurements count all."""

LABEL = "TEXT"

SAFE = ("document", "victim", "attacker", "category", "training", "generated")
"""Evidence fields that are not masked: they name or outline a text, but quote nothing."""

CELLS = 20
"""The width of a text's outline, in characters."""

ORDER = ("verbatim", "idea", "paraphrase_high", "paraphrase_low")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSuffix:
    """A suffix that was drawn, with its worst match and the number of prefixes that drew it."""

    answer: MatchedContinuation
    hit: Match
    prefixes: int
    """The number of prefixes that drew it."""
    other_prefixes: int
    """The number of these that are other clients' prefixes."""
    base: bool
    """Whether prefixes of the same kind (own, or others') drew it from the base too."""


def examples(
    tuned: Sequence[MatchedContinuation], base: Sequence[MatchedContinuation] | None
) -> list[DrawnSuffix]:
    """Return the drawn suffixes, the worst first: those drawn by others, then verbatim ones."""
    pairs_by_suffix: dict[tuple[str, str], list[tuple[MatchedContinuation, Match]]] = {}
    for answer in tuned:
        for hit in answer.hits:
            pairs_by_suffix.setdefault((hit.victim, hit.split.suffix), []).append((answer, hit))
    explained = {
        (hit.victim, hit.split.suffix, _inter(answer, hit))
        for answer in base or ()
        for hit in answer.hits
    }
    drawn_suffixes = [_example(pairs, explained) for pairs in pairs_by_suffix.values()]
    return sorted(drawn_suffixes, key=_badness)


def _example(
    pairs: Sequence[tuple[MatchedContinuation, Match]], explained: set[tuple[str, str, bool]]
) -> DrawnSuffix:
    answer, hit = min(pairs, key=lambda pair: (*_rank(*pair), pair[0].continued.text))
    # Copies of a text in one client are one text, so a prefix counts once.
    prefixes = {(a.continued.client, a.continued.split.document) for a, _ in pairs}
    return DrawnSuffix(
        answer=answer,
        hit=hit,
        prefixes=len(prefixes),
        other_prefixes=sum(client != hit.victim for client, _ in prefixes),
        base=(hit.victim, hit.split.suffix, _inter(answer, hit)) in explained,
    )


def _inter(answer: MatchedContinuation, hit: Match) -> bool:
    return answer.continued.client != hit.victim


def _rank(answer: MatchedContinuation, hit: Match) -> tuple[bool, int, int]:
    return not _inter(answer, hit), ORDER.index(hit.categories[0]), -len(hit.passage)


def _badness(example: DrawnSuffix) -> tuple[object, ...]:
    inter, category, length = _rank(example.answer, example.hit)
    return (
        inter,
        category,
        -example.other_prefixes,
        -example.prefixes,
        length,
        example.hit.split.suffix,
    )


def findings(
    drawn_suffixes: Sequence[DrawnSuffix],
    *,
    compared: bool,
    without: Mapping[str, Collection[str]] | None = None,
) -> tuple[list[Finding], list[Mapping[str, str]]]:
    """Return the first examples as findings, and what --reveal writes about them.

    The evidence holds the text, which the report masks. `compared` says whether there was a base
    to compare with. `without` holds, by client, its texts that the model trained without it gives.
    """
    listed_findings: list[Finding] = []
    plain: list[Mapping[str, str]] = []
    for number, example in enumerate(drawn_suffixes[:MAX_EXAMPLES], 1):
        name = f"{PLUGIN}-{number:04d}"
        listed_findings.append(
            Finding(
                id=name,
                severity=_severity(example) if compared and not example.base else "unverified",
                label=LABEL,
                measurement=f"{PLUGIN} {'mr_inter' if example.other_prefixes else 'mr_intra'}",
                evidence={**_evidence(example), **_drawn_without(example, without or {})},
                safe=SAFE,
            )
        )
        plain.append(_example_texts(name, example))
    return listed_findings, plain


def _drawn_without(
    example: DrawnSuffix, without: Mapping[str, Collection[str]]
) -> dict[str, object]:
    """Return whether the model trained without the client gives the text; {} if there is none."""
    if example.hit.victim not in without:
        return {}
    return {"drawn_without": example.hit.split.suffix in without[example.hit.victim]}


def _severity(example: DrawnSuffix) -> Literal["high", "medium", "low"]:
    """Return the severity: low for a text that only its own client's prefixes draw, else more."""
    if not example.other_prefixes:
        return "low"
    return "high" if example.hit.categories[0] == "verbatim" else "medium"


def _evidence(example: DrawnSuffix) -> dict[str, object]:
    hit, text = example.hit, example.answer.continued.text
    return {
        "text": hit.passage,
        "document": hit.split.document,
        "victim": hit.victim,
        "attacker": example.answer.continued.client,
        "category": hit.categories[0],
        "prefixes": example.prefixes,
        "prefixes_of_others": example.other_prefixes,
        "training": outline(hit.training_spans, len(hit.split.suffix)),
        "generated": outline(hit.generated_spans, len(text)),
        "training_length": len(hit.split.suffix),
        "generated_length": len(text),
        "spans": [list(span) for span in hit.overlap.spans],
    }


def outline(spans: Sequence[tuple[int, int]], length: int, cells: int = CELLS) -> str:
    """Return a text's outline: `=` where a passage matches, `.` where none does.

    A cell is marked if any character that it stands for is matched.
    """
    width = min(cells, length)
    edges = [i * length // width for i in range(width + 1)] if width else [0]
    return "".join(
        "=" if any(start < right and end > left for start, end in spans) else "."
        for left, right in pairwise(edges)
    )


def _example_texts(name: str, example: DrawnSuffix) -> dict[str, str]:
    hit, continued = example.hit, example.answer.continued
    return {
        "id": name,
        "label": LABEL,
        "text": hit.passage,
        "victim": hit.victim,
        "document": hit.split.document,
        "attacker": continued.client,
        "prefix_of": continued.split.document,
        "category": hit.categories[0],
        "training": bracket_matches(hit.training_spans, hit.split.suffix),
        "generated": bracket_matches(hit.generated_spans, continued.text),
    }


def bracket_matches(spans: Sequence[tuple[int, int]], text: str) -> str:
    """Return a text with double brackets around matches; overlapping passages are joined."""
    inside = [False] * (len(text) + 1)
    for start, end in spans:
        inside[start:end] = [True] * (end - start)
    pieces, before = [], False
    for char, now in zip([*text, ""], inside, strict=True):
        if now != before:
            pieces.append("[[" if now else "]]")
        pieces.append(char)
        before = now
    return "".join(pieces)
