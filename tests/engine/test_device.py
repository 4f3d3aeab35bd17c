"""What goes to a device arrives as it was; CUDA gets it from locked memory, without waiting."""

import numpy as np
import pytest
import torch

from fedaudit.engine.device import to_device

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "numbers", [[3, 1, 2], np.array([3, 1, 2]), torch.tensor([3, 1, 2])], ids=["list", "numpy", "t"]
)
def test_numbers_arrive_as_they_were(numbers):
    there = to_device(numbers, CPU)
    assert there.dtype == torch.int64
    assert there.tolist() == [3, 1, 2]


def test_a_device_may_be_named():
    assert to_device([3, 1, 2], "cpu").device == CPU


def test_a_gpu_copies_from_locked_memory_without_waiting(monkeypatch):
    seen = []

    def pin(self):
        seen.append(("pinned", self.is_contiguous()))
        return self

    def to(self, device, **options):
        seen.append((str(device), options))
        return self

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", to)
    part = np.arange(12).reshape(3, 4)[:, :2]  # no copy of its own: CUDA would make one, unlocked
    assert to_device(part, torch.device("cuda")).tolist() == [[0, 1], [4, 5], [8, 9]]
    assert seen == [("pinned", True), ("cuda", {"non_blocking": True})]
