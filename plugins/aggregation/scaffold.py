"""SCAFFOLD (Karimireddy et al., 2020, algorithm 1): control variates against client drift.

With x the global adapter, y_i a client's, c the server's variate and c_i a client's own, all
variates zero at first, a round of the clients S of N is

    y_i  <- y_i - eta * (g_i(y_i) - c_i + c)              at each of K steps
    c_i' <- c_i - c + (x - y_i) / (K * eta)               (option II)
    x    <- x + rate * mean over S of (y_i - x)
    c    <- c + |S| / N * mean over S of (c_i' - c_i)

Put the first line into the second: c_i' is the mean of the gradients g_i along the way. It is
computed as that mean, which needs no plain SGD to be right: under AdamW (x - y_i) / (K * eta) is a
mean of normalised steps, about 1 in every coordinate, and no gradient at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fedaudit.api import State, Update

from .fedavg import FedAvg

if TYPE_CHECKING:
    import torch

VARIATE = "variate"
"""The name of c in the server's state, and of c_i in a client's."""


@dataclass(frozen=True)
class Scaffold(FedAvg):
    """FedAvg whose clients correct every gradient by c - c_i, so that they drift apart less."""

    name: ClassVar[str] = "scaffold"
    paper: ClassVar[str] = "Karimireddy et al. 2020, arXiv:1910.06378, algorithm 1, option II"
    stateful_clients: ClassVar[bool] = True

    rate: float = 1.0
    """The server's learning rate: how much of the way to the clients' mean it goes."""
    weighting: Literal["examples", "equal"] = "examples"
    """A client's weight in both means: its number of examples, or equal for all (the paper)."""

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError("rate must be above 0.")

    def aggregate(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float]
    ) -> Update:
        """Return x + rate * (mean - x); at rate 1 the mean itself, to the bit."""
        mean = super().aggregate(start, updates, self._effective_weights(weights))
        if self.rate == 1:
            return mean
        return {
            name: (x.double() + self.rate * (mean[name].double() - x.double())).to(x.dtype)
            for name, x in start.items()
        }

    def step(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float], state: State
    ) -> tuple[Update, State]:
        """Return the next adapter; c is left to `collect_states`."""
        return self.aggregate(start, updates, weights), state

    def correction(self, state: State, own: State) -> Update | None:
        """Return c - c_i in float64; None where both are still zero."""
        if not state and not own:
            return None
        c, c_i = state.get(VARIATE, {}), own.get(VARIATE, {})
        names = {**c, **c_i}
        return {
            name: _tensor_of(c, name, like) - _tensor_of(c_i, name, like)
            for name, like in names.items()
        }

    def client_state(self, own: State, gradient: Update) -> State:
        """Return the new c_i: the mean of the client's gradients before their correction."""
        return {VARIATE: gradient}

    def collect_states(
        self,
        state: State,
        before: Sequence[State],
        after: Sequence[State],
        weights: Sequence[float],
        everybody: Sequence[float],
    ) -> State:
        """Return c plus the sum over S of p_i (c_i' - c_i), in float64.

        p_i is a client's share among all N clients, so that c stays the sum of p_i c_i over all of
        them; with equal shares 1 / N this is the paper's |S| / N times the mean over S.
        """
        total, moved = float(sum(self._effective_weights(everybody))), dict(state.get(VARIATE, {}))
        for old, new, weight in zip(before, after, self._effective_weights(weights), strict=True):
            c_i, c_new = old.get(VARIATE, {}), new.get(VARIATE, {})
            for name, tensor in c_new.items():
                change = tensor.double() - _tensor_of(c_i, name, tensor)
                moved[name] = _tensor_of(moved, name, tensor) + weight / total * change
        return {VARIATE: moved} if moved else {}

    def _effective_weights(self, weights: Sequence[float]) -> list[float]:
        return [1.0] * len(weights) if self.weighting == "equal" else list(weights)


def _tensor_of(variate: Update, name: str, like: "torch.Tensor") -> "torch.Tensor":
    """Return a tensor of a variate in float64: zeros where there is none yet."""
    return variate[name].double() if name in variate else like.double() * 0.0
