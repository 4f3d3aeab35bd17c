"""How much of clients' updates is their own: what masks the estimates that attribution works with.

    python benchmarks/update_spread.py FEDERATION...

FEDERATION is a folder that `simulate` left, with every client's adapter of every round. An update
is an adapter less the one that its round began with, as one vector u_i. A row has by round
sum |u_i - mean|^2 / sum |u_i|^2: 0 where all clients send the same, 1 - 1/N where the updates of N
clients have nothing in common. An estimate of one client is off by differences between others. The
second list of a row has, by round, the largest cosine of two clients' updates, as products of their
LoRA factors: `attribute` takes two updates for one from a cosine of 0.95 on.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedaudit.attribution.server.stored_updates import start_adapter
from fedaudit.config import registry
from fedaudit.engine.lora.sketch import cosines, sketch_update
from fedaudit.federation import adapters
from fedaudit.federation.folder import open_federation

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TrainedRound:
    """The adapter that a round's clients started from, and those that they sent."""

    start: Path
    clients: list[Path]


def own_share(updates: Array) -> float:
    """Return the share of updates' squared lengths that is not common, of (clients, numbers)."""
    apart = np.square(updates - updates.mean(axis=0)).sum()
    return float(apart / np.square(updates).sum())


def shares(rounds: Sequence[TrainedRound]) -> list[float]:
    """Return the share by round, from the first round on."""
    return [own_share(_updates(trained)) for trained in rounds]


def largest_cosines(rounds: Sequence[TrainedRound]) -> list[float]:
    """Return the largest cosine of two clients' updates by round, from their sketches."""
    tables = [
        cosines({client.name: sketch_update(client, trained.start) for client in trained.clients})
        for trained in rounds
    ]
    return [float(table.fill_diagonal_(-1).max()) for table in tables]


def trained_rounds(folder: Path) -> list[TrainedRound]:
    """Return the rounds of a federation, from the first on."""
    federation = open_federation(folder)
    rule = federation.manifest.aggregation
    aggregator = registry.create("aggregation", str(rule["name"]), rule.get("options"))
    return [
        TrainedRound(
            folder / start_adapter(federation, aggregator, record),
            [folder / client for client in record.clients.values()],
        )
        for record in federation.manifest.rounds[1:]
    ]


def _updates(trained: TrainedRound) -> Array:
    first = _vector(trained.start)
    return np.array([_vector(client) - first for client in trained.clients])


def _vector(folder: Path) -> Array:
    tensors = adapters.read(folder)
    numbers = [tensors[name].double().numpy().ravel() for name in sorted(tensors)]
    return np.concatenate(numbers)


def main() -> None:
    """Print a row for each federation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("federations", type=Path, nargs="+")
    for federation in parser.parse_args().federations:
        rounds = trained_rounds(federation)
        own, alike = (
            " ".join(f"{value:.3f}" for value in values)
            for values in (shares(rounds), largest_cosines(rounds))
        )
        print(f"{federation.name}: {own}; {alike}", flush=True)


if __name__ == "__main__":
    main()
