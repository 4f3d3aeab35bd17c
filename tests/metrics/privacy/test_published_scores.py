"""Scores against the published formulas, spelt out token by token on the same logits.

Read in swj0419/detect-pretrain-code (loss, zlib, reference, Min-K %), zjysteven/mink-plus-plus
(Min-K %++), JetBrains-Research/ez-mia and iamgroot42/mimir (neighbourhood).
"""

import math
import random
import zlib

import pytest
import torch

from fedaudit.engine.scoring import _statistics
from fedaudit.metrics.privacy import membership_scores

VOCABULARY = 7
TEXT = "What was read of the record, and again: what was read of the record."
NEAR = {"rel": 2e-4, "abs": 2e-5}
"""The engine's softmax is in float32."""


def logits(seed, length):
    rng = random.Random(seed)
    rows = [[rng.gauss(0, 2) for _ in range(VOCABULARY)] for _ in range(length)]
    return rows, [rng.randrange(VOCABULARY) for _ in range(length)]


def logs(row):
    total = math.log(sum(math.exp(value) for value in row))
    return [value - total for value in row]


def statistics(rows, tokens):
    """What the engine says of the same logits."""
    return _statistics(torch.tensor(rows), torch.tensor(tokens))


def nll(rows, tokens):
    """The loss of transformers: the mean over all tokens that something stands before."""
    total = 0.0
    for row, token in zip(rows, tokens, strict=True):
        total -= logs(row)[token]
    return total / len(tokens)


def lowest(values, ratio):
    """The published code takes `int(length * ratio)` of the sorted values."""
    kept = int(len(values) * ratio)
    return sum(sorted(values)[:kept]) / kept if kept else None


def published_min_k(rows, tokens):
    return lowest([logs(row)[token] for row, token in zip(rows, tokens, strict=True)], 0.2)


def published_min_k_plus_plus(rows, tokens):
    units = []
    for row, token in zip(rows, tokens, strict=True):
        every = logs(row)
        mu = sum(math.exp(one) * one for one in every)
        sigma = sum(math.exp(one) * one**2 for one in every) - mu**2
        units.append((every[token] - mu) / math.sqrt(sigma))
    return lowest(units, 0.2)


def published_error_zone(rows, base, tokens):
    positive = negative = 0.0
    wrong = 0
    for at, token in enumerate(tokens):
        top = rows[at].index(max(rows[at]))
        if at == 0 or top == token:  # at 0 because of ignore_bos
            continue
        wrong += 1
        delta = logs(rows[at])[token] - logs(base[at])[token]
        positive += max(delta, 0.0)
        negative += max(-delta, 0.0)
    return positive / (negative + 1e-12) if wrong >= 2 and negative > 0 else 0.0


@pytest.mark.parametrize("length", [5, 6, 9, 10, 24, 30])
@pytest.mark.parametrize("seed", range(4))
def test_every_score_is_the_published_one(length, seed):
    rows, tokens = logits(seed, length)
    base, _ = logits(seed + 100, length)
    ours, theirs = statistics(rows, tokens), statistics(base, tokens)
    own, reference = ours.log_probability, theirs.log_probability
    loss = nll(rows, tokens)
    assert membership_scores.loss(own) == pytest.approx(-loss, **NEAR)
    size = len(zlib.compress(bytes(TEXT, "utf-8")))
    assert membership_scores.zlib_ratio(own, TEXT) == pytest.approx(-loss / size, **NEAR)
    gain = nll(base, tokens) - loss
    assert membership_scores.reference_ratio(own, reference) == pytest.approx(gain, **NEAR)
    assert membership_scores.min_k(own) == pytest.approx(published_min_k(rows, tokens), **NEAR)
    wanted = published_min_k_plus_plus(rows, tokens)
    assert membership_scores.min_k_plus_plus(ours) == pytest.approx(wanted, **NEAR)
    wanted = published_error_zone(rows, base, tokens)
    assert membership_scores.error_zone(own, reference, ours.first) == pytest.approx(wanted, **NEAR)


def test_the_published_loss_and_that_of_its_neighbours():
    rows, tokens = logits(1, 12)
    near = [logits(seed, 12) for seed in (2, 3, 4)]
    wanted = sum(nll(*one) for one in near) / 3 - nll(rows, tokens)
    found = membership_scores.neighbourhood(
        statistics(rows, tokens).log_probability,
        [statistics(*one).log_probability for one in near],
    )
    assert found == pytest.approx(wanted, **NEAR)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_text_of_which_a_fifth_is_no_token_counts_its_least_likely_one(length):
    """The published code takes the mean of nothing there, which is not a number."""
    rows, tokens = logits(5, length)
    assert published_min_k(rows, tokens) is None
    ours = statistics(rows, tokens)
    assert membership_scores.min_k(ours.log_probability) == min(ours.log_probability)


def test_where_the_first_token_is_the_only_one_below_the_base():
    """EZ-MIA leaves it out as if it were a BOS token, so that no token is below, and says 0."""
    ours = statistics([[0.0, 5.0]] * 4, [0] * 4)
    base = [ours.log_probability[0] + 1, *(one - 1 for one in ours.log_probability[1:])]
    assert membership_scores.error_zone(ours.log_probability, base, ours.first) == 0


def test_of_equally_likely_tokens_none_is_an_error():
    """The published code takes the first of the vocabulary for the likeliest: one error here."""
    tied = statistics([[1.0, 1.0]] * 3, [1, 0, 1])
    assert list(tied.first) == [True, True, True]
