"""Telling two sets of records apart by their words alone, without any model of language.

Das et al. 2024 (arXiv:2406.16201): where members and others come from different times or sources,
a classifier that never asks the model beats attacks that do.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from fedaudit.api import Document, Estimate
from fedaudit.metrics.privacy.roc import auc

Learnt = tuple[Counter[str], int]
"""In how many texts each word is, and how many texts there are."""

FOLDS = 5
LEAST = 20
"""Groups of records that either set must have at least."""
SHIFTED = 0.025
"""The probability, at most, of taking two sets of one source for sets of two, over both tests."""
OFTEN, WORDS = 4, 5_000
"""In how many groups a word must be to be counted, and how many words are, the most frequent."""
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


def texts_differ(
    members: Sequence[Document], others: Sequence[Document], by_text: Estimate | None, *, seed: int
) -> bool:
    """Return whether two sets differ in their texts alone; False where they are too few to tell.

    Two tests share the level: of the word whose groups are most unevenly dealt, such as a year, and
    of how well the classifier tells the sets apart. The interval of `by_text` takes records as
    independent. Those of one group are not, nor are scores of one classifier, so an interval above
    0.5 is held against groups dealt anew.
    """
    if by_text is None:
        return False
    if word_p_value(members, others, seed=seed) <= SHIFTED / 2:
        return True
    p = permutation_p_value(members, others, seed=seed) if by_text.low > 0.5 else None
    return p is not None and p <= SHIFTED / 2


def word_p_value(
    members: Sequence[Document], others: Sequence[Document], *, seed: int, draws: int = 399
) -> float:
    """Return how often groups dealt anew have a word as unevenly dealt as the true ones have.

    Groups are cut to like sizes on both sides first: a large one holds more words, and records held
    out one by one leave small ones. The statistic is, of all words, the largest number of groups of
    a side that hold it, less what is expected of so many, over the standard deviation of the
    hypergeometric law.
    """
    import numpy as np

    sides = _of_like_sizes(_grouped(members), _grouped(others), random.Random(f"words {seed}"))
    groups = [
        {w for one in own for w in one.text.casefold().split()} for own in [*sides[0], *sides[1]]
    ]
    counts = Counter(word for words in groups for word in words)
    known = [w for w, n in counts.items() if OFTEN <= n < len(groups)]
    kept = sorted(known, key=lambda word: (-counts[word], word))[:WORDS]
    if not kept:
        return 1.0
    place = {word: number for number, word in enumerate(kept)}
    holds = np.zeros((len(groups), len(kept)), dtype=np.float32)
    for number, words in enumerate(groups):
        holds[number, [place[word] for word in words if word in place]] = 1.0
    whole, ours = len(groups), len(sides[0])
    total = holds.sum(axis=0, dtype=np.float64)
    spread = ours * (whole - ours) * total * (whole - total) / (whole**2 * (whole - 1))
    rng = np.random.default_rng([seed, whole])
    dealt = np.zeros((draws + 1, whole), dtype=np.float32)
    dealt[0, :ours] = 1.0
    for draw in range(1, draws + 1):
        dealt[draw, rng.permutation(whole)[:ours]] = 1.0
    most = np.abs((dealt @ holds - ours * total / whole) / np.sqrt(spread)).max(axis=1)
    return float((1 + (most[1:] >= most[0] - 1e-6).sum()) / (1 + draws))


def _of_like_sizes(
    ours: Sequence[list[Document]], theirs: Sequence[list[Document]], rng: random.Random
) -> list[list[list[Document]]]:
    """Return both sides' groups, each with no more records than its like among the others' has.

    Its like is the group in the same place of the other side, in the order of sizes.
    """
    sides = [sorted(some, key=len) for some in (ours, theirs)]
    cut = []
    for own, other in (sides, sides[::-1]):
        most = [len(other[(2 * at + 1) * len(other) // (2 * len(own))]) for at in range(len(own))]
        ordered = (sorted(group, key=lambda one: one.text) for group in own)
        cut.append([rng.sample(g, min(len(g), n)) for g, n in zip(ordered, most, strict=True)])
    return cut


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
