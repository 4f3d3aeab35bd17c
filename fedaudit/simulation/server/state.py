"""The state of server and clients from round to round, and how it corrects gradients."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.defense import Defense
from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import Aggregator, State
from fedaudit.api.secure_aggregation import SecureAggregation
from fedaudit.federation import adapters

if TYPE_CHECKING:
    import torch

STATE = "state.safetensors"
"""A state's file: below a round's `server`, and beside a client's adapter."""


def server_state_path(out: Path, number: int) -> Path:
    """Return the file of the server's state after round `number`."""
    return out / f"rounds/{number:03d}/server" / STATE


def client_state_path(out: Path, number: int, client: str) -> Path:
    """Return the file of a client's state after round `number`, if it took part in it."""
    return out / f"rounds/{number:03d}/clients/{client}" / STATE


def initial_client_state_path(out: Path, number: int, client: str) -> Path:
    """Return the file of a client's state when round `number` begins.

    This is the file from the last earlier round in which the client took part; if there is no such
    round, the returned file does not exist.
    """
    earlier = (client_state_path(out, n, client) for n in range(number - 1, 0, -1))
    return next((path for path in earlier if path.is_file()), client_state_path(out, 0, client))


def check(
    aggregator: Aggregator, secure: SecureAggregation | None, defenses: Sequence[Defense]
) -> None:
    """Refuse a rule with client states if secure aggregation or a defence does not support them."""
    if not aggregator.stateful_clients:
        return
    if secure:
        raise UsageError(
            f"Under {aggregator.name} a client's change of state is a second message, which "
            f"{secure.name} secure aggregation does not sum: leave one of them out."
        )
    for defense in defenses:
        if type(defense).train is not Defense.train:
            raise UsageError(
                f"The aggregation {aggregator.name} corrects the clients' gradients, which the "
                f"training of the defence {defense.name} does not do: choose another of either."
            )
        if type(defense).upload is not Defense.upload:
            raise UsageError(
                f"Under {aggregator.name} a client sends its mean gradient too, which the defence "
                f"{defense.name} leaves as it is: choose another of either."
            )


class GradientCorrection:
    """Corrects a client's gradients in a round, and computes the client's next state from them."""

    def __init__(
        self,
        aggregator: Aggregator,
        weights: "Mapping[str, torch.nn.Parameter]",
        state: State,
        client_state: State,
    ) -> None:
        import torch

        self.aggregator, self.weights, self.own, self.steps = aggregator, weights, client_state, 0
        self.correction = {
            name: tensor.to(weights[name].device, weights[name].dtype)
            for name, tensor in (aggregator.correction(state, client_state) or {}).items()
        }
        self.total = {
            name: torch.zeros_like(parameter, dtype=torch.float32, requires_grad=False)
            for name, parameter in weights.items()
        }

    def correct(self) -> None:
        """Add up the gradients of a step, and then correct them."""
        self.steps += 1
        for name, parameter in self.weights.items():
            if parameter.grad is not None:
                self.total[name] += parameter.grad
            if name in self.correction:
                zero = parameter.detach() * 0.0  # of a tensor that this step did not use
                parameter.grad = self.correction[name] + (
                    zero if parameter.grad is None else parameter.grad
                )

    def final_state(self) -> State:
        """Return the client's own state after the round; without any step, its previous state."""
        if not self.steps:
            return self.own
        mean = {name: (tensor / self.steps).cpu() for name, tensor in self.total.items()}
        return self.aggregator.client_state(self.own, mean)


def collect_states(
    aggregator: Aggregator,
    out: Path,
    number: int,
    state: State,
    examples: Mapping[str, float],
    chosen: Sequence[str],
) -> State:
    """Return the server's state after round `number`, computed from the `chosen` clients'."""
    return aggregator.collect_states(
        state,
        [adapters.read_state(initial_client_state_path(out, number, client)) for client in chosen],
        [adapters.read_state(client_state_path(out, number, client)) for client in chosen],
        [examples[client] for client in chosen],
        list(examples.values()),
    )
