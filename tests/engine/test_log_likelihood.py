import math
import random

import pytest
import torch

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine import scoring
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.scoring import log_probabilities

BASE = Target(name="base")
NEAR = {"rel": 1e-5, "abs": 2e-5}
"""Float32 sums in another order differ in the sixth digit."""


@pytest.fixture(scope="module")
def engine(base):
    return LocalEngine(base)


@pytest.fixture(scope="module")
def sequences():
    rng = random.Random(2)
    return [[rng.randrange(3, 1000) for _ in range(n)] for n in (5, 1, 0, 17, 2, 8, 40, 9, 16, 1)]


@torch.inference_mode()
def slow(model, sequence):
    """Score one sequence alone, without padding, with the softmax in float64."""
    if len(sequence) < 2:
        return []
    logits = model(torch.tensor([sequence]), use_cache=False).logits[0].double()
    table = torch.log_softmax(logits, dim=-1)
    return [float(table[i, token]) for i, token in enumerate(sequence[1:])]


def test_scores_are_those_of_each_sequence_alone(base, engine, sequences):
    found = engine.score(BASE, sequences)
    assert [len(row) for row in found] == [max(0, len(s) - 1) for s in sequences]
    for row, sequence in zip(found, sequences, strict=True):
        assert row == pytest.approx(slow(base.model, sequence), **NEAR)


def test_scores_are_a_log_softmax_in_float64_on_the_same_logits(base):
    sequence = list(range(10, 26))
    with torch.inference_mode():
        logits = base.model(torch.tensor([sequence]), use_cache=False).logits[0].double()
    exact = torch.log_softmax(logits, dim=-1)
    wanted = [float(exact[i, token]) for i, token in enumerate(sequence[1:])]
    # One row that needs no padding: only the softmax itself is in float32.
    [found] = log_probabilities(base.model, [sequence])
    assert found == pytest.approx(wanted, rel=1e-6, abs=5e-6)


@pytest.mark.parametrize("most", [1, 5000])
def test_the_softmax_of_a_long_text_is_computed_in_parts(engine, sequences, monkeypatch, most):
    whole = engine.score(BASE, sequences), engine.token_statistics(BASE, sequences)
    sizes = []
    log_softmax = torch.log_softmax
    monkeypatch.setattr(scoring, "AT_ONCE", most)
    monkeypatch.setattr(
        torch, "log_softmax", lambda x, dim: sizes.append(len(x)) or log_softmax(x, dim=dim)
    )
    found = engine.score(BASE, sequences), engine.token_statistics(BASE, sequences)
    assert found == whole
    assert max(sizes) == max(1, most // engine.vocabulary_size)


def test_how_tokens_stand_among_all_others(base, engine, sequences):
    found = engine.token_statistics(BASE, sequences)
    assert [len(one) for one in found] == [max(0, len(s) - 1) for s in sequences]
    for one, sequence in zip(found, sequences, strict=True):
        if len(sequence) < 2:
            continue
        with torch.inference_mode():
            logits = base.model(torch.tensor([sequence]), use_cache=False).logits[0].double()
        for at, token in enumerate(sequence[1:]):
            chances = torch.softmax(logits[at], -1).tolist()
            logs = [math.log(p) for p in chances]
            mean = math.fsum(p * log for p, log in zip(chances, logs, strict=True))
            spread = math.fsum(p * (g - mean) ** 2 for p, g in zip(chances, logs, strict=True))
            assert one.log_probability[at] == pytest.approx(logs[token], **NEAR)
            assert one.mean[at] == pytest.approx(mean, **NEAR)
            assert one.deviation[at] == pytest.approx(math.sqrt(spread), rel=1e-4, abs=1e-4)
            assert one.first[at] == (max(chances) == chances[token])


def test_the_most_likely_token_is_first(base, engine):
    row = [5, 9, 30]
    with torch.inference_mode():
        best = int(base.model(torch.tensor([row]), use_cache=False).logits[0, -1].argmax())
    [best_of, other] = engine.token_statistics(BASE, [[*row, best], [*row, (best + 1) % 1000]])
    assert (best_of.first[-1], other.first[-1]) == (True, False)


def test_the_mean_is_the_models_own_loss(base, engine):
    ids = torch.tensor([list(range(100, 130))])
    with torch.inference_mode():
        loss = float(base.model(ids, labels=ids).loss)
    [row] = engine.score(BASE, ids.tolist())
    assert -sum(row) / len(row) == pytest.approx(loss, rel=1e-5)


def test_neither_batch_size_nor_order_matters(base, engine, sequences):
    wanted = engine.score(BASE, sequences)
    for tokens in (1, 20, 100_000):
        found = LocalEngine(base, tokens=tokens).score(BASE, sequences)
        for row, other in zip(found, wanted, strict=True):
            assert row == pytest.approx(other, **NEAR)
    backwards = engine.score(BASE, sequences[::-1])[::-1]
    for row, other in zip(backwards, wanted, strict=True):
        assert row == pytest.approx(other, **NEAR)


def test_an_empty_list_and_empty_sequences_have_no_scores(engine):
    assert engine.score(BASE, []) == []
    assert engine.score(BASE, [[], [7], ()]) == [[], [], []]


def test_progress_counts_sequences(base, sequences):
    seen = []
    engine = LocalEngine(base, tokens=16)
    engine.score(BASE, sequences, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(sequences), len(sequences))


def test_a_sequence_longer_than_the_context_is_refused(engine):
    most = engine.context_length
    assert len(engine.score(BASE, [[5] * most])[0]) == most - 1
    with pytest.raises(InputError, match=f"{most} tokens"):
        engine.score(BASE, [[5] * (most + 1)])
