"""Sketches of updates against the updates themselves."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig

from fedaudit.engine.lora.sketch import PROBES, cosines, sketch_update
from fedaudit.federation import adapters

NAMES = [f"base_model.model.layers.{n}.q_proj" for n in range(40)]


def write(folder, seed, *, rank=4, alpha=8, width=30, out=20, factor=1.0, only_zero=False):
    """Write an adapter of 40 modules with Gaussian numbers; A times `factor`, B divided by it."""
    torch.manual_seed(seed)
    tensors = {}
    for name in NAMES:
        b = torch.zeros(out, rank) if only_zero else torch.randn(out, rank)
        tensors |= {
            f"{name}.lora_A.weight": factor * torch.randn(rank, width),
            f"{name}.lora_B.weight": b / factor,
        }
    config = LoraConfig(
        r=rank, lora_alpha=alpha, target_modules=["q_proj"], task_type="CAUSAL_LM"
    ).to_dict()
    table = {k: sorted(v) if isinstance(v, set) else v for k, v in config.items()}
    adapters.write(tensors, table, folder)
    return folder


def product(folder, scale):
    """Return s B A of all modules as one vector."""
    tensors = {name: t.double() for name, t in adapters.read(folder).items()}
    return torch.cat(
        [
            scale * (tensors[f"{n}.lora_B.weight"] @ tensors[f"{n}.lora_A.weight"]).flatten()
            for n in NAMES
        ]
    )


def test_cosines_are_about_those_of_the_products(tmp_path):
    start = write(tmp_path / "start", 0, rank=2, alpha=4)
    first, second = write(tmp_path / "a", 1), write(tmp_path / "b", 2)
    whole = [product(path, 2.0) - product(start, 2.0) for path in (first, second)]
    expected = float(torch.nn.functional.cosine_similarity(*whole, dim=0))
    assert 0.2 < expected < 0.5  # both left the same start, which was not zero
    table = cosines({path.name: sketch_update(path, start) for path in (first, second)})
    # A cosine of m random numbers scatters by (1 - cos^2) / sqrt(m); here m is 40 * 64.
    assert abs(float(table[0, 1]) - expected) < 4 / (len(NAMES) * PROBES**2) ** 0.5
    assert torch.allclose(table.diagonal(), torch.ones(2, dtype=torch.float64))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write(tmp_path_factory.mktemp("sketch") / "start", 0, only_zero=True)


@pytest.fixture(scope="module")
def plain(start):
    return sketch_update(write(start.parent / "plain", 1), start)


@given(st.floats(0.01, 100))
def test_other_factors_of_the_same_product_give_the_same_sketch(start, plain, factor):
    scaled = sketch_update(write(start.parent / "scaled", 1, factor=factor), start)
    assert torch.allclose(plain, scaled, rtol=1e-4, atol=1e-4 * float(plain.abs().max()))


def test_an_update_of_nothing_has_a_cosine_of_zero_with_all(tmp_path):
    start, other = write(tmp_path / "start", 0), write(tmp_path / "other", 1)
    sketches = {"same": sketch_update(start, start), "other": sketch_update(other, start)}
    assert not sketches["same"].any()
    assert torch.allclose(cosines(sketches), torch.diag(torch.tensor([0.0, 1.0])).double())
