"""Samples that share a prompt's keys say what each says alone, in every kind of model."""

import itertools

import numpy as np
import pytest
import tiny_models
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from standard_models import GROUPED, MODELS, random_model
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from fedaudit.api.records import GenerationRequest, SamplingParams
from fedaudit.engine import architecture, scheduler
from fedaudit.engine.batching import SampleRange, padded_length
from fedaudit.engine.generation import decoding, kv_cache
from fedaudit.engine.generation import decoding as generate
from fedaudit.engine.generation.sampler import draw, probe_key, uniforms
from fedaudit.engine.generation.sequences import SamplingJob
from fedaudit.engine.memory import BatchSizeFinder

ENDS = list(range(5, 90, 8))
"""So many tokens end a text that texts end at different lengths."""
PROMPTS = [(1, 9, 30), (1, 40, 41, 42, 43, 44, 45), (8,), (1, 9, 31)]
DECODINGS = [
    SamplingParams(),
    SamplingParams(temperature=0.3),
    SamplingParams(top_k=4),
    SamplingParams(temperature=0),
]


@pytest.fixture(scope="module")
def llama():
    return random_model("llama")


@torch.inference_mode()
def slow(model, request, sample, decoding):
    """Draw one sample alone: the whole text is read anew for each token."""
    ids, new = list(request.prompt), []
    for step in range(request.max_new_tokens):
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[:, -1]
        number = uniforms([probe_key(3, request.prompt)], [sample], step)
        token = int(draw(logits, number, decoding))
        if token in ENDS:
            break
        ids.append(token)
        new.append(token)
    return new


def asked(model, requests, batch, decoding, kept=lambda rows: None):
    return generate.decode_batch(model, SamplingJob(requests, 3, decoding, ENDS), batch, kept)


def whole(requests):
    return [SampleRange(index, 0, request.samples) for index, request in enumerate(requests)]


CASES = [(kind, SamplingParams()) for kind in MODELS] + [("llama", one) for one in DECODINGS[1:]]


@pytest.mark.parametrize(("kind", "decoding"), CASES, ids=str)
def test_each_sample_says_what_it_says_alone(kind, decoding):
    model = random_model(kind)
    before = model.config._attn_implementation
    assert architecture.has_standard_attention(model)
    requests = [
        GenerationRequest(prompt=prompt, samples=samples, max_new_tokens=7)
        for prompt, samples in zip(PROMPTS, (6, 1, 3, 4), strict=True)
    ]
    wanted = [slow(model, p, s, decoding) for p in requests for s in range(p.samples)]
    assert asked(model, requests, whole(requests), decoding) == wanted
    assert model.config._attn_implementation == before
    if decoding == SamplingParams():
        assert len({tuple(row) for row in wanted}) > 10
        assert len({len(row) for row in wanted}) > 2  # some ended early


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_keys_that_only_align_the_mask_change_nothing(kind, monkeypatch):
    model, looked = random_model(kind), []
    requests = [GenerationRequest(prompt=prompt, samples=5, max_new_tokens=7) for prompt in PROMPTS]
    wanted = asked(model, requests, whole(requests), SamplingParams())
    advance = kv_cache.KVCache.advance

    def spied(self, parents, group):
        layout = advance(self, parents, group)
        looked.append((layout.shape.length, int(self.used.max()), self.seen.shape[1]))
        return layout

    monkeypatch.setattr(kv_cache.KVCache, "advance", spied)
    monkeypatch.setitem(kv_cache.ALIGNED, "cpu", 8)
    assert asked(model, requests, whole(requests), SamplingParams()) == wanted
    assert all(length == min(-(-used // 8) * 8, room) for length, used, room in looked)
    assert any(length > used for length, used, _ in looked)


def test_copies_and_groups_say_the_same(llama, monkeypatch):
    requests = [GenerationRequest(prompt=p, samples=5, max_new_tokens=9) for p in PROMPTS]
    found = asked(llama, requests, whole(requests), SamplingParams())
    monkeypatch.setattr(architecture, "has_standard_attention", lambda model: False)
    assert asked(llama, requests, whole(requests), SamplingParams()) == found


@settings(max_examples=8, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    first=st.integers(0, 5),
    most=st.sampled_from([1, 7, 30, 256]),
)
def test_neither_the_size_of_groups_nor_the_cut_matters(llama, sizes, first, most):
    requests = [
        GenerationRequest(prompt=prompt, samples=first + size, max_new_tokens=6)
        for prompt, size in zip(PROMPTS, sizes, strict=False)
    ]
    batch = [SampleRange(index, first, request.samples) for index, request in enumerate(requests)]
    before, generate.MAX_GROUP_TOKENS = generate.MAX_GROUP_TOKENS, most
    try:
        found = asked(llama, requests, batch, SamplingParams(temperature=0.7))
    finally:
        generate.MAX_GROUP_TOKENS = before
    wanted = [
        slow(llama, requests[piece.index], sample, SamplingParams(temperature=0.7))
        for piece in batch
        for sample in range(piece.first, piece.last)
    ]
    assert found == wanted


def read(model, monkeypatch):
    """Return the list of what is read from now on, (rows, tokens) by step."""
    seen, forward = [], type(model).forward

    def spy(self, input_ids, **options):
        seen.append(tuple(input_ids.shape))
        return forward(self, input_ids=input_ids, **options)

    monkeypatch.setattr(type(model), "forward", spy)
    return seen


def test_samples_that_drew_the_same_are_one_row(llama, monkeypatch):
    requests = [GenerationRequest(prompt=p, samples=20, max_new_tokens=4) for p in PROMPTS[:2]]
    seen = read(llama, monkeypatch)
    asked(llama, requests, whole(requests), SamplingParams(temperature=0))
    # Two prompts, and then one row for each of them.
    assert seen[0] == (2, 8)
    assert set(seen[1:]) <= {(1, 1), (1, 2)}
    seen.clear()
    found = asked(llama, requests, whole(requests), SamplingParams(temperature=0.5))
    for step, shape in enumerate(seen[1:], start=1):
        ends = [(i // 20, *row[:step]) for i, row in enumerate(found) if len(row) >= step]
        assert shape == (1, len(set(ends)))


def test_rows_say_where_they_come_from(llama):
    told = []
    requests = [GenerationRequest(prompt=p, samples=3, max_new_tokens=3) for p in PROMPTS[:3]]
    found = asked(llama, requests, whole(requests), SamplingParams(), kept=told.append)
    first = [tuple(row[:1]) for row in found]
    rows = sorted({(i // 3, *token) for i, token in enumerate(first) if token})
    assert told[0].tolist() == [prompt for prompt, _ in rows]
    second = sorted({(i // 3, *row[:2]) for i, row in enumerate(found) if len(row) > 1})
    assert told[1].tolist() == [rows.index((prompt, one)) for prompt, one, _ in second]


def test_models_with_another_attention_are_asked_the_other_way():
    torch.manual_seed(1)
    sliding = MistralForCausalLM(MistralConfig(**GROUPED, sliding_window=6)).eval()
    gemma = GemmaForCausalLM(GemmaConfig(**GROUPED, head_dim=8)).eval()
    assert not architecture.has_standard_attention(sliding)
    assert not architecture.has_standard_attention(gemma)
    request = GenerationRequest(prompt=(1, *range(20, 35)), samples=3, max_new_tokens=5)
    for model in (sliding, gemma):
        found = asked(model, [request], [SampleRange(0, 0, 3)], SamplingParams())
        assert found == [slow(model, request, sample, SamplingParams()) for sample in range(3)]


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_positions_that_depend_on_the_longest_row_forbid_it(kind):
    rope = {"rope_type": kind, "rope_theta": 10_000.0, "factor": 2.0}
    rope |= {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4} if kind == "longrope" else {}
    config = LlamaConfig(**GROUPED, rope_parameters=rope, original_max_position_embeddings=40)
    assert not architecture.has_standard_attention(LlamaForCausalLM(config))
    assert architecture.has_standard_attention(LlamaForCausalLM(LlamaConfig(**GROUPED)))


def test_the_keys_of_a_prompt_are_kept_once(llama):
    made_of = []
    real = decoding.KVCache.__init__

    def spy(self, *args):
        real(self, *args)
        made_of.append(self)

    request = GenerationRequest(prompt=PROMPTS[1], samples=10, max_new_tokens=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding.KVCache, "__init__", spy)
        asked(llama, [request], [SampleRange(0, 0, 10)], SamplingParams())
    [groups] = made_of
    # One group: 8 padded tokens of the prompt and 4 of each sample (the fifth is not read).
    assert groups.layers[0].keys.shape == (1, 2, 8 + 4 * 10, 8)


def test_groups_that_have_ended_are_forgotten(llama, monkeypatch):
    kept = []
    real = decoding.KVCache.leave

    def spy(self, stay):
        real(self, stay)
        kept.append((len(stay), len(self.used), len(self.position), len(self.layers[1].values)))

    monkeypatch.setattr(decoding.KVCache, "leave", spy)
    requests = [
        GenerationRequest(prompt=(1, 9 + i, 30), samples=1, max_new_tokens=30) for i in range(16)
    ]
    wanted = [slow(llama, request, 0, SamplingParams()) for request in requests]
    assert asked(llama, requests, whole(requests), SamplingParams()) == wanted
    assert len(kept) >= 3
    assert all(len(set(sizes)) == 1 for sizes in kept)
    sizes = [16, *(size for size, *_ in kept)]
    assert all(4 * after <= 3 * before for before, after in itertools.pairwise(sizes))


MANY = [
    # One to 29 tokens: several padded lengths.
    GenerationRequest(
        prompt=(1 + i, *range(20, 20 + 7 * (i % 5))), samples=1 + 3 * (i % 6 == 0), max_new_tokens=7
    )
    for i in range(17)
]


@pytest.fixture(scope="module")
def wanted(llama):
    rows = {p: [slow(llama, p, s, SamplingParams()) for s in range(p.samples)] for p in MANY}
    assert len({padded_length(len(p.prompt)) for p in MANY}) > 2
    assert len({len(row) for own in rows.values() for row in own}) > 5
    return rows


def taken_in(monkeypatch, rows):
    """Return a list that hears, as prompts are read, how many and if others had gone on."""
    told, admit = [], generate.DecodeLoop.admit

    def spy(course, batch):
        before = course.is_running and bool(course._samples.step.max() > 1)
        admit(course, batch)
        told.append((len(batch), before))
        assert course.sample_count() <= rows

    monkeypatch.setattr(generate.DecodeLoop, "admit", spy)
    return told


@pytest.mark.parametrize("rows", [4, 12, 200])
def test_others_take_the_place_of_what_has_ended(llama, wanted, monkeypatch, rows):
    told = taken_in(monkeypatch, rows)
    job = SamplingJob(MANY, 3, SamplingParams(), ENDS)
    found = {}
    for pieces, tokens in generate.decode_refilled(llama, job, whole(MANY), rows):
        answers = iter(tokens)
        for piece in pieces:
            assert MANY[piece.index] not in found
            found[MANY[piece.index]] = [next(answers) for _ in range(piece.last)]
        assert next(answers, None) is None
    assert found == wanted
    assert sum(count for count, _ in told) == len(MANY)
    # Some came while others went on, where there was room for several but not for all.
    assert any(going for _, going in told) == (rows < 200)


def test_pieces_of_one_prompt_are_its_samples(llama, wanted):
    parts = [
        SampleRange(6, 0, 1),
        SampleRange(6, 1, 3),
        SampleRange(12, 0, 4),
        SampleRange(0, 0, 1),
    ]
    job = SamplingJob(MANY, 3, SamplingParams(), ENDS)
    found = [
        (piece, row)
        for pieces, tokens in generate.decode_refilled(llama, job, parts, 4)
        for piece, row in zip(
            [p for p in pieces for _ in range(p.first, p.last)], tokens, strict=True
        )
    ]
    by_piece = {part: [row for piece, row in found if piece == part] for part in parts}
    assert by_piece == {p: wanted[MANY[p.index]][p.first : p.last] for p in parts}


def test_where_it_cannot_be_refilled_batches_follow_one_another(llama, wanted, monkeypatch):
    monkeypatch.setattr(architecture, "has_standard_attention", lambda model: False)
    told = taken_in(monkeypatch, 12)
    job = SamplingJob(MANY, 3, SamplingParams(), ENDS)
    found = {}
    for pieces, tokens in generate.decode_refilled(llama, job, whole(MANY), 12):
        answers = iter(tokens)
        for piece in pieces:
            found[MANY[piece.index]] = [next(answers) for _ in range(piece.last)]
    assert found == wanted
    assert not any(going for _, going in told)


@pytest.mark.parametrize("after", [1, 5, 14])
def test_what_had_not_ended_when_memory_did_not_suffice_is_begun_again(
    llama, wanted, monkeypatch, after
):
    calls, forward = [], type(llama).forward

    def scarce(self, **given):
        calls.append(given["input_ids"].shape)
        if len(calls) == after:
            raise torch.OutOfMemoryError
        return forward(self, **given)

    monkeypatch.setattr(type(llama), "forward", scarce)
    found = {}
    room = scheduler.Capacity(20, 10_000, BatchSizeFinder())
    for pieces, tokens in scheduler.generate_all(
        llama, SamplingJob(MANY, 3, SamplingParams(), ENDS), room
    ):
        answers = iter(tokens)
        for piece in pieces:
            own = found.setdefault(MANY[piece.index], {})
            own |= {sample: next(answers) for sample in range(piece.first, piece.last)}
    assert {request: [own[i] for i in sorted(own)] for request, own in found.items()} == wanted
    assert room.memory.max_rows(32 + 7) == 10


def test_samples_that_share_a_prompt_share_its_room(llama, monkeypatch):
    told, refilled = [], generate.decode_refilled

    def spy(model, job, waiting, rows, graphs=None):
        told.append(rows)
        return refilled(model, job, waiting, rows, graphs)

    monkeypatch.setattr(generate, "decode_refilled", spy)

    def rows(samples, new):
        requests = [
            GenerationRequest(prompt=(1, *range(30, 50), i), samples=samples, max_new_tokens=new)
            for i in range(5, 15)
        ]
        job = SamplingJob(requests, 3, SamplingParams(), ENDS)
        list(scheduler.generate_all(llama, job, scheduler.Capacity(99, 120, BatchSizeFinder())))
        return told.pop()

    # Prompts of 24 padded tokens: each sample keeps 24 / 6 = 4 of them, and 4 of its own.
    assert rows(6, 4) == 120 // 8
    assert rows(1, 4) == 120 // 28
    # Groups of two: 10 tokens together.
    monkeypatch.setattr(generate, "MAX_GROUP_TOKENS", 10)
    assert rows(6, 4) == 120 // 16
    monkeypatch.setattr(architecture, "has_standard_attention", lambda model: False)
    assert rows(6, 4) == 120 // 28


def test_groups_count_samples_piece_by_piece():
    group, owner = decoding.group_samples([5, 1, 4], 2)
    assert group.tolist() == [0, 0, 1, 1, 2, 3, 4, 4, 5, 5]
    assert owner.tolist() == [0, 0, 0, 1, 2, 2]
    group, owner = decoding.group_samples([3], 8)
    assert (group.tolist(), owner.tolist()) == ([0, 0, 0], [0])


@pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-5), ("bfloat16", 0.03)])
@torch.inference_mode()
def test_logits_are_those_of_a_whole_text(dtype, near):
    model = random_model("llama").to(getattr(torch, dtype))
    logits, mask, cache = generate.prefill(model, PROMPTS)
    assert logits.shape == (4, 90)
    owner, told = np.array([0, 2, 3]), []
    rows = decoding.SharedPrefixRows(model, told.append, room=6)
    assert rows.join(cache, mask, owner) == 0
    group, tokens = np.array([0, 0, 1, 2, 2, 2]), np.array([4, 4, 9, 8, 10, 4])
    first, own = rows.grow(group, owner[group], tokens)
    assert own.tolist() == [0, 0, 1, 3, 4, 2]
    assert told[0].tolist() == [0, 2, 3, 3, 3]
    second, last = rows.grow(group[1:], own[1:], tokens[1:] + 1)
    for sample, (which, token) in enumerate(zip(owner[group], tokens, strict=True)):
        texts = [[*PROMPTS[which], token], [*PROMPTS[which], token, token + 1]]
        found = [first[own[sample]]] + ([second[last[sample - 1]]] if sample else [])
        for one, text in zip(found, texts, strict=False):
            alone = model(input_ids=torch.tensor([text])).logits[0, -1]
            assert one.dtype == alone.dtype
            scale = float(alone.float().abs().max())
            torch.testing.assert_close(one, alone, rtol=0, atol=near * scale)


def test_the_built_in_base_is_asked_in_groups(base):
    assert architecture.has_standard_attention(base.model)
    assert architecture.has_standard_attention(tiny_models.llama(base.tokenizer).model)
