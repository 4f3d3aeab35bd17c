"""How much of a set was used: how often bound and interval of `membership` hold the truth.

    python benchmarks/dataset_usage_calibration.py [--trials 1000]

Bound: made-up scores of groups of 1 to 9 records (means of Student's t with 3 degrees of freedom
around a group's part), 60 or 200 groups on either side, and what training adds in standard
deviations. Prints how often the bound is above the true share, and its mean.

Estimate: made-up probabilities of 2 x 120 records, of which 4, 8 or 16 references had a random
half; what training adds differs by record, and every training moves all records by chance. Prints
how often the interval misses the true share, its mean width, and how often it leaves out 0.
"""

import argparse

import numpy as np

from fedaudit.metrics.privacy import dataset_usage
from fedaudit.metrics.privacy.reference_models import Observations

SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)


def group_means(rng: np.random.Generator, groups: int) -> list[float]:
    """Return the mean score of each of so many groups, half of the variance within them."""
    sizes = rng.integers(1, 10, groups)
    within = [rng.standard_t(3, size).mean() / 3**0.5 for size in sizes]
    return list((rng.normal(size=groups) + within) * 0.5**0.5)


def bound(rng: np.random.Generator, groups: int, effect: float, share: float) -> tuple[float, bool]:
    """Return the bound of one set, and whether it is above the truth."""
    used = round(share * groups)
    claimed = [score + effect * (k < used) for k, score in enumerate(group_means(rng, groups))]
    least = dataset_usage.lower_bound(claimed, group_means(rng, groups))
    return least / groups, least > used


def observed(
    rng: np.random.Generator, models: int, effect: float, share: float
) -> tuple[Observations, float]:
    """Return what the target and its references say of 120 claimed and 120 other records.

    The second value is the share that the target had of the claimed records that a reference
    lacked, the only ones that are asked about.
    """
    count = 240
    hard, gain = rng.normal(-1.5, 0.6, count), rng.normal(effect, 0.3 * effect, count)
    had = np.zeros(count, dtype=bool)
    had[rng.permutation(count // 2)[: round(share * count / 2)]] = True
    trained = np.array([rng.permutation(count) < count // 2 for _ in range(models)]).T
    every = np.column_stack([had, trained])
    logs = hard[:, None] + 0.1 * (
        gain[:, None] * every + rng.normal(size=every.shape) + rng.normal(size=models + 1)
    )
    seen = np.exp(np.minimum(logs, -1e-3))
    population = np.arange(count) >= count // 2
    used = float(had[~trained.all(axis=1) & ~population].mean())
    return Observations(seen[:, 0], seen[:, 1:], trained, population), used


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    trials = parser.parse_args().trials
    rng = np.random.default_rng(58)
    print("| groups | effect | share | bound too high | mean bound |\n"
          "| --- | --- | --- | --- | --- |")  # fmt: skip
    for groups in (60, 200):
        for effect in (0.0, 0.5, 1.0, 2.0):
            for share in (0.0,) if effect == 0 else (0.1, 0.5, 1.0):
                made = [bound(rng, groups, effect, share) for _ in range(trials)]
                least, wrong = np.mean(made, axis=0)
                print(f"| {groups} | {effect} sd | {share:.0%} | {wrong:.1%} | {least:.1%} |",
                      flush=True)  # fmt: skip
    few = max(trials // 10, 1)
    print("\n| references | effect | share | missed | width | leaves out 0 |\n"
          "| --- | --- | --- | --- | --- | --- |")  # fmt: skip
    for models in (4, 8, 16):
        for effect in (0.3, 1.0, 3.0):
            for share in SHARES:
                found = []
                for _ in range(few):
                    seen, used = observed(rng, models, effect, share)
                    try:
                        part, _ = dataset_usage.estimate(seen)
                    except ValueError:  # It cannot be told: everything from 0 to 1.
                        found.append((False, 1.0, False))
                        continue
                    missed = not part.low <= used <= part.high
                    found.append((missed, part.high - part.low, part.low > 0))
                rate, width, above = np.mean(found, axis=0)
                print(f"| {models} | {effect} sd | {share:.0%} | {rate:.0%} | {width:.2f} | "
                      f"{above:.0%} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
