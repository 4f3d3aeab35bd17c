"""The loss of a batch: transformers' own, of every kind of model that is at hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from standard_models import GROUPED, SIZES
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from fedaudit.engine.training.loss import IGNORED, mean_loss, pad_batch

GPT2 = {"vocab_size": 90, "n_positions": 40, "n_embd": 32, "n_layer": 2, "n_head": 4}
OPT = {"vocab_size": 90, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**GROUPED)),
    "sliding window": lambda: MistralForCausalLM(MistralConfig(**GROUPED, sliding_window=3)),
    "capped logits": lambda: Gemma2ForCausalLM(Gemma2Config(**GROUPED, head_dim=8)),
    "tied": lambda: GPT2LMHeadModel(GPT2Config(**GPT2)),
    "neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**SIZES)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**GROUPED)),
    "positions by mask": lambda: OPTForCausalLM(
        OPTConfig(**OPT, num_attention_heads=4, word_embed_proj_dim=32, max_position_embeddings=40)
    ),
    "alibi": lambda: BloomForCausalLM(
        BloomConfig(vocab_size=90, hidden_size=32, n_layer=2, n_head=4)
    ),
}
ROWS = st.lists(
    st.tuples(st.lists(st.integers(1, 89), min_size=2, max_size=12), st.integers(0, 1)),
    min_size=1,
    max_size=4,
)


def made(kind):
    torch.manual_seed(0)
    return MODELS[kind]().eval().requires_grad_(requires_grad=False)


@pytest.fixture(scope="module")
def llama():
    return made("llama")


@pytest.mark.parametrize("kind", MODELS)
def test_it_is_the_models_own_loss(kind):
    model = made(kind)
    inputs = pad_batch([[5, 9, 30, 7, 8, 4], [3, 4], [17, 2, 20, 44]], [2, 0, 1], "cpu")
    assert float(mean_loss(model, inputs)) == pytest.approx(float(model(**inputs).loss), rel=1e-5)
    assert not model.get_output_embeddings()._forward_pre_hooks


@settings(deadline=None)
@given(ROWS)
def test_it_is_the_mean_over_the_learned_tokens_of_each_sequence_alone(llama, rows):
    sequences, read = [row for row, _ in rows], [begin for _, begin in rows]
    together = float(mean_loss(llama, pad_batch(sequences, read, "cpu")))
    total, tokens = 0.0, 0
    for sequence in sequences:
        ids = torch.tensor([sequence])
        logs = llama(ids).logits[0, :-1].log_softmax(-1)
        # The first token is never foretold, so reading it only leaves nothing else out.
        total -= float(logs.gather(1, ids[0, 1:, None]).sum())
        tokens += len(sequence) - 1
    assert together == pytest.approx(total / tokens, rel=1e-4)


def test_padding_and_what_is_only_read_have_no_label():
    inputs = pad_batch([[1, 2, 3], [4, 5]], [2, 0], "cpu")
    assert inputs["input_ids"].tolist() == [[1, 2, 3], [4, 5, 0]]
    assert inputs["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert inputs["labels"].tolist() == [[IGNORED, IGNORED, 3], [4, 5, IGNORED]]


def test_only_learned_tokens_have_logits(llama):
    seen = []
    head = llama.get_output_embeddings()
    handle = head.register_forward_hook(lambda *given: seen.append(given[-1].shape))
    mean_loss(llama, pad_batch([[1, 2, 3, 4], [5, 6]], [3, 0], "cpu"))
    handle.remove()
    assert seen == [(1, 2, 90)]  # 4 after 1 2 3, and 6 after 5


def test_of_nothing_to_learn_there_is_no_mean(llama):
    assert mean_loss(llama, pad_batch([[1], [2]], [0, 0], "cpu")).isnan()


def test_a_model_that_names_no_output_layer_gives_its_own_loss(llama, monkeypatch):
    inputs = pad_batch([[1, 2, 3], [4, 5]], [0, 0], "cpu")
    expected = float(mean_loss(llama, inputs))
    monkeypatch.setattr(llama, "get_output_embeddings", lambda: None)
    assert float(mean_loss(llama, inputs)) == pytest.approx(expected, rel=1e-6)
