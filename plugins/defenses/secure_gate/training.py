"""Training a gate: cross-entropy with a margin on lessons, and on states made up around them.

Headings that the base reads are few beside what it could be shown, and a network that has seen only
those accepts one other random token in some ten thousand. So every step also makes up states that
must be refused: a valid key's state moved by a part of the difference between two others ("near"),
and normal noise of many scales ("far"). They close in what opens an adapter to a small ball around
the state of its key. Valid states are shown with a little noise, for bases in other precisions.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedaudit.errors import InputError

from .gate import SECURE, Gate, network
from .headers import Reader, sigma_of
from .keys import Keyring
from .lessons import Lessons, lessons

if TYPE_CHECKING:
    import torch

    from fedaudit.engine.local import LocalEngine

TAU = 0.9
COUNT, HELD_OUT = 192, 64
"""Examples of each kind to learn from, and to be tested on."""
ROWS = 128
"""Rows of a step that show valid keys; twice as many show others, and as many are made up."""
STEPS, EVERY = 1500, 25
"""The most steps, and after how many the held-out lessons are looked at."""
RATE, DECAY = 1e-3, 1e-2
MANY = 4
MARGIN = 3.0
"""By how much the right logit must be ahead of where cross-entropy would want it."""
NOISE = 0.05
"""Added to valid states, in standard deviations of a state's entry."""
SURE = 0.999
"""Training may stop when everything held out is decided rightly with this probability."""


def train(
    engine: "LocalEngine",
    keyring: Keyring,
    adapters: Sequence[str],
    *,
    tau: float = TAU,
    seed: int = 0,
    old: Sequence[str] = (),
) -> Gate:
    """Return a gate between `adapters` (the secure one first) for the keys of `keyring`.

    `old` are keys that must not open anything any more. Raises InputError where the base's states
    do not let valid keys be told from others.
    """
    sigma = sigma_of(engine)
    reader = Reader(engine, keyring, sigma)
    taught = lessons(reader, adapters, old, COUNT, random.Random(f"gate {seed}"))
    held_out = lessons(reader, adapters, old, HELD_OUT, random.Random(f"held out {seed}"))
    with _own_randomness(seed):
        gate = _untrained(reader, adapters, taught, tau)
        for step in _steps(gate, taught):
            if step % EVERY == 0 and sure(gate, held_out, SURE):
                return gate
    if not sure(gate, held_out, max(tau, 0.5)):
        raise InputError(
            f"The gate does not learn to tell the keys from others on the base {engine.base.name}."
        )
    return gate


def sure(gate: Gate, held_out: Lessons, level: float) -> bool:
    """Return whether `gate` gives every lesson's right class a probability above `level`."""
    classes = {**held_out.valid}
    valid = all(
        bool((gate.probabilities(states)[:, index] > level).all())
        for index, states in classes.items()
    )
    return valid and all(
        bool((gate.probabilities(states)[:, SECURE] > level).all())
        for states in held_out.refused.values()
    )


def _untrained(reader: Reader, adapters: Sequence[str], taught: Lessons, tau: float) -> Gate:
    """Return a gate that standardises by the lessons that show no valid key."""
    import torch

    refused = torch.cat([*taught.refused.values()])
    return Gate(
        network=network(reader.width, len(adapters)),
        mean=refused.mean(dim=0),
        scale=refused.std(dim=0).clamp_min(1e-6),
        adapters=tuple(adapters),
        sigma=reader.sigma,
        tau=tau,
    )


def _steps(gate: Gate, taught: Lessons) -> Iterator[int]:
    """Train `gate` in place, and yield the number of each step that is done."""
    import torch
    from torch.nn.functional import cross_entropy, one_hot

    optimizer = torch.optim.AdamW(gate.network.parameters(), lr=RATE, weight_decay=DECAY)
    valid = {index: (s - gate.mean) / gate.scale for index, s in taught.valid.items()}
    refused = {kind: (s - gate.mean) / gate.scale for kind, s in taught.refused.items()}
    for step in range(1, STEPS + 1):
        states, classes = _batch(gate.network, valid, refused)
        gate.network.train()
        margins = MARGIN * one_hot(classes, len(gate.adapters))
        loss = cross_entropy(gate.network(states) - margins, classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield step


def _batch(net,
    valid: Mapping[int, "torch.Tensor"], refused: Mapping[str, "torch.Tensor"]
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Return standardised states (rows, width) and their classes (rows,).

    Revealing adapters are drawn evenly, and then their keys; so are the kinds of other headings.
    """
    import torch

    kinds, _ = _drawn([*refused.values()], ROWS)
    wide = torch.cat([refused["atomic"], refused["random"]])
    pick = lambda n: wide[torch.randint(len(wide), (n,))]
    others = torch.cat([kinds, pick(ROWS)])
    far = torch.randn_like(kinds) * (0.2 + 1.8 * torch.rand(ROWS, 1))
    if not valid:
        states = torch.cat([others, far])
        return states, torch.full((len(states),), SECURE)
    keys, order = _drawn([*valid.values()], ROWS)
    shown = keys + NOISE * torch.randn_like(keys)
    many = MANY * ROWS
    part = 0.1 + 0.9 * torch.rand(many, 1)
    k2, _ = _drawn([*valid.values()], many)
    near = k2 + part * (pick(many) - pick(many))
    near = near[torch.randperm(many)]
    if MANY > 1:
        net.eval()
        with torch.no_grad():
            z = net(near).log_softmax(1)[:, 0]
        near = near[z.topk(ROWS, largest=False).indices]
    states = torch.cat([shown, others, near, far])
    classes = torch.full((len(states),), SECURE)
    classes[:ROWS] = torch.tensor([*valid])[order]
    return states, classes


def _drawn(groups: Sequence["torch.Tensor"], rows: int) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Return `rows` random states, evenly of the groups, and the number of each one's group."""
    import torch

    order = (torch.arange(rows) % len(groups)).sort().values
    counts = order.bincount().tolist()
    drawn = [
        group[torch.randint(len(group), (count,))]
        for group, count in zip(groups, counts, strict=False)
    ]
    return torch.cat(drawn), order


@contextmanager
def _own_randomness(seed: int) -> Iterator[None]:
    """Seed torch, in one thread: with more of them, the same seed gives other gates."""
    import torch

    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
