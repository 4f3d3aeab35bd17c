"""How often memorization's verdict fails a pair of clients: where one leaks, and where none does.

    python benchmarks/memorization_pairs.py [--trials 400] [--seed 1]

Of a client's prefixes a share (noise) draws something of any other client, from the tuned
model and, independently, from the base; of c1's a further share draws c2's texts from the tuned
model alone. Of each client's prefixes a share draws its own texts. A row has how often some pair
fails, and how often every pair is within what a pass allows.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from fedaudit.api.records import Measurement
from fedaudit.metrics.intervals import wilson
from fedaudit.report.kinds.memorization import PAIR_LEVEL_SHARE, pair_tests
from fedaudit.report.verdict.criteria import DEFAULT

CASES = (
    (3, 100, 0.05, 0.0, 1.0), (20, 100, 0.05, 0.0, 1.0), (50, 100, 0.05, 0.0, 1.0),
    (3, 100, 0.5, 0.0, 1.0), (10, 400, 0.5, 0.0, 1.0), (5, 40, 0.05, 0.0, 1.0),
    (5, 40, 0.0, 0.0, 1.0), (3, 100, 0.05, 0.12, 1.0), (20, 100, 0.05, 0.12, 1.0),
    (3, 100, 0.05, 0.2, 1.0), (20, 100, 0.05, 0.2, 1.0), (3, 100, 0.05, 0.3, 1.0),
    (20, 100, 0.05, 0.3, 1.0), (50, 100, 0.05, 0.3, 1.0), (3, 100, 0.05, 0.0, 0.5),
    (3, 400, 0.05, 0.0, 0.5), (3, 4000, 0.05, 0.0, 0.5), (3, 4000, 0.05, 0.0, 0.1),
    (3, 4000, 0.0, 0.0, 0.1), (3, 4000, 0.05, 0.0, 0.0),
)  # fmt: skip
"""Clients, prefixes of each, noise, the share of c1's prefixes that draw c2's texts, and the share
of each client's that draw its own, which the base never draws."""


def draw_counts(rng: np.random.Generator, clients: int, prefixes: int, noise: float) -> np.ndarray:
    """Return how many prefixes of each client draw something of each other one, int (n, n)."""
    counts = np.zeros((clients, clients), dtype=int)
    for attacker in range(clients):
        drawn = rng.binomial(prefixes, noise)
        victims = rng.integers(clients - 1, size=drawn)
        np.add.at(counts[attacker], victims + (victims >= attacker), 1)
    return counts


def pair_rows(counts: np.ndarray, prefixes: int, source: str) -> list[Measurement]:
    """Return the row of every pair of clients, as `memorize` reports it."""
    rows = []
    for attacker, victim in np.ndindex(counts.shape):
        hits = int(counts[attacker, victim])
        scope = {"source": source, "category": "all", "attacker": f"c{attacker}",
                 "victim": f"c{victim}"}  # fmt: skip
        rows.append(
            Measurement.rate(
                hits,
                prefixes,
                kind="memorization",
                plugin="memorize",
                metric="mr_pair",
                scope=scope,
            )
        )
    return rows


def judge_federation(
    rng: np.random.Generator, clients: int, prefixes: int, noise: float, leak: float, own: float
) -> tuple[bool, bool]:
    """Return whether a pair fails, and whether all pairs are within what a pass allows."""
    tuned, base = (draw_counts(rng, clients, prefixes, noise) for _ in range(2))
    tuned[1, 2] += rng.binomial(prefixes - tuned[1, 2], leak)
    np.fill_diagonal(tuned, round(own * prefixes))
    rows = [*pair_rows(tuned, prefixes, "tuned"), *pair_rows(base, prefixes, "base")]
    tests = pair_tests(rows, DEFAULT)
    fails = min(test.p for test in tests) <= DEFAULT.level * PAIR_LEVEL_SHARE
    return fails, not fails and not any(test.may_hide(DEFAULT) for test in tests)


def main(words: Sequence[str] | None = None) -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    print("clients, prefixes, noise, leak, own | a pair fails | a pass is open", flush=True)
    for number, case in enumerate(CASES):
        trials = given.trials if case[0] < 50 else max(1, given.trials // 8)
        rng = np.random.default_rng([given.seed, number])
        outcomes = np.array([judge_federation(rng, *case) for _ in range(trials)])
        shares = [wilson(int(column.sum()), trials) for column in outcomes.T]
        told = " | ".join(f"{one.value:.1%} [{one.low:.1%}, {one.high:.1%}]" for one in shares)
        clients, prefixes, noise, leak, own = case
        shown = f"{clients} x {prefixes}, {noise:.0%}, {leak:.0%}, {own:.0%}"
        print(f"{shown} | {told}", flush=True)


if __name__ == "__main__":
    main()
