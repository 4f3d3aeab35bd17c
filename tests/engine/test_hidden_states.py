"""Hidden states against a plain forward of one prompt at a time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig

from fedaudit.engine.loading.loader import load_base, with_adapter
from fedaudit.engine.local import LocalEngine


@pytest.fixture(scope="module")
def engine():
    return LocalEngine(load_base("fedaudit-nano", device="cpu"), batch_size=4, tokens=60)


def plain(engine, prompt, vector=None):
    """Return the state of one prompt, read alone and whole."""
    model = engine.base.model
    embedded = model.get_input_embeddings()(torch.tensor([list(prompt)], dtype=torch.long))
    if vector is not None:
        embedded = torch.cat([embedded, vector[None, None]], dim=1)
    with torch.inference_mode():
        return model.base_model(inputs_embeds=embedded).last_hidden_state[0, -1]


PROMPTS = st.lists(st.lists(st.integers(3, 4000), max_size=20), min_size=1, max_size=6)


@given(PROMPTS, st.lists(st.integers(3, 4000), max_size=6), st.booleans(), st.randoms())
def test_states_are_those_of_a_plain_forward_in_any_order(engine, rests, begin, extra, random):
    prompts = [(*begin, *rest) for rest in rests]
    if not extra and not all(prompts):
        return
    generator = torch.Generator().manual_seed(len(prompts))
    vectors = torch.randn(len(prompts), 160, generator=generator) if extra else None
    found = engine.states(prompts, vectors)
    for row, prompt in enumerate(prompts):
        alone = plain(engine, prompt, None if vectors is None else vectors[row])
        torch.testing.assert_close(found[row], alone, atol=2e-4, rtol=2e-4)
    order = random.sample(range(len(prompts)), len(prompts))
    mixed = engine.states([prompts[i] for i in order], None if vectors is None else vectors[order])
    torch.testing.assert_close(mixed, found[order], atol=2e-4, rtol=2e-4)


def test_what_follows_cannot_change_a_state(engine):
    """The key's token is read without the prompt behind it: a causal model does not look ahead."""
    header, prompt = (1, 5, 6, 7), (8, 9, 10, 11)
    model = engine.base.model
    with torch.inference_mode():
        whole = model.base_model(input_ids=torch.tensor([[*header, *prompt]])).last_hidden_state
    torch.testing.assert_close(
        engine.states([header])[0], whole[0, len(header) - 1], atol=1e-5, rtol=1e-5
    )


def test_adapters_do_not_count(engine):
    """The gate reads the frozen base, whatever adapter answered before."""
    before = engine.states([(1, 5, 6)])
    peft = with_adapter(
        engine.base.model, LoraConfig(r=2, target_modules=["q_proj"]), "one", trainable=False
    )
    for name, weight in peft.named_parameters():
        if "lora_B" in name:
            torch.nn.init.ones_(weight)
    engine.model = peft
    try:
        assert torch.equal(engine.states([(1, 5, 6)]), before)
        changed = engine.base.model.base_model(input_ids=torch.tensor([[1, 5, 6]]))
        assert not torch.allclose(changed.last_hidden_state[0, -1], before[0])
    finally:
        engine.model = peft.unload()


def test_a_prompt_without_tokens_has_no_state(engine):
    with pytest.raises(ValueError, match="without tokens"):
        engine.states([()])
    assert engine.states([]).shape == (0, 160)
