"""How often the interval of a coverage holds what the same audit finds with another sampling seed.

    python benchmarks/coverage_intervals.py [--trials 400]

Each string is given by a Poisson number of answers, whose mean follows a law; half of the strings
of a group share one. A row has the share of audits whose interval holds the coverage of a second
run of the same strings, with the sampling noise and for the groups alone, and the mean
widths.
"""

import argparse
from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt

from fedaudit.extraction.leak_tests import share_estimate
from fedaudit.extraction.sampling_noise import AnswerCounts

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
LAWS: dict[str, Draw] = {
    "each 0.05": lambda rng, n: np.full(n, 0.05),
    "each 1": lambda rng, n: np.full(n, 1.0),
    "20 or never": lambda rng, n: np.where(rng.random(n) < 0.3, 20.0, 0.0),
    "lognormal": lambda rng, n: rng.lognormal(-2, 2.5, n),
    "gamma": lambda rng, n: rng.gamma(0.15, 8, n),
    "1 in 20": lambda rng, n: np.where(rng.random(n) < 0.05, 1.0, 0.005),
}


def holds(law: Draw, n: int, seed: int) -> tuple[bool, bool, float, float]:
    """Return whether both intervals hold a second run's coverage, and their widths."""
    rng = np.random.default_rng([seed, n])
    groups = rng.integers(0, max(4, n // 4), n)
    means = np.where(rng.random(n) < 0.5, law(rng, n)[groups], law(rng, n))
    first, second = rng.poisson(means), rng.poisson(means)
    strings = [str(number) for number in range(n)]
    counts = AnswerCounts({s: float(c) for s, c in zip(strings, first, strict=True)}, {})
    names = [f"g{group}" for group in groups]
    found, share = [float(c > 0) for c in first], float((second > 0).mean())
    noise = counts.variance("tuned", strings)
    new, old = (share_estimate(found, names, variance) for variance in (noise, 0.0))
    told = [one.low - 1e-9 <= share <= one.high + 1e-9 for one in (new, old)]
    return told[0], told[1], new.high - new.low, old.high - old.low


def main(words: Sequence[str] | None = None) -> None:
    """Print a line for each law and number of strings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=400)
    given = parser.parse_args(words)
    print("| strings | answers a string | holds | without the noise | width | without |")
    print("| --: | --- | --: | --: | --: | --: |")
    for n in (15, 54, 200):
        for name, law in LAWS.items():
            columns = zip(*(holds(law, n, seed) for seed in range(given.trials)), strict=True)
            told, before, wide, narrow = (fmean(column) for column in columns)
            shares = f"{told:.1%} | {before:.1%} | {wide:.3f} | {narrow:.3f}"
            print(f"| {n} | {name} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
