"""How fast SecureGate's gate learns, and what opens it: as published beside this tool's own.

    python benchmarks/gate_designs.py [--base fedaudit-nano FOLDER] [--seeds 1 2 3] [--easy]

The keyring is new with each seed; one revealing adapter. A row has the loss of the first step and,
as shares of it, those after 20 and 50 steps (the mean of five steps up to there), the first step
from which the mean of five is at most a tenth of it, and how many of `--tries` keys open the
adapter: random ones and ones at edit distance 1, each as one token of the private tokenizer, and
random ones as the public tokenizer spells them. With --easy no step of a hardened gate has the
states made up close to a valid key's, of which it otherwise sees those that it is worst at.
"""

import argparse
import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from fedaudit_plugins.defenses.secure_gate import training
from fedaudit_plugins.defenses.secure_gate.gate import FEATURES, GateDesign, TrainedGate
from fedaudit_plugins.defenses.secure_gate.header_features import HeaderReader
from fedaudit_plugins.defenses.secure_gate.keys import Keyring
from fedaudit_plugins.defenses.secure_gate.training import ROWS, BatchSampler
from fedaudit_plugins.defenses.secure_gate.training_examples import neighbour, random_key_text

from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine
from fedaudit.nano import BASE

WINDOW = 5
DESIGNS = (GateDesign(), *(GateDesign(published=True, feature=feature) for feature in FEATURES))


def easy_states(batches: Any, _network: torch.nn.Module) -> Any:
    """Return states of random keys, in place of those made up close to valid ones."""
    return batches.random_key_states(ROWS)[0]


def mean_until(losses: Sequence[float], step: int) -> float:
    """Return the mean of the last steps up to `step`, or up to the end where that is sooner."""
    return fmean(losses[:step][-WINDOW:])


def reached(losses: Sequence[float], share: float) -> int | None:
    """Return the first step whose mean is at most this share of the first loss."""
    steps = range(WINDOW, len(losses) + 1)
    return next((at for at in steps if mean_until(losses, at) <= share * losses[0]), None)


def opened(gate: TrainedGate, reader: HeaderReader, tries: int, seed: int) -> tuple[int, int, int]:
    """Return how many of `tries` wrong keys open an adapter: random, edited, random and spelled."""
    rng = random.Random(f"openings {seed}")
    texts = [random_key_text(rng) for _ in range(tries)]
    [key] = reader.keyring.texts
    near = [neighbour(key, rng) for _ in range(tries)]
    groups = (reader.atomic(texts), reader.atomic(near), reader.spelled_states(texts))
    random_tokens, edits, spelled = (int((gate.decide(group) > 0).sum()) for group in groups)
    return random_tokens, edits, spelled


def main() -> None:
    """Print a row for each base, design and seed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", nargs="+", default=[BASE])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--tries", type=int, default=10_000, help="wrong keys of each kind")
    parser.add_argument("--easy", action="store_true", help="no states close to a valid key's")
    given = parser.parse_args()
    if given.easy:
        BatchSampler.hard_negative_states = easy_states
    print(
        "| base | gate | feature | seed | first loss | after 20 steps | after 50 steps "
        "| a tenth at step | steps | random tokens | edited | random, spelled |"
    )
    print(f"| --- | --- | --- {'| --: ' * 9}|")
    for base in given.base:
        engine = LocalEngine(load_base(base, device="cpu"))
        for design in DESIGNS:
            for seed in given.seeds:
                losses: list[float] = []
                keys = Keyring.new(("revealing",))
                gate = training.train(
                    engine, keys, ("secure", "revealing"),
                    design=design, seed=seed, on_loss=losses.append,
                )  # fmt: skip
                reader = HeaderReader(engine, keys, gate.sigma, design)
                cells = [
                    engine.base.name, "as published" if design.published else "hardened",
                    design.feature, seed, f"{losses[0]:.3f}",
                    *(f"{mean_until(losses, step) / losses[0]:.0%}" for step in (20, 50)),
                    reached(losses, 0.1) or "-", len(losses),
                    *opened(gate, reader, given.tries, seed),
                ]  # fmt: skip
                print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
