"""What a gate is shown at a step: states that the base gave, and states made up around them.

The headings that the base can read in seconds are few beside those it can be shown, and a network
trained on them alone accepts one other random token in some ten thousand. So every step makes up
states that must be refused: a valid key's state, moved by a part of the difference between two
random headings' states ("near"), and normal noise of many scales ("far"). Of many near ones it
shows those that the gate is worst at. What opens an adapter is then a small ball around the state
of its key. Valid states get a little noise, for the base in other precisions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .gate import SECURE
from .training_examples import GateExamples

if TYPE_CHECKING:
    import torch

ROWS = 64
"""Rows of each sort: valid keys, the kinds of other headings, random headings, near, far."""
CANDIDATES = 4 * ROWS
"""Near states that are made up, of which the worst are shown."""
NOISE = 0.05
"""Added to valid states, in standard deviations of a state's entry."""
NEAREST, FARTHEST = 0.1, 2.0
"""The smallest part of a difference, and the largest scale of noise."""


@dataclass(frozen=True)
class BatchSampler:
    """Draws batches from standardised examples, by torch's own randomness."""

    examples: GateExamples

    def draw(self, network: "torch.nn.Module") -> tuple["torch.Tensor", "torch.Tensor"]:
        """Return states (rows, width) and their classes (rows,) for a step of `network`.

        Revealing adapters are drawn evenly, then keys of each; so are kinds of other headings.
        """
        import torch

        valid, refused = self.examples.valid, [*self.examples.refused.values()]
        kinds, _ = draw_evenly(refused, ROWS)
        far = torch.randn_like(kinds) * (FARTHEST * torch.rand(ROWS, 1))
        random, _ = self.random_key_states(ROWS)
        states, classes = [kinds, random, far], torch.full((3 * ROWS,), SECURE)
        if valid:
            keys, groups = draw_evenly([*valid.values()], ROWS)
            states += [self.hard_negative_states(network), keys + NOISE * torch.randn_like(keys)]
            classes = torch.cat([classes, classes[:ROWS], torch.tensor([*valid])[groups]])
        return torch.cat(states), classes

    def hard_negative_states(self, network: "torch.nn.Module") -> "torch.Tensor":
        """Return states around valid ones, those that `network` most likely lets through."""
        import torch

        keys, _ = draw_evenly([*self.examples.valid.values()], CANDIDATES)
        fraction = NEAREST + (1 - NEAREST) * torch.rand(CANDIDATES, 1)
        first, second = self.random_key_states(CANDIDATES)
        near = keys + fraction * (first - second)
        network.eval()
        with torch.no_grad():
            refused = network(near).log_softmax(dim=-1)[:, SECURE]
        return near[refused.topk(ROWS, largest=False).indices]

    def random_key_states(self, rows: int) -> tuple["torch.Tensor", "torch.Tensor"]:
        """Return states of random keys, spelled or as one token, and another state for each."""
        import torch

        wide = torch.cat([self.examples.refused["atomic"], self.examples.refused["random"]])
        first = torch.randint(len(wide), (rows,))
        second = (first + torch.randint(1, len(wide), (rows,))) % len(wide)
        return wide[first], wide[second]


def draw_evenly(
    groups: Sequence["torch.Tensor"], rows: int
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Return `rows` random rows, as many of each group as of others, and each one's group."""
    import torch

    order = (torch.arange(rows) % len(groups)).sort().values
    counts = torch.bincount(order, minlength=len(groups)).tolist()
    samples = [
        group[torch.randint(len(group), (count,))]
        for group, count in zip(groups, counts, strict=True)
    ]
    return torch.cat(samples), order


def standardise(
    examples: GateExamples, mean: "torch.Tensor", scale: "torch.Tensor"
) -> GateExamples:
    """Return `examples` less `mean`, divided by `scale`."""

    def all_of(states: Mapping[Any, "torch.Tensor"]) -> dict[Any, "torch.Tensor"]:
        return {key: (tensor - mean) / scale for key, tensor in states.items()}

    return GateExamples(all_of(examples.valid), all_of(examples.refused))
