"""How much of clients' updates is their own: what masks the estimates that attribution works with.

    python benchmarks/update_spread.py FEDERATION...

FEDERATION is a folder that `simulate` left, with every client's adapter of every round. An update
is an adapter less the global one that its round began with, as one vector u_i. A row has by round
sum |u_i - mean|^2 / sum |u_i|^2: 0 where all clients send the same, 1 - 1/N where the updates of N
clients have nothing in common. An estimate of one client is off by differences between others. For
FedIT, whose clients go on from the global adapter.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedaudit.federation import adapters, manifest

Array = npt.NDArray[np.float64]


def own_share(updates: Array) -> float:
    """Return the share of updates' squared lengths that is not common, of (clients, numbers)."""
    apart = np.square(updates - updates.mean(axis=0)).sum()
    return float(apart / np.square(updates).sum())


def shares(federation: Path) -> list[float]:
    """Return a federation's share by round, from the first round on."""
    rounds = manifest.read(federation).rounds
    return [
        own_share(_updates(federation / before.adapter, federation / after.adapter))
        for before, after in pairwise(rounds)
    ]


def _updates(start: Path, end: Path) -> Array:
    """Return the updates of the clients whose adapters lie beside a round's global one."""
    first = _vector(start)
    clients = sorted((end.parent / "clients").iterdir())
    return np.array([_vector(client) - first for client in clients])


def _vector(folder: Path) -> Array:
    tensors = adapters.read(folder)
    numbers = [tensors[name].double().numpy().ravel() for name in sorted(tensors)]
    return np.concatenate(numbers)


def main() -> None:
    """Print a row for each federation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("federations", type=Path, nargs="+")
    for federation in parser.parse_args().federations:
        found = " ".join(f"{share:.3f}" for share in shares(federation))
        print(f"{federation.name}: {found}", flush=True)


if __name__ == "__main__":
    main()
