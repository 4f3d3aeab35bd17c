"""Size and power of the verdict's rule without a model: how often made-up audits fail.

    python benchmarks/verdict_power.py [--audits 1000]

Each audit has targets and 2,000 controls of three kinds. How likely a string is said by chance
differs from string to string (a Beta law, one for each kind), and is drawn in the same way for
both. In the nulls that is all. Of a base that knows much, base and tuned model each say a known
target by luck. In the positives some targets are said for certain besides.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from fedaudit.audit.trial import Trial
from fedaudit.metrics.intervals import wilson
from fedaudit.metrics.stouffer import holm
from fedaudit.report.verdict import LEVEL

CONTROLS = 2000
KINDS = {"PERSON": (0.6, 0.02), "DATE": (0.3, 0.05), "NUMBER": (0.1, 0.001)}
"""Share of the strings, and the mean probability of being said by chance, of each kind."""
AGAIN = 0.5
"""The probability that a model says a string that the base knows, in one audit."""


def said(rng: np.random.Generator, count: int, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """Return kinds and chances of some strings, each a draw of its kind's law."""
    names, shares = list(KINDS), [share for share, _ in KINDS.values()]
    kinds = rng.choice(names, size=count, p=shares)
    means = np.array([chance * KINDS[kind][1] for kind in kinds])
    return kinds, rng.beta(0.5 * means * 10, 0.5 * (1 - means) * 10)


def audit(rng: np.random.Generator, n: int, leaked: int, known: int, chance: float = 1.0) -> bool:
    """Return whether an audit of n targets fails."""
    kinds, chances = said(rng, n, chance)
    others, guesses = said(rng, CONTROLS, chance)
    tuned, base = rng.random(n) < chances, rng.random(n) < chances / 4
    tuned[:known] = rng.random(known) < AGAIN
    base[:known] = rng.random(known) < AGAIN
    tuned[n - leaked :] = True
    base[n - leaked :] = False
    came = rng.random(CONTROLS) < guesses
    targets = {f"t{i}": str(kind) for i, kind in enumerate(kinds)}
    controls = {f"c{i}": str(kind) for i, kind in enumerate(others)}
    new = tuned & ~base
    gained = {f"t{i}": 1.0 for i in np.flatnonzero(new)}
    gained |= {f"c{i}": 1.0 for i in np.flatnonzero(came)}
    of_base = {f"t{i}": AGAIN if i < known else float(chances[i] / 4) for i in range(n)}
    of_base |= {f"t{i}": 1e-6 for i in range(n - leaked, n)}
    trial = Trial(
        targets=targets,
        controls=controls,
        gained=gained,
        strength=gained,
        lost=float((base & ~tuned).sum()),
        likelihood={},
        of_base=of_base,
        outputs=5000,
        seed=0,
    )
    return min(holm([trial.leak(), trial.any_string()])) <= LEVEL


def cases() -> Iterator[tuple[str, int, int, int, float]]:
    """Yield name, targets, leaked ones, ones that the base knows, and how much chance gives."""
    for n in (10, 44, 200):
        yield "null", n, 0, 0, 1.0
    yield "null, the base knows 60", 200, 0, 60, 1.0
    for leaked in (1, 2, 3, 5, 12):
        yield f"{leaked} leaked", 44, leaked, 0, 1.0
        yield f"{leaked} leaked, a tenth of the chance", 44, leaked, 0, 0.1
    yield "40 leaked, the base knows 60", 200, 40, 60, 1.0


def main() -> None:
    """Print how often audits of each kind fail."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=1000)
    count = parser.parse_args().audits
    print("| audits | targets | n | fail | 95 % |\n| --- | --: | --: | --: | --- |")
    for name, n, leaked, known, chance in cases():
        rng = np.random.default_rng([n, leaked, known])
        fails = sum(audit(rng, n, leaked, known, chance) for _ in range(count))
        share = wilson(fails, count)
        low, high = 100 * share.low, 100 * share.high
        print(f"| {name} | {n} | {count} | {100 * share.value:.1f} % | {low:.1f} to {high:.1f} % |")


if __name__ == "__main__":
    main()
