"""Telling two sets of records apart by their words alone, without any model of language.

Das et al. 2024 (arXiv:2406.16201): where members and others come from different times or sources,
a classifier that never asks the model beats attacks that do.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from fedaudit.api import Document
from fedaudit.metrics.privacy.roc import auc

Learnt = tuple[Counter[str], int]
"""In how many texts each word is, and how many texts there are."""

FOLDS = 5
LEAST = 20
"""Groups of records that either set must have at least."""
TOO_FEW = f"the texts alone are compared from {LEAST} groups of records on either side"


def cross_validated(
    members: Sequence[Document], others: Sequence[Document], *, seed: int
) -> tuple[list[float], list[float]] | None:
    """Return how much more each text is like other members' than like others'; None for too few.

    Naive Bayes over distinct words with add-one smoothing. Each group of records (a record without
    one is a group) is scored by what was learnt from those of other folds; scores of a fold are
    taken from their median, because folds are not alike.
    """
    sets = [_by_group(some, name) for name, some in (("m", members), ("o", others))]
    if any(len(groups) < LEAST for groups in sets):
        return None
    folds = [_folds(list(groups), seed) for groups in sets]
    found: list[list[float]] = [[], []]
    for fold in range(FOLDS):
        learnt = [
            _frequencies(
                words for group, texts in groups.items() if of[group] != fold for words in texts
            )
            for groups, of in zip(sets, folds, strict=True)
        ]
        scored = [
            [
                _score(words, *learnt)
                for group, texts in groups.items()
                if of[group] == fold
                for words in texts
            ]
            for groups, of in zip(sets, folds, strict=True)
        ]
        middle = median([*scored[0], *scored[1]])
        for own, rows in zip(found, scored, strict=True):
            own += [score - middle for score in rows]
    return found[0], found[1]


def permutation_p_value(
    members: Sequence[Document], others: Sequence[Document], *, seed: int, draws: int = 199
) -> float | None:
    """Return how often groups dealt anew are told apart as well as the true ones; None for too few.

    Scores of one classifier are not independent, so an interval of their area may be too narrow;
    this test keeps its level whatever the texts are.
    """
    truth = cross_validated(members, others, seed=seed)
    if truth is None:
        return None
    ours, theirs = _grouped(members), _grouped(others)
    groups, count = [*ours, *theirs], len(ours)
    rng, area = random.Random(f"texts {seed}"), auc(*truth).value
    as_well = 0
    for _ in range(draws):
        rng.shuffle(groups)
        sides = [[one for group in part for one in group] for part in
                 (groups[:count], groups[count:])]  # fmt: skip
        found = cross_validated(*sides, seed=seed)
        as_well += found is not None and auc(*found).value >= area - 1e-12
    return (1 + as_well) / (1 + draws)


def _grouped(documents: Iterable[Document]) -> list[list[Document]]:
    """Return the records of each group, in the order of names."""
    of: dict[str, list[Document]] = {}
    for one in documents:
        of.setdefault(one.group or one.text, []).append(one)
    return [of[name] for name in sorted(of)]


def _by_group(documents: Iterable[Document], name: str) -> dict[str, list[list[str]]]:
    """Return the words of each text, by group."""
    groups: dict[str, list[list[str]]] = {}
    for number, one in enumerate(documents):
        words = sorted(set(one.text.casefold().split()))
        groups.setdefault(one.group or f"{name}{number}", []).append(words)
    return dict(sorted(groups.items()))


def _folds(groups: list[str], seed: int) -> dict[str, int]:
    random.Random(f"text baseline {seed}").shuffle(groups)
    return {group: place % FOLDS for place, group in enumerate(groups)}


def _frequencies(texts: Iterable[Sequence[str]]) -> Learnt:
    counts: Counter[str] = Counter()
    total = 0
    for words in texts:
        counts.update(words)
        total += 1
    return counts, total


def _score(words: Sequence[str], ours: Learnt, theirs: Learnt) -> float:
    """Return the mean log-odds a word that a text is one of ours."""
    odds = [
        math.log((ours[0][word] + 1) / (ours[1] + 2))
        - math.log((theirs[0][word] + 1) / (theirs[1] + 2))
        for word in words
    ]
    return math.fsum(odds) / max(1, len(odds))
