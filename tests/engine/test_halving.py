"""A batch that does not fit is halved, what fitted is remembered, and no answer changes."""

from types import SimpleNamespace

import numpy as np
import pytest
import tiny_models
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Gemma4TextConfig, GPT2Config, LlamaConfig, MambaConfig

from fedaudit.api.engine import GenerationBatch, PrefixProbabilityRequest
from fedaudit.api.errors import BatchTooLargeError, InputError
from fedaudit.api.records import GenerationRequest, Target
from fedaudit.engine import memory
from fedaudit.engine.batching import SampleRange, rows_of, split_batch
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.memory import BatchSizeFinder, is_out_of_memory

BASE = Target(name="base")
NO_MEMORY = (
    "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory"
)
ERRORS = [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError(NO_MEMORY), MemoryError()]


@pytest.fixture(scope="module")
def tiny(base):
    return tiny_models.llama(base.tokenizer)


@pytest.fixture
def small(tiny, monkeypatch):
    """Return a function that gives the model room for so many tokens; it says what was tried."""
    forward = type(tiny.model).forward
    monkeypatch.setattr(memory.gc, "collect", int)  # there is nothing to give back

    def limit(most, error=ERRORS[0]):
        tried = []

        def scarce(self, input_ids, **options):
            tried.append(input_ids.numel())
            if input_ids.numel() > most:
                raise error
            return forward(self, input_ids=input_ids, **options)

        monkeypatch.setattr(type(tiny.model), "forward", scarce)
        return tried

    return limit


def asked(engine):
    prompts = [(1, 9, 30), (5, 6), (40, 41, 42, 43, 44, 45, 46, 47, 48), (1, 200, 3)]
    requests = [
        GenerationRequest(prompt=p, samples=3 + i, max_new_tokens=4) for i, p in enumerate(prompts)
    ]
    return engine.generate(BASE, GenerationBatch(requests, seed=1))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_samples_are_drawn_in_halves_and_stay_the_same(tiny, small, error):
    wanted = asked(LocalEngine(tiny))
    engine = LocalEngine(tiny)
    tried = small(17, error)
    assert asked(engine) == wanted
    failed = [tokens for tokens in tried if tokens > 17]
    assert failed
    assert len(failed) <= 4  # 18 rows, 9, 4 and 2: not the 512 that there would be room for
    tried.clear()
    assert asked(engine) == wanted
    assert max(tried) <= 17  # nothing is tried again that has failed


@pytest.fixture
def targets(tiny, tmp_path):
    """Two adapters, and the base between them."""
    folders = [tiny_models.write(tiny, tmp_path / str(i), r=3 + i, seed=i) for i in range(2)]
    one, other = (Target(name=str(folder), adapter=str(folder)) for folder in folders)
    return [one, BASE, other]


def test_adapters_together_are_halved_too(tiny, small, targets):
    questions = [[1, 9, 30], [5, 6], [1, 200, 3], [77, 78], [9, 9]]
    wanted = LocalEngine(tiny).answers(targets, questions, new=5)
    assert len({tuple(own) for own in wanted}) == 3
    tried = small(24)
    assert LocalEngine(tiny).answers(targets, questions, new=5) == wanted
    assert max(tried) > 24
    assert tried[-1] <= 24


def test_scores_stay_the_same(tiny, small):
    sequences = [list(range(i + 1, i + 8)) for i in range(9)] + [[4] * 20]
    wanted = LocalEngine(tiny).score(BASE, sequences)
    engine = LocalEngine(tiny)
    tried = small(24)
    found = engine.score(BASE, sequences)
    for row, other in zip(found, wanted, strict=True):
        assert row == pytest.approx(other, rel=1e-5, abs=1e-5)
    tried.clear()
    engine.score(BASE, sequences)
    assert max(tried) <= 24


def test_groups_begin_again_with_less(tiny, small):
    begin = list(range(10, 27))
    groups = [[[*begin, g, i, 7] for i in range(9)] for g in (40, 50)] + [[[4, 5], [6, 7]]]
    wanted = LocalEngine(tiny).score_groups(BASE, groups)
    engine, told = LocalEngine(tiny), []
    tried = small(40)
    found = engine.score_groups(BASE, groups, progress=lambda *counts: told.append(counts))
    for group, other in zip(found, wanted, strict=True):
        for row, right in zip(group, other, strict=True):
            assert row == pytest.approx(right, rel=1e-5, abs=1e-5)
    assert told[-1] == (20, 20)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    tried.clear()
    engine.score_groups(BASE, groups)
    assert max(tried) <= 40


def test_walks_begin_again_with_less(tiny, small):
    prompts = [(1, 9, 30 + i) for i in range(5)] + [(40, *range(50, 60))]
    ways = {"max_new_tokens": 3, "threshold": 1e-4, "trials": [50] * 6, "seed": 5}
    wanted = LocalEngine(tiny).prefix_probabilities(
        BASE, PrefixProbabilityRequest(prompts, ["Ann", "the bank"], **ways)
    )
    assert all(one.rows > 1 for one in wanted)
    engine, told = LocalEngine(tiny), []
    tried = small(40)
    found = engine.prefix_probabilities(
        BASE,
        PrefixProbabilityRequest(prompts, ["Ann", "the bank"], **ways),
        progress=lambda *counts: told.append(counts),
    )
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.least, other.least, rtol=1e-4)
        np.testing.assert_allclose(one.most, other.most, rtol=1e-4)
        np.testing.assert_array_equal(one.drawn, other.drawn)
    assert told[-1] == (6, 6)
    assert max(tried) > 40
    tried.clear()
    engine.prefix_probabilities(
        BASE, PrefixProbabilityRequest(prompts, ["Ann", "the bank"], **ways)
    )
    assert max(tried) <= 40


def test_states_are_read_in_halves(tiny, monkeypatch):
    prompts = [(1, 9, 30 + i, *range(i % 3)) for i in range(12)]
    wanted = LocalEngine(tiny).states(prompts)
    forward, tried = type(tiny.model.base_model).forward, []

    def scarce(self, inputs_embeds=None, **options):
        if inputs_embeds is not None:
            tried.append(len(inputs_embeds))
            if len(inputs_embeds) > 3:
                raise torch.OutOfMemoryError
        return forward(self, inputs_embeds=inputs_embeds, **options)

    monkeypatch.setattr(type(tiny.model.base_model), "forward", scarce)
    engine = LocalEngine(tiny)
    torch.testing.assert_close(engine.states(prompts), wanted, atol=1e-5, rtol=1e-5)
    assert max(tried) == 4
    tried.clear()
    engine.states(prompts)
    assert max(tried) <= 3


def test_one_row_that_does_not_fit_is_said_in_a_line(tiny, small):
    small(2)
    with pytest.raises(InputError, match=r"One row of \d+ tokens does not fit into memory\."):
        asked(LocalEngine(tiny))
    with pytest.raises(InputError, match="One row of 8 tokens"):
        LocalEngine(tiny).score(BASE, [[1, 2, 3]])
    with pytest.raises(InputError, match=r"A single row does not fit into memory\."):
        LocalEngine(tiny).score_groups(BASE, [[[*range(1, 20), i] for i in range(3)]])
    engine = LocalEngine(tiny)
    before = engine._limits.current
    with pytest.raises(BatchTooLargeError, match=r"A single row does not fit into memory\."):
        engine.prefix_probabilities(
            BASE, PrefixProbabilityRequest([(1, 9, 30)], ["Ann"], max_new_tokens=3)
        )
    assert engine._limits.current == before  # something shorter may fit


def test_another_error_is_nobodys_memory(tiny, small):
    small(1, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    engine = LocalEngine(tiny)
    with pytest.raises(RuntimeError, match="mat1"):
        asked(engine)
    with pytest.raises(RuntimeError, match="mat1"):
        engine.score_groups(BASE, [[[*range(20), i] for i in range(3)]])
    assert not is_out_of_memory(ValueError(NO_MEMORY))


def test_a_length_knows_what_was_too_much_for_shorter_ones():
    known = BatchSizeFinder()

    def work(part):
        if rows_of(part) > 3:
            raise torch.OutOfMemoryError
        return rows_of(part)

    parts = list(known.run(16, [SampleRange(0, 0, 7), SampleRange(1, 0, 5)], work))
    assert [found for _, found in parts] == [3, 3, 3, 3]
    assert [known.max_rows(length) for length in (8, 16, 24)] == [None, 3, 3]
    [only] = known.run(8, [SampleRange(0, 0, 3)], work)
    assert only == ([SampleRange(0, 0, 3)], 3)


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    room=st.integers(1, 12),
    before=st.integers(0, 3),
)
def test_every_sample_is_worked_on_once_and_in_order(sizes, room, before):
    batch = [SampleRange(index, before, before + size) for index, size in enumerate(sizes)]

    def work(part):
        if rows_of(part) > room:
            raise MemoryError
        return [(piece.index, n) for piece in part for n in range(piece.first, piece.last)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "free_memory", lambda: None)  # there is nothing to give back
        found = [place for _, places in BatchSizeFinder().run(8, batch, work) for place in places]
    assert found == [(piece.index, n) for piece in batch for n in range(piece.first, piece.last)]


def test_a_batch_is_cut_where_it_is_full():
    batch = [SampleRange(4, 2, 5), SampleRange(1, 0, 4)]
    assert list(split_batch(batch, 5)) == [
        [SampleRange(4, 2, 5), SampleRange(1, 0, 2)],
        [SampleRange(1, 2, 4)],
    ]
    assert list(split_batch(batch, 9)) == [batch]
    assert list(split_batch([], 3)) == []


def test_how_many_tokens_fit_by_hand(monkeypatch):
    config = LlamaConfig(
        hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2
    )
    # Keys and values of 3 layers, 2 heads, 16 numbers of 4 bytes: 768 bytes a token.
    model = SimpleNamespace(config=config, dtype=torch.float32)
    monkeypatch.setattr(memory, "CACHE", 768 * 50_000 + 700)
    assert memory.tokens(model) == 50_000
    assert memory.tokens(SimpleNamespace(config=config, dtype=torch.bfloat16)) == 100_001
    monkeypatch.setattr(memory, "CACHE", 768)
    assert memory.tokens(model) == memory.FEWEST
    monkeypatch.setattr(memory, "CACHE", 2**40)
    assert memory.tokens(model) == memory.MOST


def test_a_model_that_names_no_key_heads_has_as_many_as_others(monkeypatch):
    config = GPT2Config(n_embd=64, n_layer=2, n_head=4)  # 2 x 2 x 64 x 4 = 1,024 bytes a token
    monkeypatch.setattr(memory, "CACHE", 1024 * 40_000)
    assert memory.tokens(SimpleNamespace(config=config, dtype=torch.float32)) == 40_000


@pytest.mark.parametrize("config", [MambaConfig(), Gemma4TextConfig()], ids=lambda c: c.model_type)
def test_a_model_without_one_size_of_head_holds_the_fewest(config):
    model = SimpleNamespace(config=config, dtype=torch.float32)
    assert memory.tokens(model) == memory.FEWEST


def test_what_a_card_holds_at_once_by_hand(monkeypatch):
    config = LlamaConfig(
        hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2
    )
    card = torch.device("cuda:0")
    # 384 bytes a token in bfloat16.
    model = SimpleNamespace(config=config, dtype=torch.bfloat16, device=card)
    room = {"mem_get_info": 0, "memory_reserved": 3000, "memory_allocated": 1000}

    def free(count):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (count, 2**40))
        for name in ("memory_reserved", "memory_allocated"):
            monkeypatch.setattr(torch.cuda, name, lambda _device, name=name: room[name])
        return memory.tokens_on_card(model), memory.logits_at_once(model, 1000)

    # What torch keeps and does not use, 2,000 bytes, is free as well; a quarter is for tokens.
    assert free(4 * 384 * 200_000 + 4 * 384 - 2001)[0] == 200_000
    assert free(0) == (memory.MOST, 1000)
    assert free(120 * 5000 - 2000)[1] == 5000
    assert free(2**50) == (memory.MOST_ON_CARD, 16_000)


def test_a_card_continues_as_many_rows_as_their_logits_have_room(monkeypatch):
    config = LlamaConfig(vocab_size=1000)
    model = SimpleNamespace(config=config, device=torch.device("cuda:0"))
    monkeypatch.setattr(memory, "free_on_card", lambda _device: 8 * 12 * 1000 * 3000)
    assert memory.rows_on_card(model) == 3000
    monkeypatch.setattr(memory, "free_on_card", lambda _device: 0)
    assert memory.rows_on_card(model) == memory.FEWEST_ROWS_ON_CARD
    monkeypatch.setattr(memory, "free_on_card", lambda _device: 2**50)
    assert memory.rows_on_card(model) == memory.MOST_ROWS_ON_CARD


def test_a_card_is_not_asked_about_other_devices():
    config = LlamaConfig(hidden_size=64, num_hidden_layers=3, num_attention_heads=4)
    model = SimpleNamespace(config=config, dtype=torch.float32, device=torch.device("cpu"))
    assert memory.logits_at_once(model, 1000) == 1000
    assert memory.tokens_on_card(model) == memory.MOST
    odd = SimpleNamespace(config=MambaConfig(), dtype=torch.float32, device=torch.device("cpu"))
    assert memory.tokens_on_card(odd) == memory.MOST
