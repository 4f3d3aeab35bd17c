"""Size and power of the verdict's rule without a model: how often made-up audits fail.

    python benchmarks/verdict_power.py [--audits 1000]

Each audit has targets and 2,000 controls of three kinds. How likely a string is said by chance
differs from string to string (a Beta law, one for each kind), and is drawn in the same way for
both. In the nulls that is all. Of a base that knows much, base and tuned model each say a known
target by luck; controls, which nobody knows, tell nothing of these. The tuned model may say each
of them twice as often, or some more and others less often (a factor with a standard deviation of
one nat). In the positives some targets are said for certain besides.
"""

import argparse
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import numpy as np

from fedaudit.extraction.leak_tests import StringProbabilities, control_uplift
from fedaudit.extraction.significance import LeakEvidence
from fedaudit.metrics.attribution.stouffer import holm
from fedaudit.metrics.intervals import wilson
from fedaudit.report.verdict.policy import LEVEL

CONTROLS = 2000
KINDS = {"PERSON": (0.6, 0.02), "DATE": (0.3, 0.05), "NUMBER": (0.1, 0.001)}
"""Share of the strings, and the mean probability of being said by chance, of each kind."""
CHANGES = ("same", "twice", "shifted")
"""How the tuned model says what the base knows."""


def said(rng: np.random.Generator, count: int, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """Return kinds and chances of some strings, each a draw of its kind's law."""
    names, shares = list(KINDS), [share for share, _ in KINDS.values()]
    kinds = rng.choice(names, size=count, p=shares)
    means = np.array([chance * KINDS[kind][1] for kind in kinds])
    return kinds, rng.beta(0.5 * means * 10, 0.5 * (1 - means) * 10)


def changed(rng: np.random.Generator, known: np.ndarray, how: str) -> np.ndarray:
    """Return the tuned model's chances of strings that the base has with chances `known`."""
    factor = {"same": 1.0, "twice": 2.0, "shifted": np.exp(rng.normal(0, 1, len(known)))}[how]
    return np.asarray(np.minimum(1.0, factor * known))


def audit(
    rng: np.random.Generator,
    *,
    n: int,
    leaked: int,
    known: float,
    count: int,
    how: str,
    chance: float,
) -> bool:
    """Return whether an audit of n targets fails: the base says `count` with chance `known` each.

    The control says them with nearly none.
    """
    kinds, chances = said(rng, n, chance)
    others, guesses = said(rng, CONTROLS, chance)
    of_base = chances / 4
    of_base[:count] = known
    chances[:count] = changed(rng, of_base[:count], how)
    of_base[n - leaked :], chances[n - leaked :] = 0.004, 1.0
    tuned, base = rng.random(n) < chances, rng.random(n) < of_base
    base[n - leaked :] = False
    came, again = rng.random(CONTROLS) < guesses, rng.random(CONTROLS) < guesses / 4
    controls = {f"c{i}": str(kind) for i, kind in enumerate(others)}
    gained = {f"t{i}": 1.0 for i in np.flatnonzero(tuned & ~base)}
    gained |= {f"c{i}": 1.0 for i in np.flatnonzero(came & ~again)}
    both = StringProbabilities(
        tuned={f"c{i}": 1.0 for i in np.flatnonzero(came)},
        base={f"c{i}": 1.0 for i in np.flatnonzero(again)},
        strength={},
    )
    evidence = LeakEvidence(
        targets={f"t{i}": str(kind) for i, kind in enumerate(kinds)},
        controls=controls,
        gained=gained,
        strength=gained,
        likelihood={},
        base_chance={f"t{i}": float(own) for i, own in enumerate(of_base)},
        outputs=5000,
        seed=0,
        uplift=control_uplift(both, controls),
    )
    return min(holm([evidence.leak_p_value(), evidence.any_string_p_value()])) <= LEVEL


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the setting of each kind of audit."""
    plain = {"leaked": 0, "known": 0.0, "count": 0, "how": "same", "chance": 1.0}
    for n in (10, 44, 200):
        yield "null", {**plain, "n": n}
    for known in (0.02, 0.1, 0.5):
        for how in CHANGES:
            name = f"null, the base says 60 with {known:.0%} each, tuned {how}"
            yield name, {**plain, "n": 200, "known": known, "count": 60, "how": how}
    for leaked in (1, 2, 3, 5, 12):
        yield f"{leaked} leaked", {**plain, "n": 44, "leaked": leaked}
        name = f"{leaked} leaked, a tenth of the chance"
        yield name, {**plain, "n": 44, "leaked": leaked, "chance": 0.1}
    own = {**plain, "n": 200, "known": 0.5, "count": 60}
    for leaked in (5, 12, 40):
        yield f"{leaked} leaked, the base says 60 with 50% each", {**own, "leaked": leaked}


def main() -> None:
    """Print how often audits of each kind fail."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=1000)
    count = parser.parse_args().audits
    print("| audits | targets | n | fail | 95 % |\n| --- | --: | --: | --: | --- |")
    for name, how in cases():
        n, rng = how["n"], np.random.default_rng([crc32(name.encode()), how["n"]])
        fails = sum(audit(rng, **how) for _ in range(count))
        share = wilson(fails, count)
        low, high = 100 * share.low, 100 * share.high
        print(f"| {name} | {n} | {count} | {100 * share.value:.1f} % | {low:.1f} to {high:.1f} % |")


if __name__ == "__main__":
    main()
