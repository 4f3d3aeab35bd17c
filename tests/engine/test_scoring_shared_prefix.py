"""Groups that begin alike score as each sequence does alone, at a fraction of the reading."""

import random
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine import local
from fedaudit.engine.batching import STEP
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.loading.loader import LoadedBase
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.scoring import common_prefix

BASE = Target(name="base")
NEAR = {"rel": 1e-5, "abs": 3e-5}
"""Float32 sums in another order differ in the sixth digit."""

SIZES = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 200,
}


def tiny(kind, **config):
    torch.manual_seed(3)
    made = {
        "llama": (LlamaConfig, LlamaForCausalLM),
        "mistral": (MistralConfig, MistralForCausalLM),
    }
    make, model = made[kind]
    return model(make(**SIZES, **config)).eval().requires_grad_(False)


@pytest.fixture(scope="module", params=["nano", "llama", "sliding window"])
def model(request, base):
    if request.param == "nano":
        return base
    small = tiny("llama") if request.param == "llama" else tiny("mistral", sliding_window=20)
    return LoadedBase("tiny", Path(), "", small, base.tokenizer)


@pytest.fixture(scope="module")
def groups():
    rng = random.Random(5)

    def tokens(count):
        return [rng.randrange(3, 290) for _ in range(count)]

    found = []
    for before, after in ((40, 12), (9, 30), (63, 0), (17, 70), (100, 3), (0, 20)):
        begin, rest = tokens(before), tokens(after)
        found.append([[*begin, *tokens(rng.randrange(1, 12)), *rest] for _ in range(4)])
    long = tokens(50)
    found += [
        [long, long, long[:30]],  # equal ones, and one that begins another
        [tokens(20)],  # one alone
        [],
        [[], [7], tokens(3)],
        [tokens(12), tokens(12)],  # nothing in common
    ]
    return found


@torch.inference_mode()
def slow(model, sequence):
    """Score one sequence alone, unpadded, with the softmax in float64."""
    if len(sequence) < 2:
        return []
    logits = model(torch.tensor([sequence]), use_cache=False).logits[0].double()
    table = torch.log_softmax(logits, dim=-1)
    return [float(table[i, token]) for i, token in enumerate(sequence[1:])]


def close(found, wanted):
    assert [[len(row) for row in group] for group in found] == [
        [len(row) for row in group] for group in wanted
    ]
    for group, other in zip(found, wanted, strict=True):
        for row, right in zip(group, other, strict=True):
            assert row == pytest.approx(right, **NEAR)


def test_scores_are_those_of_each_sequence_alone(model, groups):
    wanted = [[slow(model.model, sequence) for sequence in group] for group in groups]
    close(LocalEngine(model).score_groups(BASE, groups), wanted)


def test_neither_batch_size_nor_order_matters(model, groups):
    wanted = LocalEngine(model).score_groups(BASE, groups)
    for bounds in ({"tokens": 1}, {"tokens": 200}, {"batch_size": 3}):
        close(LocalEngine(model, **bounds).score_groups(BASE, groups), wanted)
    backwards = LocalEngine(model).score_groups(BASE, [group[::-1] for group in groups[::-1]])
    close([group[::-1] for group in backwards[::-1]], wanted)


def test_an_adapter_answers_for_itself(fresh_base, adapter, groups):
    engine: Engine = LocalEngine(fresh_base)
    tuned = Target(name="tuned", adapter=str(adapter))
    found = engine.score_groups(tuned, groups)
    close(found, [engine.score(tuned, group) for group in groups])
    assert found[0][0] != pytest.approx(engine.score_groups(BASE, groups)[0][0], abs=0.1)


def watched(engine, groups, monkeypatch):
    """Return the shape (rows, tokens) of everything that goes through the model."""
    seen = []
    forward = type(engine.base.model).forward

    def spy(self, input_ids, **options):
        seen.append(tuple(input_ids.shape))
        return forward(self, input_ids=input_ids, **options)

    monkeypatch.setattr(type(engine.base.model), "forward", spy)
    engine.score_groups(BASE, groups)
    return seen


def test_what_is_shared_is_read_once(base, monkeypatch):
    begin = list(range(10, 91))  # 81: all but the last are 80, which needs no padding
    group = [[*begin, 100 + i, 5, 6, 7] for i in range(20)]
    assert watched(LocalEngine(base), [group], monkeypatch) == [(1, 80), (20, 8)]
    monkeypatch.undo()
    seen = watched(LocalEngine(base, batch_size=8), [group], monkeypatch)
    assert seen == [(1, 80), (8, 8), (8, 8), (4, 8)]


def test_groups_of_one_length_share_a_batch(base, monkeypatch):
    groups = [[[*range(g, g + 33), 200 + i] for i in range(5)] for g in (10, 40, 70)]
    assert watched(LocalEngine(base), groups, monkeypatch) == [(3, 32), (15, 8)]


def test_logits_and_cache_keep_to_their_bounds(base, groups, monkeypatch):
    vocabulary = base.model.config.vocab_size
    monkeypatch.setattr(local, "LOGITS", 160 * vocabulary)
    seen = watched(LocalEngine(base, tokens=400), groups, monkeypatch)
    assert max(rows * length for rows, length in seen) <= 160
    monkeypatch.undo()
    # Two rows of 64 cached tokens and 8 new ones are what 150 tokens allow.
    group = [[*range(10, 75), 100 + i, 3] for i in range(5)]
    seen = watched(LocalEngine(base, tokens=150), [group], monkeypatch)
    assert seen == [(1, 64), (2, 8), (2, 8), (1, 8)]


def test_progress_counts_sequences(base, groups):
    told = []
    LocalEngine(base, tokens=300).score_groups(
        BASE, groups, progress=lambda done, total: told.append((done, total))
    )
    total = sum(map(len, groups))
    assert told[-1] == (total, total)
    assert told == sorted(told)


def test_a_sequence_longer_than_the_context_is_refused(base):
    engine = LocalEngine(base)
    most = engine.context_length
    group = [[5] * most, [5] * (most - 1) + [6]]
    assert [len(row) for row in engine.score_groups(BASE, [group])[0]] == [most - 1] * 2
    with pytest.raises(InputError, match=f"{most} tokens"):
        engine.score_groups(BASE, [[[5] * (most + 1)]])


def test_the_beginning_leaves_everyone_a_token():
    common = list(range(STEP + 5))
    assert common_prefix([[*common, 90], [*common, 91, 1]]) == tuple(common)
    assert common_prefix([common, [*common, 91]]) == tuple(common[:-1])
    assert common_prefix([common, common]) == tuple(common[:-1])


@pytest.mark.parametrize("group", [[], [[]], [[1] * 40], [[1] * STEP, [1] * STEP + [2]], [[], [1]]])
def test_what_is_short_or_alone_is_not_shared(group):
    assert common_prefix(group) == ()


def test_the_fake_scores_groups_as_it_scores_sequences():
    engine = FakeEngine(lambda *_: "", likelihood=lambda target, token, before: -len(token))
    rows = [t.ids for t in engine.tokenize(["one two three", "one two", ""])]
    told = []
    found = engine.score_groups(
        BASE, [rows[:2], [], rows[2:]], progress=lambda *counts: told.append(counts)
    )
    assert found == [engine.score(BASE, rows[:2]), [], [[]]]
    assert told[-1] == (3, 3)
