"""Classifies overlaps as verbatim, as an idea, or as a candidate for paraphrase."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from fedaudit.metrics.overlap.passages import Passage, extend_seeds
from fedaudit.metrics.overlap.prepared_text import PreparedText, prepare_text
from fedaudit.metrics.overlap.word_runs import Run, common_runs, outermost_runs, word_positions

from .seeds import Pair, Seed
from .sentences import Span
from .settings import DEFAULT, ORIGINAL, OverlapSettings

Verdict = Literal["none", "verbatim", "idea", "candidate"]


@dataclass(frozen=True, slots=True)
class Overlap:
    """The overlap of a generated text with a training text."""

    verdict: Verdict
    """"verbatim": a common run of words; "idea": the generated text expands a training passage;
    "candidate": similar passages, perhaps a paraphrase; "none"."""
    spans: tuple[Run, ...]
    """(a_start, a_end, b_start, b_end): half-open spans of characters, a in the training text."""


NOTHING = Overlap("none", ())
_remembered = lru_cache(maxsize=1 << 11)(prepare_text)
"""`prepare_text` with a cache, since a matrix compares the same texts many times."""


def compare(
    training: str, generated: str, *, compat: bool = False, settings: OverlapSettings | None = None
) -> Overlap:
    """Return the overlap of a generated text with a training text (PAN 2014; Lee et al. 2023).

    `compat` reproduces the published program with its defects; docs/choices.md lists the
    differences. `settings` replace the published thresholds and override `compat`.
    """
    chosen = settings or (ORIGINAL if compat else DEFAULT)
    return compare_prepared(_remembered(training, chosen), _remembered(generated, chosen))


def compare_prepared(training: PreparedText, generated: PreparedText) -> Overlap:
    """Return the overlap of two prepared texts; raises ValueError if their settings differ."""
    pair, seeds = _pair(training, generated)
    if not seeds:
        return NOTHING
    settings = training.settings
    passages = filter_passages(pair, extend_seeds(pair, seeds, settings.gap))
    if runs := [run for passage in passages for run in verbatim(pair, passage)]:
        return Overlap("verbatim", tuple(runs))
    wide = filter_passages(pair, extend_seeds(pair, seeds, settings.wide_gap))
    if _is_expansion(pair, wide):
        return Overlap("idea", _spans(pair, wide))
    return Overlap("candidate", _spans(pair, passages)) if passages else NOTHING


def verbatim(pair: Pair, passage: Passage) -> list[Run]:
    """Return the common runs of words in a passage that are long enough."""
    settings = pair.a.settings
    sides = [
        (word_positions(side.text[start:end], settings, han=side.han is not None), start)
        for side, (start, end) in zip((pair.a, pair.b), passage_span(pair, passage), strict=True)
    ]
    ((a, a_starts, a_ends), a_at), ((b, b_starts, b_ends), b_at) = sides
    places = [pair.a.places(a_at + position) for position in (a_starts, a_ends)]
    runs = [
        (int(a_starts[i]), int(a_ends[k]), int(b_starts[j]), int(b_ends[m]))
        for (i, k), (j, m) in common_runs(a, b, places[0], places[1], settings.run)
    ]
    return [
        (s + a_at, e + a_at, t + b_at, f + b_at)
        for s, e, t, f in outermost_runs(runs, compat=settings.compat)
    ]


def _pair(training: PreparedText, generated: PreparedText) -> tuple[Pair, list[Seed]]:
    if training.settings != generated.settings:
        raise ValueError("The two texts were prepared with different settings.")
    pair = Pair(training, generated)
    return pair, pair.seeds()


def _is_expansion(pair: Pair, passages: list[Passage]) -> bool:
    """Tell whether the generated side of the passages is much longer than the training side."""
    if not passages:
        return False
    training_length, generated_length = np.array(
        [passage_lengths(pair, passage) for passage in passages]
    ).sum(axis=0)
    return bool(
        generated_length > 0 and generated_length >= pair.a.settings.ratio * training_length
    )


def _spans(pair: Pair, passages: list[Passage]) -> tuple[Run, ...]:
    return tuple((*a, *b) for a, b in (passage_span(pair, passage) for passage in passages))


_TINY = 1e-12
"""Scores closer than this count as equal, since they may differ in the order of summation only."""


def filter_passages(pair: Pair, passages: list[Passage]) -> list[Passage]:
    """Return passages that do not overlap in the training text, with both sides long enough."""
    least = pair.a.settings.length
    return [
        passage
        for passage in _drop_overlaps(pair, sorted(passages, key=lambda passage: passage[0]))
        if min(passage_lengths(pair, passage)) >= least
    ]


def passage_span(pair: Pair, passage: Passage) -> tuple[Span, Span]:
    """Return the character spans of a passage in both texts."""
    a0, a1, b0, b1 = passage
    return (
        (int(pair.a.starts[a0]), int(pair.a.ends[a1])),
        (int(pair.b.starts[b0]), int(pair.b.ends[b1])),
    )


def passage_lengths(pair: Pair, passage: Passage) -> tuple[float, float]:
    """Return the lengths of a passage in both texts, in weighted characters."""
    a, b = (
        side.places(np.array(span))
        for side, span in zip((pair.a, pair.b), passage_span(pair, passage), strict=True)
    )
    return float(a[1] - a[0]), float(b[1] - b[0])


def _drop_overlaps(pair: Pair, passages: list[Passage]) -> list[Passage]:
    """Return the best passage of every chain of passages that overlap in the training text."""
    winners: list[Passage] = []
    index, pending = 0, False
    while index < len(passages):
        current = winners[-1] if pending else passages[index]
        rivals = [passage for passage in passages[index + 1 :] if passage[0] <= current[1]]
        if not pending:
            winners.append(current)
        if not rivals:
            index, pending = index + 1, False
            continue
        winners[-1] = _best(pair, current, rivals)
        index, pending = index + len(rivals), True
    return winners


def _best(pair: Pair, current: Passage, rivals: list[Passage]) -> Passage:
    """Return the best of a passage and those that overlap it.

    Of two near-copies (both scores above 0.99) the longer one wins, otherwise the one with the
    higher score. In the original, a rival has to beat `current`, whose own score is never kept.
    """
    winner, height = current, 0.0
    for rival in rivals:
        current_score, rival_score = _score(pair, current, rival), _score(pair, rival, current)
        candidate, value = rival, rival_score
        if min(current_score, rival_score) > 0.99:
            if rival[1] - rival[0] <= current[1] - current[0]:
                candidate, value = current, current_score
        elif rival_score <= current_score + _TINY:
            if pair.a.settings.compat:
                continue
            candidate, value = current, current_score
        if value > height + _TINY:
            winner, height = candidate, value
    return winner


def _score(pair: Pair, passage: Passage, rival: Passage) -> float:
    """Return the score of a passage: s + (1 - s) x o.

    s is the mean of the best cosines of the units that it shares with the rival, o that of its
    other units.
    """
    a0, a1, b0, b1 = passage
    best = pair.cosines[a0 : a1 + 1, b0 : b1 + 1].max(axis=1)
    units = np.arange(a0, a1 + 1)
    shared = (units >= rival[0]) & (units <= rival[1])
    inside = float(best[shared].mean())
    return inside if shared.all() else inside + (1 - inside) * float(best[~shared].mean())
