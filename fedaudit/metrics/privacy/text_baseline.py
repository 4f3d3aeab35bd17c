"""Telling two sets of records apart by their texts alone, without any model of language.

Das et al. 2024 (arXiv:2406.16201): where members and others come from different times or sources,
a classifier that never asks the model beats attacks that do.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from statistics import fmean, median

import numpy as np
import numpy.typing as npt

from fedaudit.api.estimates import Estimate
from fedaudit.api.records import Document
from fedaudit.metrics.privacy.roc import auc

WordCounts = tuple[Counter[str], int]
"""In how many texts each word is, and how many texts there are."""

FOLDS = 5
MIN_GROUPS = 20
"""Groups of records that either set must have at least."""
SHIFTED = 0.025
"""The probability, at most, of taking two sets of one source for sets of two, over both tests."""
MIN_GROUPS_PER_WORD, MAX_WORDS = 4, 10_000
"""In how many groups a word or mark must be to count, and how many of the most frequent do."""
WORDS = "words"
KINDS = (WORDS, "dates or numbers", "letter case", "punctuation", "spaces", "length")
"""In what texts may differ, for messages: the words themselves may be secret."""
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
        odds = _log_odds(*learnt)
        scored = [
            [
                math.fsum(map(odds, words)) / max(1, len(words))
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


def area(
    members: Sequence[Document], nonmembers: Sequence[Document], *, seed: int
) -> Estimate | None:
    """Return the area under the curve of `cross_validated`; None for too few groups."""
    scores = cross_validated(members, nonmembers, seed=seed)
    return None if scores is None else auc(*scores)


def refusal(
    members: Sequence[Document],
    nonmembers: Sequence[Document],
    by_text: Estimate | None,
    *,
    seed: int,
) -> str:
    """Return why two sets cannot be compared by a model; empty where `texts_differ` is.

    Any score of a model would tell such sets apart, whatever the model has learnt.
    """
    difference = texts_differ(members, nonmembers, by_text, seed=seed)
    if not difference:
        return ""
    curve = f", area under the curve {by_text.value:.2f}" if by_text else ""
    return (
        "the texts alone, without any model, tell these records from the held-out ones (by "
        f"{difference}{curve})"
    )


def texts_differ(
    members: Sequence[Document],
    nonmembers: Sequence[Document],
    by_text: Estimate | None,
    *,
    seed: int,
) -> str:
    """Return in what two sets differ by their texts alone; empty where nothing shows it.

    Two tests share the level: of the feature that is most unevenly spread over groups, such as a
    year or a capital letter, and of how well the classifier tells the sets apart. The interval of
    `by_text` takes records as independent. Those of one group are not, nor are scores of one
    classifier, so an interval above 0.5 is compared with those of randomly reassigned groups.
    Without `by_text`, for few groups, only the first test is made.
    """
    p, kind = feature_test(members, nonmembers, seed=seed)
    if p <= SHIFTED / 2:
        return kind
    if by_text is None or by_text.low <= 0.5:
        return ""
    by_chance = permutation_p_value(members, nonmembers, seed=seed)
    return WORDS if by_chance is not None and by_chance <= SHIFTED / 2 else ""


def feature_test(
    members: Sequence[Document], nonmembers: Sequence[Document], *, seed: int, draws: int = 399
) -> tuple[float, str]:
    """Return how often reassigned groups have a feature as unevenly spread, and its kind.

    Groups are cut to like sizes on both sides first: a large one holds more words, and records held
    out one by one leave small ones. A feature is a word or mark that a group holds or not, or the
    rank of a group by a number such as the length of its records. The statistic is the largest
    distance, of all features, between a side's sum and its expectation, over the standard deviation
    of the permutation law (the hypergeometric one for a word).
    """
    sides = _of_like_sizes(
        _group_records(members), _group_records(nonmembers), random.Random(f"words {seed}")
    )
    groups = [*sides[0], *sides[1]]
    kinds, columns = _marks([{m for d in group for m in _text_marks(d.text)} for group in groups])
    numbers, ranks = _number_ranks(groups)
    values = np.concatenate([columns, ranks], axis=1)
    count, ours = len(groups), len(sides[0])
    values -= values.mean(axis=0)
    square = (values.astype(np.float64) ** 2).sum(axis=0)
    varied = square > 1e-9
    if count < 2 or not varied.any():
        return 1.0, ""
    values, names = values[:, varied], np.array([*kinds, *numbers])[varied]
    spread = ours * (count - ours) / (count * (count - 1)) * square[varied]
    rng = np.random.default_rng([seed, count])
    dealt = np.zeros((draws + 1, count), dtype=np.float32)
    dealt[0, :ours] = 1.0
    for draw in range(1, draws + 1):
        dealt[draw, rng.permutation(count)[:ours]] = 1.0
    uneven = np.abs(dealt @ values) / np.sqrt(spread)
    most = uneven.max(axis=1)
    p = float((1 + (most[1:] >= most[0] - 1e-4).sum()) / (1 + draws))
    # Of features as uneven as one another the first names the difference: a word before its case.
    return p, str(names[np.flatnonzero(uneven[0] >= most[0] - 1e-4)[0]])


def _text_marks(text: str) -> Iterator[tuple[int, str]]:
    """Yield what a text holds: the index of a kind in KINDS, and a word, number or mark."""
    for word in text.casefold().split():
        yield 0, word
    for token in re.findall(r"\d+|[^\W\d]+", text):
        yield (1 if token.isdecimal() else 2), token
    for mark in re.findall(r"\s+|[^\w\s]|_", text):
        yield (4 if mark.isspace() else 3), mark


def _marks(
    groups: Sequence[set[tuple[int, str]]],
) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Return the kinds of the marks that some but not all groups hold, and which hold each."""
    counts = Counter(mark for marks in groups for mark in marks)
    candidates = [m for m, n in counts.items() if MIN_GROUPS_PER_WORD <= n < len(groups)]
    chosen = sorted(sorted(candidates, key=lambda mark: (-counts[mark], mark))[:MAX_WORDS])
    columns = {mark: number for number, mark in enumerate(chosen)}
    holds = np.zeros((len(groups), len(chosen)), dtype=np.float32)
    for number, marks in enumerate(groups):
        holds[number, [columns[mark] for mark in marks if mark in columns]] = 1.0
    return [KINDS[kind] for kind, _ in chosen], holds


def _number_ranks(
    groups: Sequence[Sequence[Document]],
) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Return the ranks of groups by numbers of their records' texts, from 0 to 1, with kinds.

    A group without a number, such as one that names no year, has the mean rank.
    """
    from scipy.stats import rankdata

    numbers = np.array(
        [np.mean([_text_numbers(d.text) for d in group], axis=0) for group in groups]
    )
    ranks = rankdata(numbers, axis=0, nan_policy="omit") / len(groups)
    ranks = np.where(
        np.isnan(ranks), np.nanmean(np.append(ranks, [[0.5] * 5], axis=0), axis=0), ranks
    )
    return [KINDS[i] for i in (5, 1, 2, 3, 4)], ranks.astype(np.float32)


def _text_numbers(text: str) -> tuple[float, ...]:
    """Return a text's length, its mean year, and shares of capitals, punctuation and spaces."""
    size = max(1, len(text))
    years = [int(year) for year in re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", text)]
    return (
        float(len(text)),
        fmean(years) if years else math.nan,
        sum(map(str.isupper, text)) / size,
        sum(not c.isalnum() and not c.isspace() for c in text) / size,
        sum(map(str.isspace, text)) / size,
    )


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


def _log_odds(members: WordCounts, nonmembers: WordCounts) -> Callable[[str], float]:
    """Return the function that gives the log-odds that a text with a word is a member's."""
    return cache(
        lambda word: (
            math.log((members[0][word] + 1) / (members[1] + 2))
            - math.log((nonmembers[0][word] + 1) / (nonmembers[1] + 2))
        )
    )
