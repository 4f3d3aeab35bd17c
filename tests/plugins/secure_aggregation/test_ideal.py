"""Ideal sums against a slow loop, and what secure aggregation of any form refuses."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.config import registry

SHAPES = {"l.lora_A.weight": (2, 3), "l.lora_B.weight": (4, 2)}


def federation(values):
    """One client for each value; their tensors differ in every entry."""
    return {
        f"c{i}": {
            name: value * (1 + torch.arange(float(torch.Size(shape).numel())).reshape(shape))
            for name, shape in SHAPES.items()
        }
        for i, value in enumerate(values)
    }


def ideal(**options):
    return registry.create("secure aggregation", "ideal", {"threshold": 2, **options})


def slow(updates, members):
    total = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in SHAPES.items()}
    for who in members:
        for name, tensor in updates[who].items():
            for i in range(tensor.shape[0]):
                for j in range(tensor.shape[1]):
                    total[name][i, j] += tensor[i, j].item()
    return total


def test_by_hand():
    # Entries 1..6 of lora_A by 1 and by 10: their sum is 11 times 1..6.
    (total,) = ideal().sums(federation([1.0, 10.0, 100.0]), [("c0", "c1")])
    assert total["l.lora_A.weight"].tolist() == [[11.0, 22.0, 33.0], [44.0, 55.0, 66.0]]


@given(
    values=st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=7),
    random=st.randoms(use_true_random=False),
)
def test_sums_are_those_of_a_loop_in_any_order(values, random):
    updates = federation(values)
    sets = [tuple(random.sample(sorted(updates), random.randint(2, len(values)))) for _ in range(3)]
    shuffled = [tuple(random.sample(members, len(members))) for members in sets]
    found = ideal().sums(updates, sets)
    for members, total, again in zip(sets, found, ideal().sums(updates, shuffled), strict=True):
        expected = slow(updates, members)
        for name, shape in SHAPES.items():
            assert total[name].shape == shape
            assert total[name].dtype == torch.float32
            assert torch.equal(total[name], again[name])
            torch.testing.assert_close(total[name].double(), expected[name], rtol=1e-5, atol=1e-2)


@given(
    one=st.lists(st.integers(-50, 50), min_size=4, max_size=4),
    other=st.lists(st.integers(-50, 50), min_size=4, max_size=4),
    factor=st.integers(-9, 9),
)
def test_sums_are_linear(one, other, factor):
    # Whole numbers, so that float32 is exact.
    members = [("c0", "c2", "c3")]
    mixed = federation([factor * float(a) + b for a, b in zip(one, other, strict=True)])
    (found,) = ideal().sums(mixed, members)
    (a,), (b,) = (ideal().sums(federation(values), members) for values in (one, other))
    for name in SHAPES:
        assert torch.equal(found[name], factor * a[name] + b[name])


def test_half_precision_is_added_in_float32():
    updates = {
        who: {"w": torch.tensor([value], dtype=torch.float16)}
        for who, value in {"a": 2048.0, "b": 1.0}.items()
    }  # in float16, 2048 + 1 is 2048
    (total,) = ideal().sums(updates, [("a", "b")])
    assert (total["w"].dtype, total["w"].item()) == (torch.float32, 2049.0)


@pytest.mark.parametrize("form", ["ideal", "flower"])
@pytest.mark.parametrize(
    ("members", "message"),
    [
        (("c0", "c1"), "A sum over 2 clients is below the threshold of secure aggregation, 3."),
        ((), "A sum over 0 clients is below the threshold"),
        (("c0", "c1", "c9"), "c9 took no part in the round"),
        (("c0", "c1", "c1"), "more than once"),
    ],
)
def test_sets_that_are_refused_before_anything_is_added(form, members, message):
    secure = registry.create("secure aggregation", form, {"threshold": 3})
    with pytest.raises(UsageError, match=message):
        secure.sums(federation([1.0, 2.0, 3.0]), [("c0", "c1", "c2"), members])


def test_a_threshold_below_one_is_refused():
    with pytest.raises(UsageError, match="threshold must be at least 1"):
        ideal(threshold=0)
