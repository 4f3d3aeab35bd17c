"""What is built is counted as it is built: modules, and numbers in their parameters and buffers."""

import threading

import pytest
import torch
from torch import nn
from transformers import MptConfig, MptForCausalLM

from fedaudit.api.errors import InputError
from fedaudit.engine.loading.size_bounds import bounded_modules, check_forward


def build():
    """Make three modules in a fourth: 3 x 2 + 3 numbers, 3, 3 and 1 in buffers, and none."""
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, affine=False), nn.ReLU())


def test_what_is_within_the_bound_is_built():
    with bounded_modules("it", modules=3, weights=16):
        assert len(build()) == 3


@pytest.mark.parametrize(
    ("modules", "weights", "what"), [(2, 16, "2 modules"), (3, 15, "15 weigh")]
)
def test_one_more_is_refused(modules, weights, what):
    says = f"^it asks for more than {what}"
    with (
        pytest.raises(InputError, match=says),
        bounded_modules("it", modules=modules, weights=weights),
    ):
        build()
    assert len(build()) == 3  # afterwards nothing is counted


def test_what_another_thread_builds_does_not_count():
    made = []
    with bounded_modules("it", modules=0, weights=0):
        other = threading.Thread(target=lambda: made.append(build()))
        other.start()
        other.join()
    assert len(made) == 1


@pytest.mark.parametrize(("length", "fits"), [(64, True), (300_000_000, False)])
def test_sizes_that_a_forward_pass_uses_first(tmp_path, length, fits):
    config = MptConfig(d_model=16, n_heads=2, n_layers=1, max_seq_len=64, vocab_size=50)
    model = MptForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    model.transformer.max_seq_len = model.config.max_seq_len = length
    for block in model.transformer.blocks:
        block.attn.max_seq_length = length
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    if fits:
        check_forward(model, tmp_path, ids)
        assert model(ids).logits.shape == (2, 4, 50)  # the model itself was not changed
    else:
        with pytest.raises(InputError, match=r"makes a tensor of \d{3},\d{3},\d{3} values"):
            check_forward(model, tmp_path, ids)
