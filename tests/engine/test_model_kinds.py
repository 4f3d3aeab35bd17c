"""Whatever layers a model has, the engine answers as reading each whole text anew does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from random_models import HYBRIDS, UNPADDED, made
from toy_vocabularies import TARGETS, brute_force, toy

from fedaudit.api.engine import GenerationBatch, PrefixProbabilityRequest
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.loading import loader, model_check
from fedaudit.engine.local import LocalEngine

BASE = Target(name="base")
PROMPTS = [[*range(40, 40 + n)] for n in (3, 9, 9, 25)]
PROMPTS[2] = PROMPTS[2][::-1]
NEW = 4


@pytest.fixture(scope="module", params=[*HYBRIDS, *UNPADDED], ids=lambda kind: kind[0])
def engine(request, base):
    model = made(*request.param)
    model_check.check(model, Path("folder"), 80)
    loaded = loader.LoadedBase(request.param[0], Path(), "", model, base.tokenizer)
    return LocalEngine(loaded, batch_size=7)


@torch.inference_mode()
def logits_of(engine, tokens):
    """Return the logits (length, vocabulary) of one text, read by itself."""
    return engine.base.model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]


def greedy(engine, prompt):
    tokens = list(prompt)
    for _ in range(NEW):
        token = int(logits_of(engine, tokens)[-1].argmax())
        if token in engine.base.end_tokens:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


def test_prompts_of_several_lengths_are_continued_as_each_alone(engine):
    questions = [tuple(prompt) for prompt in PROMPTS]
    [found] = engine.answers([BASE], questions, new=NEW)
    assert [list(answer.tokens[0]) for answer in found] == [greedy(engine, p) for p in PROMPTS]


def test_samples_do_not_depend_on_what_shares_their_batch(engine):
    requests = [
        GenerationRequest(prompt=tuple(prompt), samples=3, max_new_tokens=NEW) for prompt in PROMPTS
    ]
    decoding = SamplingParams(temperature=1.0)

    def drawn(requests):
        batch = GenerationBatch(requests, seed=5, decoding=decoding)
        return [answer.texts for answer in engine.generate(BASE, batch)]

    assert drawn(requests) == [texts for request in requests for texts in drawn([request])]


def test_groups_are_scored_as_each_text_alone(engine):
    groups = [[[*range(50, 62), *range(70, 70 + n)] for n in (3, 9)], [PROMPTS[0], PROMPTS[3]]]
    for group, scored in zip(groups, engine.score_groups(BASE, groups), strict=True):
        for text, row in zip(group, scored, strict=True):
            logs = logits_of(engine, text)[:-1].log_softmax(-1)
            expected = logs.gather(-1, torch.tensor(text[1:])[:, None])[:, 0]
            assert np.allclose(row, expected, atol=1e-4)


def test_exact_probabilities_are_those_of_all_token_sequences(engine, request):
    kind, changes = request.node.callspec.params["engine"]
    small = toy("byte-level")
    size = small.model.config.vocab_size
    special = {"vocab_size": size, "bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 2}
    model = made(kind, changes | special)
    model.generation_config.eos_token_id = 0
    model_check.check(model, Path("folder"), 80)
    small = replace(small, model=model)
    prompts = [(1, 4, 5), (1, 9), (1, 12, 4)]
    asked = PrefixProbabilityRequest(prompts, TARGETS, max_new_tokens=2, threshold=1e-300)
    found = LocalEngine(small).prefix_probabilities(BASE, asked)
    for prompt, one in zip(prompts, found, strict=True):
        slow = brute_force(small, prompt, TARGETS, 2, SamplingParams())
        assert one.least == pytest.approx(np.array(slow), abs=1e-6)


def test_states_are_those_of_each_prompt_alone(engine):
    states = engine.states(PROMPTS)
    for prompt, state in zip(PROMPTS, states, strict=True):
        with torch.inference_mode():
            whole = engine.base.model.base_model(input_ids=torch.tensor([prompt]))
        assert torch.allclose(state, whole.last_hidden_state[0, -1].float(), atol=1e-4)
