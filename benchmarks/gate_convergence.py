"""How fast SecureGate's gate learns on a base: its training's loss after so many steps.

    python benchmarks/gate_convergence.py [--base fedaudit-nano FOLDER] [--seeds 1 2 3] [--easy]

The keyring is new with each seed; one revealing adapter. A row has the loss of the first step and,
as shares of it, those after 20 and 50 steps (the mean of five steps up to there), and the first
step from which the mean of five is at most a tenth of it. With --easy no step has the states made
up close to a valid key's, of which the gate otherwise sees those that it is worst at.
"""

import argparse
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from fedaudit_plugins.defenses.secure_gate import training
from fedaudit_plugins.defenses.secure_gate.batches import ROWS, Batches
from fedaudit_plugins.defenses.secure_gate.keys import Keyring

from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine
from fedaudit.nano import BASE

WINDOW = 5


def easy_states(batches: Any, _network: torch.nn.Module) -> Any:
    """Return states of random keys, in place of those made up close to valid ones."""
    return batches.random_key_states(ROWS)[0]


def mean_until(losses: Sequence[float], step: int) -> float:
    """Return the mean of the last steps up to `step`."""
    return fmean(losses[max(0, step - WINDOW) : step])


def reached(losses: Sequence[float], share: float) -> int | None:
    """Return the first step whose mean is at most this share of the first loss."""
    steps = range(WINDOW, len(losses) + 1)
    return next((at for at in steps if mean_until(losses, at) <= share * losses[0]), None)


def main() -> None:
    """Print a row for each base and seed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", nargs="+", default=[BASE])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--easy", action="store_true", help="no states close to a valid key's")
    given = parser.parse_args()
    if given.easy:
        Batches.hard_negative_states = easy_states
    print("| base | seed | first loss | after 20 steps | after 50 steps | a tenth at step |")
    print("| --- | --: | --: | --: | --: | --: |")
    for base in given.base:
        engine = LocalEngine(load_base(base, device="cpu"))
        for seed in given.seeds:
            losses: list[float] = []
            keys = Keyring.new(("revealing",))
            training.train(engine, keys, ("secure", "revealing"), seed=seed, on_loss=losses.append)
            shares = (f"{mean_until(losses, step) / losses[0]:.0%}" for step in (20, 50))
            print(
                f"| {engine.base.name} | {seed} | {losses[0]:.3f} | {' | '.join(shares)} | "
                f"{reached(losses, 0.1) or '-'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
