from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.engine.flops import FlopsFormula, flops_formula, forward_flops, training_flops

D, HEADS, KV, HEAD, FF, VOCAB, RANK = 24, 4, 2, 6, 40, 50, 3
"""A model of one layer, small enough to count by hand: its key-value heads are shared by two."""


def llama(**changes):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": D, "intermediate_size": FF, "vocab_size": VOCAB, "head_dim": HEAD}
    heads = {"num_attention_heads": HEADS, "num_key_value_heads": KV, "num_hidden_layers": 1}
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **heads, **changes}))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_embd=D, n_layer=2, n_head=HEADS, vocab_size=VOCAB))


def lora(model, *targets):
    from peft import LoraConfig

    from fedaudit.engine.loading.loader import with_adapter

    model.requires_grad_(False)
    config = LoraConfig(r=RANK, lora_dropout=0.5, target_modules=list(targets))
    config.task_type = "CAUSAL_LM"
    return with_adapter(model, config, "made", trainable=True)


def checkpointed(model):
    """Have the model compute its activations again, as a client's training does."""
    model.enable_input_require_grads()
    inner = model.base_model.model
    enable = getattr(inner, "activation_checkpointing_enable", None)
    (enable or inner.gradient_checkpointing_enable)({"use_reentrant": False})
    return model


def batch(rows, width, padding=0):
    ids = torch.arange(rows * width).reshape(rows, width) % (VOCAB - 3) + 3
    mask = torch.ones_like(ids)
    mask[1:, width - padding :] = 0
    labels = ids.masked_fill(mask == 0, -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def product(rows, inner, columns):
    return 2 * rows * inner * columns


def forward_by_hand(rows, width):
    tokens = rows * width
    projections = product(tokens, D, HEADS * HEAD) * 2 + product(tokens, D, KV * HEAD) * 2
    attention = 2 * rows * HEADS * product(width, HEAD, width)
    return projections + attention + 3 * product(tokens, D, FF) + product(tokens, D, VOCAB)


@pytest.mark.parametrize("shape", [(1, 2), (1, 9), (3, 8)])
def test_a_forward_pass_by_hand(shape):
    assert forward_flops(llama(), batch(*shape)) == forward_by_hand(*shape)


@pytest.mark.parametrize("shape", [(1, 2), (1, 9), (3, 8)])
def test_a_training_step_by_hand(shape):
    """Only q learns: nothing before it, nor keys and values, is differentiated.

    Logits are computed where the next token is learned: not at the last one of a row.
    """
    rows, width = shape
    tokens, learned = rows * width, rows * (width - 1)
    forward = forward_by_hand(*shape) + product(tokens, D, RANK) + product(tokens, RANK, D)
    forward -= product(tokens - learned, D, VOCAB)
    frozen = product(learned, D, VOCAB) + 3 * product(tokens, D, FF) + product(tokens, D, D)
    attention = 2 * rows * HEADS * product(width, HEAD, width)  # of the scores, of the queries
    adapter = 2 * product(tokens, RANK, D) + product(tokens, D, RANK)  # B, its input, A
    found = training_flops(lora(llama(), "q_proj"), batch(*shape))
    assert found == forward + frozen + attention + adapter


MODELS = {
    "shared heads": lambda: lora(llama(num_hidden_layers=2), "q_proj", "v_proj"),
    "all heads": lambda: lora(llama(num_key_value_heads=HEADS, num_hidden_layers=2), "down_proj"),
    "eager": lambda: lora(llama(attn_implementation="eager"), "k_proj", "o_proj"),
    "gpt2": lambda: lora(gpt2(), "c_attn"),
}


@pytest.mark.parametrize(
    ("model", "checkpointing"),
    [*((model, False) for model in MODELS), ("shared heads", True), ("gpt2", True)],
)
@pytest.mark.filterwarnings("ignore:fan_in_fan_out")
def test_four_small_batches_tell_what_any_other_costs(model, checkpointing):
    made = MODELS[model]()
    made = checkpointed(made) if checkpointing else made

    def count(rows, width, learned):
        inputs = batch(rows, width)
        inputs["labels"].flatten()[: width - learned] = -100
        inputs["labels"][1:] = -100
        return training_flops(made, inputs)

    form = flops_formula(count, 2)
    for rows, width, padding in [(1, 3, 0), (2, 17, 0), (2, 17, 5), (5, 40, 39)]:
        inputs = batch(rows, width, padding)
        learned = int((inputs["labels"][:, 1:] != -100).sum())
        assert form.flops(rows, width, learned) == training_flops(made, inputs)


def test_checkpointing_by_hand():
    """The layer runs again, up to the last activation that the backward pass needs.

    The layer's input then has a gradient too: through keys, values, queries and the adapter's A.
    """
    rows, width = shape = (2, 9)
    tokens = rows * width
    layer = forward_by_hand(*shape) - product(tokens, D, VOCAB) - product(tokens, FF, D)
    adapter = product(tokens, D, RANK) + product(tokens, RANK, D)
    keys_and_values = 2 * rows * HEADS * product(width, HEAD, width)
    inputs = product(tokens, D, D) + 2 * product(tokens, KV * HEAD, D) + product(tokens, RANK, D)
    plain = training_flops(lora(llama(), "q_proj"), batch(*shape))
    again = training_flops(checkpointed(lora(llama(), "q_proj")), batch(*shape))
    assert again - plain == layer + adapter + keys_and_values + inputs


def test_fused_attention_is_not_taken_for_free(base):
    """On a CPU, torch counts nothing for the kernel that attention runs in by default."""
    from torch.utils.flop_counter import FlopCounterMode

    inputs = batch(1, 64)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        base.model(**inputs)
    config = base.model.config
    heads, layers = config.num_attention_heads, config.num_hidden_layers
    attention = layers * heads * 2 * product(64, config.head_dim, 64)
    found = forward_flops(base.model, inputs)
    assert found - counter.get_total_flops() in (0, attention)  # 0: a torch that counts it
    halves = [forward_flops(base.model, batch(1, 32)) for _ in range(2)]
    assert found - sum(halves) == attention // 2


def test_counting_leaves_nothing_behind():
    model = lora(llama(), "q_proj", "v_proj")
    model.eval()
    model.base_model.model.lm_head.train()
    modes = [module.training for module in model.modules()]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(4)
    wanted = torch.rand(3)
    torch.manual_seed(4)
    training_flops(model, batch(2, 8))
    forward_flops(model, batch(2, 8))
    assert torch.equal(torch.rand(3), wanted)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_failed_count_leaves_nothing_behind():
    model = lora(llama(), "q_proj")
    model.eval()
    with pytest.raises((IndexError, RuntimeError)):
        training_flops(model, {**batch(2, 8), "input_ids": torch.full((2, 8), VOCAB)})
    assert not any(module.training for module in model.modules())
    assert torch.backends.cuda.flash_sdp_enabled()


COST = st.integers(0, 10**15)


@given(
    st.tuples(COST, COST, COST, COST), st.integers(1, 40), st.integers(1, 64), st.integers(1, 4096)
)
def test_a_form_is_found_again_exactly(costs, step, rows, width):
    true = FlopsFormula(*map(Fraction, costs))
    found = flops_formula(true.flops, step)
    assert found == true
    linear, square, once, head = costs
    layers = rows * (linear * width + square * width**2) + once * width
    assert found.flops(rows, width, 7) == layers + 7 * head


@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 30), st.integers(0, 30))
def test_rows_and_widths_add_up_as_they_should(step, rows, width, learned):
    form = flops_formula(
        FlopsFormula(Fraction(7), Fraction(2), Fraction(0), Fraction(3)).flops, step
    )
    assert form.flops(2 * rows, width, 2 * learned) == 2 * form.flops(rows, width, learned)
    assert form.flops(rows, 2 * width, learned) >= 2 * form.flops(rows, width, 0)
    assert form.flops(0, width, 0) == form.flops(rows, 0, 0) == 0


@pytest.mark.parametrize(
    "count",
    [
        lambda rows, width, _: rows * width**3,
        lambda rows, width, _: rows**2 * width,
        lambda rows, width, _: rows * width + 1,
        lambda rows, width, _: rows * min(width, 16) ** 2,  # attention in a window
        lambda rows, width, learned: rows * width + learned**2,
    ],
)
def test_counts_of_another_form_are_refused(count):
    assert flops_formula(count, 8) is None
