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

WordCounts = tuple[Counter[str], int]
"""In how many texts each word is, and how many texts there are."""

FOLDS = 5
MIN_GROUPS = 20
"""Groups of records that either set must have at least."""
SHIFTED = 0.025
"""The probability, at most, of taking two sets of one source for sets of two, over both tests."""
MIN_GROUPS_PER_WORD, MAX_WORDS = 4, 5_000
"""In how many groups a word must be to count, and how many of the most frequent words do."""
TOO_FEW = f"the texts alone are compared from {MIN_GROUPS} groups of records on either side"


def cross_validated(
    members: Sequence[Document], nonmembers: Sequence[Document], *, seed: int
) -> tuple[list[float], list[float]] | None:
    """Return how much more each text is like other members' than like others'; None for too few.

    Naive Bayes over distinct words with add-one smoothing. Each group of records (a record without
    one is a group) is scored by what was learnt from those of other folds; scores of a fold are
    taken from their median, because folds are not alike.
    """
    sets = [_by_group(documents, name) for name, documents in (("m", members), ("o", nonmembers))]
    if any(len(groups) < MIN_GROUPS for groups in sets):
        return None
    folds = [_folds(list(groups), seed) for groups in sets]
    scores: list[list[float]] = [[], []]
    for fold in range(FOLDS):
        learnt = [
            _frequencies(
                words
                for group, texts in groups.items()
                if fold_of[group] != fold
                for words in texts
            )
            for groups, fold_of in zip(sets, folds, strict=True)
        ]
        scored = [
            [
                _score(words, *learnt)
                for group, texts in groups.items()
                if fold_of[group] == fold
                for words in texts
            ]
            for groups, fold_of in zip(sets, folds, strict=True)
        ]
        middle = median([*scored[0], *scored[1]])
        for side_scores, rows in zip(scores, scored, strict=True):
            side_scores += [score - middle for score in rows]
    return scores[0], scores[1]


def texts_differ(
    members: Sequence[Document],
    nonmembers: Sequence[Document],
    by_text: Estimate | None,
    *,
    seed: int,
) -> bool:
    """Return whether two sets differ in their texts alone; False where they are too few to tell.

    Two tests share the level: of the word that is most unevenly spread over groups, such as a year,
    and of how well the classifier tells the sets apart. The interval of `by_text` takes records as
    independent. Those of one group are not, nor are scores of one classifier, so an interval above
    0.5 is compared with those of randomly reassigned groups.
    """
    if by_text is None:
        return False
    if word_p_value(members, nonmembers, seed=seed) <= SHIFTED / 2:
        return True
    p = permutation_p_value(members, nonmembers, seed=seed) if by_text.low > 0.5 else None
    return p is not None and p <= SHIFTED / 2


def word_p_value(
    members: Sequence[Document], nonmembers: Sequence[Document], *, seed: int, draws: int = 399
) -> float:
    """Return how often randomly reassigned groups have a word as unevenly spread as the true ones.

    Groups are cut to like sizes on both sides first: a large one holds more words, and records held
    out one by one leave small ones. The statistic is, of all words, the largest number of groups of
    a side that hold it, less what is expected of so many, over the standard deviation of the
    hypergeometric law.
    """
    import numpy as np

    sides = _of_like_sizes(
        _group_records(members), _group_records(nonmembers), random.Random(f"words {seed}")
    )
    groups = [
        {w for d in group for w in d.text.casefold().split()} for group in [*sides[0], *sides[1]]
    ]
    counts = Counter(word for words in groups for word in words)
    candidates = [w for w, n in counts.items() if MIN_GROUPS_PER_WORD <= n < len(groups)]
    vocabulary = sorted(candidates, key=lambda word: (-counts[word], word))[:MAX_WORDS]
    if not vocabulary:
        return 1.0
    columns = {word: number for number, word in enumerate(vocabulary)}
    holds = np.zeros((len(groups), len(vocabulary)), dtype=np.float32)
    for number, words in enumerate(groups):
        holds[number, [columns[word] for word in words if word in columns]] = 1.0
    count, ours = len(groups), len(sides[0])
    total = holds.sum(axis=0, dtype=np.float64)
    spread = ours * (count - ours) * total * (count - total) / (count**2 * (count - 1))
    rng = np.random.default_rng([seed, count])
    dealt = np.zeros((draws + 1, count), dtype=np.float32)
    dealt[0, :ours] = 1.0
    for draw in range(1, draws + 1):
        dealt[draw, rng.permutation(count)[:ours]] = 1.0
    most = np.abs((dealt @ holds - ours * total / count) / np.sqrt(spread)).max(axis=1)
    return float((1 + (most[1:] >= most[0] - 1e-6).sum()) / (1 + draws))


def _of_like_sizes(
    members: Sequence[list[Document]], nonmembers: Sequence[list[Document]], rng: random.Random
) -> list[list[list[Document]]]:
    """Return both sides' groups, each cut to at most the size of its counterpart.

    The counterpart is the group of the same rank on the other side, in the order of sizes.
    """
    sides = [sorted(groups, key=len) for groups in (members, nonmembers)]
    cut = []
    for groups, peers in (sides, sides[::-1]):
        most = [
            len(peers[(2 * i + 1) * len(peers) // (2 * len(groups))]) for i in range(len(groups))
        ]
        ordered = (sorted(group, key=lambda d: d.text) for group in groups)
        cut.append([rng.sample(g, min(len(g), n)) for g, n in zip(ordered, most, strict=True)])
    return cut


def permutation_p_value(
    members: Sequence[Document], nonmembers: Sequence[Document], *, seed: int, draws: int = 199
) -> float | None:
    """Return how often reassigned groups are told apart as well as the true ones; None for too few.

    Scores of one classifier are not independent, so an interval of their area may be too narrow;
    this test keeps its level whatever the texts are.
    """
    truth = cross_validated(members, nonmembers, seed=seed)
    if truth is None:
        return None
    member_groups, nonmember_groups = _group_records(members), _group_records(nonmembers)
    groups, count = [*member_groups, *nonmember_groups], len(member_groups)
    rng, area = random.Random(f"texts {seed}"), auc(*truth).value
    as_well = 0
    for _ in range(draws):
        rng.shuffle(groups)
        sides = [[document for group in side for document in group] for side in
                 (groups[:count], groups[count:])]  # fmt: skip
        scores = cross_validated(*sides, seed=seed)
        as_well += scores is not None and auc(*scores).value >= area - 1e-12
    return (1 + as_well) / (1 + draws)


def _group_records(documents: Iterable[Document]) -> list[list[Document]]:
    """Return the records of each group, in the order of names."""
    groups: dict[str, list[Document]] = {}
    for document in documents:
        groups.setdefault(document.group or document.text, []).append(document)
    return [groups[name] for name in sorted(groups)]


def _by_group(documents: Iterable[Document], name: str) -> dict[str, list[list[str]]]:
    """Return the words of each text, by group."""
    groups: dict[str, list[list[str]]] = {}
    for number, document in enumerate(documents):
        words = sorted(set(document.text.casefold().split()))
        groups.setdefault(document.group or f"{name}{number}", []).append(words)
    return dict(sorted(groups.items()))


def _folds(groups: list[str], seed: int) -> dict[str, int]:
    random.Random(f"text baseline {seed}").shuffle(groups)
    return {group: index % FOLDS for index, group in enumerate(groups)}


def _frequencies(texts: Iterable[Sequence[str]]) -> WordCounts:
    counts: Counter[str] = Counter()
    total = 0
    for words in texts:
        counts.update(words)
        total += 1
    return counts, total


def _score(words: Sequence[str], members: WordCounts, nonmembers: WordCounts) -> float:
    """Return the mean log-odds, per word, that a text is a member's."""
    odds = [
        math.log((members[0][word] + 1) / (members[1] + 2))
        - math.log((nonmembers[0][word] + 1) / (nonmembers[1] + 2))
        for word in words
    ]
    return math.fsum(odds) / max(1, len(odds))
