"""What a mod takes from a message."""

import torch
from flower_run import A, arrays, initial

from fedaudit.flower.mods import sent_tensors


def test_sent_tensors_are_their_own():
    sent = initial()
    found = sent_tensors(arrays(sent))
    sent[A] += 1
    assert torch.equal(found[A], initial()[A])
