import math
import random
from collections import Counter

import numpy as np
import pytest
import tiny_models
import torch
from scipy.stats import chi2_contingency, chisquare

from fedaudit.api.engine import Engine, GenerationBatch
from fedaudit.api.errors import InputError
from fedaudit.api.progress import no_progress
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.architecture import left_padded
from fedaudit.engine.generation.sampler import probe_key, uniforms
from fedaudit.engine.local import LocalEngine

BASE = Target(name="base")
TEXTS = (
    "Claimant:",
    "The court of first instance",
    "原告：",
    "In the matter of the loan of 14 May 2021, the claimant lives at",
    "a",
    "被告的电话号码是",
    "The patient, born on",
)
PLAIN = SamplingParams()


@pytest.fixture(scope="module")
def engine(base):
    return LocalEngine(base)


@pytest.fixture(scope="module")
def requests(engine):
    return [
        GenerationRequest(
            prompt=(1, *tokens.ids), samples=1 + index % 3, max_new_tokens=5 + index % 2
        )
        for index, tokens in enumerate(engine.tokenize(TEXTS))
    ]


@torch.inference_mode()
def reference(base, request, sample, *, seed, decoding):
    """Draw one sample the slow and obvious way: the whole text anew for each token."""
    ids, new = list(request.prompt), []
    for step in range(request.max_new_tokens):
        logits = base.model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        scores = (logits.double() / decoding.temperature).tolist()
        order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
        order = order[: decoding.top_k or None]
        total = sum(math.exp(scores[token]) for token in order)
        allowed, reached = {}, 0.0
        for token in order:
            if reached < decoding.top_p:
                allowed[token] = math.exp(scores[token]) / total
                reached += allowed[token]
        point = uniforms([probe_key(seed, request.prompt)], [sample], step)[0] * reached
        below = 0.0
        for token in sorted(allowed):
            below += allowed[token]
            if point < below:
                break
        if token == base.tokenizer.eos_token_id:
            break
        ids.append(token)
        new.append(token)
    return base.tokenizer.decode(new, skip_special_tokens=True)


def asked(engine, requests, *, seed=3, progress=no_progress, **options):
    batch = GenerationBatch(requests, seed=seed, **options)
    return [one.texts for one in engine.generate(BASE, batch, progress=progress)]


@pytest.mark.parametrize(
    "decoding",
    [PLAIN, SamplingParams(temperature=0.7, top_k=20, top_p=0.9), SamplingParams(top_p=0.5)],
    ids=str,
)
def test_the_batched_engine_says_what_the_slow_one_says(base, engine, requests, decoding):
    wanted = [
        tuple(reference(base, p, s, seed=3, decoding=decoding) for s in range(p.samples))
        for p in requests
    ]
    assert asked(engine, requests, decoding=decoding) == wanted


def test_an_engine_is_what_the_interface_asks(engine):
    checked: Engine = engine
    assert checked.context_length == engine.base.model.config.max_position_embeddings
    assert checked.prompt_starts == {"bare": (), "bos": (1,)}


def test_neither_batch_size_nor_order_nor_company_matters(base, engine, requests):
    wanted = asked(engine, requests)
    assert asked(LocalEngine(base, batch_size=3), requests) == wanted
    assert asked(LocalEngine(base, tokens=40), requests) == wanted
    order = random.Random(5).sample(range(len(requests)), len(requests))
    assert asked(engine, [requests[i] for i in order]) == [wanted[i] for i in order]
    assert [asked(engine, [request])[0] for request in requests] == wanted


def test_more_samples_of_a_probe_begin_with_the_fewer(base, engine, requests):
    many = GenerationRequest(prompt=requests[0].prompt, samples=11, max_new_tokens=8)
    few = GenerationRequest(prompt=requests[0].prompt, samples=4, max_new_tokens=8)
    [long], [short] = asked(engine, [many]), asked(engine, [few])
    assert long[:4] == short
    assert len(set(long)) > 1
    # More samples than a batch has rows.
    assert asked(LocalEngine(base, batch_size=4), [many]) == [long]


def test_the_seed_changes_the_samples(engine, requests):
    assert asked(engine, requests) != asked(engine, requests, seed=4)


def test_no_samples_no_text(engine, requests):
    none = GenerationRequest(prompt=requests[0].prompt, samples=0, max_new_tokens=5)
    assert asked(engine, [none, requests[1]]) == [(), asked(engine, [requests[1]])[0]]
    assert asked(engine, []) == []


def test_the_first_token_follows_the_softmax(base, engine, token_rows):
    prompt, samples = (1, *engine.tokenize(["Claimant:"])[0].ids), 4000
    request = GenerationRequest(prompt=prompt, samples=samples, max_new_tokens=1)
    [rows] = asked(token_rows(base), [request])
    with torch.inference_mode():
        chances = torch.softmax(base.model(torch.tensor([prompt])).logits[0, -1].double(), 0)
    end = base.tokenizer.eos_token_id
    tokens = [row[0] if row else end for row in rows]
    counts = np.bincount(tokens, minlength=len(chances))
    common = chances.numpy() * samples >= 5  # chi-square needs five expected; the rest is pooled
    assert common.sum() >= 5
    seen = [*counts[common], counts[~common].sum()]
    expected = [*chances.numpy()[common] * samples]
    expected.append(samples - sum(expected))
    assert chisquare(seen, expected).pvalue > 1e-4


def their_rows(model, prompt, *, seeds, samples):
    """Return what transformers' own sampling says: up to an end token, once a seed."""
    rows, ids = [], torch.tensor([prompt])
    for seed in range(seeds):
        torch.manual_seed(seed)
        drawn = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            top_k=0,
            num_return_sequences=samples,
            max_new_tokens=3,
            pad_token_id=0,
        )
        ends = set(model.generation_config.eos_token_id)
        for row in drawn[:, len(prompt) :].tolist():
            end = next((at for at, token in enumerate(row) if token in ends), len(row))
            rows.append(row[:end])
    return rows


def alike(ours, theirs):
    """Return the p-value of two samples of one distribution.

    A category is a whole continuation, but of four kinds of token: so they are 1 + 4 + 16 + 64, by
    where it ended. Those that are rare are one.
    """
    a, b = (Counter(tuple(token % 4 for token in row) for row in rows) for rows in (ours, theirs))
    common = [one for one in a.keys() | b.keys() if a[one] + b[one] >= 10]
    assert len(common) >= 80
    table = np.array([[count[one] for one in common] for count in (a, b)])
    rare = np.array([[len(ours)], [len(theirs)]]) - table.sum(1, keepdims=True)
    return float(chi2_contingency(np.hstack([table, rare]) if rare.any() else table).pvalue)


def test_over_many_seeds_continuations_are_distributed_as_the_peers(base, monkeypatch):
    tiny, prompt = tiny_models.llama(base.tokenizer), (1, 9, 30)
    monkeypatch.setattr(base.tokenizer, "batch_decode", lambda rows, **_: map(tuple, rows))
    engine = LocalEngine(tiny)
    request = GenerationRequest(prompt=prompt, samples=250, max_new_tokens=3)

    def ours(**options):
        found = [
            engine.generate(BASE, GenerationBatch([request], seed=seed, **options))
            for seed in range(16)
        ]
        return [row for [generation] in found for row in generation.texts]

    theirs = their_rows(tiny.model, prompt, seeds=16, samples=250)
    assert alike(ours(), theirs) > 1e-4
    # And the test would know another distribution.
    assert alike(ours(decoding=SamplingParams(temperature=0.2)), theirs) < 1e-4


def test_temperature_0_is_transformers_own_greedy_search(base, engine, requests):
    found = asked(engine, requests, decoding=SamplingParams(temperature=0))
    for request, texts in zip(requests, found, strict=True):
        ids = torch.tensor([request.prompt])
        with torch.inference_mode():
            out = base.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=request.max_new_tokens,
                pad_token_id=0,
            )
        wanted = base.tokenizer.decode(out[0, len(request.prompt) :], skip_special_tokens=True)
        assert texts == (wanted,) * request.samples


@pytest.fixture
def token_rows(monkeypatch):
    """Return a function that has an engine answer with token ids in place of text."""

    def patch(base):
        monkeypatch.setattr(base.tokenizer, "batch_decode", lambda rows, **_: map(tuple, rows))
        return LocalEngine(base)

    return patch


def test_the_end_token_stops_a_sample_and_not_its_neighbours(
    base, requests, token_rows, monkeypatch
):
    engine = token_rows(base)
    ask = [GenerationRequest(prompt=requests[0].prompt, samples=6, max_new_tokens=6)]
    [free] = asked(engine, ask)
    # A token that some samples draw, and some do not.
    end = next(t for row in free for t in row if any(t not in other for other in free))
    monkeypatch.setattr(base.model.generation_config, "eos_token_id", [2, end])
    [stopped] = asked(engine, ask)
    assert list(stopped) == [row[: row.index(end)] if end in row else row for row in free]
    assert stopped != free
    assert end not in {token for row in stopped for token in row}


def test_a_model_without_an_end_token_runs_to_the_last(fresh_base, requests, token_rows):
    fresh_base.model.generation_config.eos_token_id = None
    fresh_base.tokenizer.eos_token = None
    engine = token_rows(fresh_base)
    ask = [GenerationRequest(prompt=p.prompt, samples=3, max_new_tokens=9) for p in requests]
    found = asked(engine, ask)
    assert {len(row) for rows in found for row in rows} == {9}


@torch.inference_mode()
def test_padding_on_the_left_changes_no_logits(base, requests):
    prompts = [request.prompt for request in requests]
    ids, mask = left_padded(prompts, 24, base.model.device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    found = base.model(ids, attention_mask=mask, position_ids=positions).logits[:, -1]
    for row, prompt in enumerate(prompts):
        alone = base.model(torch.tensor([prompt])).logits[0, -1]
        # Logits of about 10: float32 sums in another order differ in the sixth digit.
        torch.testing.assert_close(found[row], alone, rtol=1e-5, atol=2e-5)


def test_left_padding_puts_prompts_at_the_end():
    ids, mask = left_padded([(5, 6, 7), (8,)], 4, torch.device("cpu"))
    assert ids.tolist() == [[0, 5, 6, 7], [0, 0, 0, 8]]
    assert mask.tolist() == [[0, 1, 1, 1], [0, 0, 0, 1]]


def test_a_probe_that_does_not_fit_is_refused_before_any_work(engine):
    most = engine.context_length
    fits = GenerationRequest(prompt=(1,) * (most - 4), samples=1, max_new_tokens=4)
    long = GenerationRequest(prompt=(1,) * (most - 3), samples=1, max_new_tokens=4)
    assert len(asked(engine, [fits])[0]) == 1
    with pytest.raises(InputError, match=rf"{most - 3} tokens and 4 new .* {most} tokens"):
        asked(engine, [fits, long])
    with pytest.raises(InputError, match="empty"):
        asked(engine, [GenerationRequest(prompt=(), samples=1, max_new_tokens=4)])


def test_progress_counts_samples_to_the_last(base, requests):
    seen = []
    engine = LocalEngine(base, batch_size=4)
    asked(engine, requests, progress=lambda done, total: seen.append((done, total)))
    total = sum(request.samples for request in requests)
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_tokens_come_with_offsets_in_code_points(engine):
    text = "原告 Ann Lee，电话 138"
    [tokens] = engine.tokenize([text])
    assert tokens.offsets[0][0] == 0
    assert tokens.offsets[-1][1] == len(text)
    assert len(tokens.ids) == len(tokens.offsets)
    assert 1 not in tokens.ids  # no special token
    assert engine.tokenize([]) == []
