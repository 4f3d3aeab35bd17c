"""Size and power of the verdict on membership: shares of made-up audits.

    python benchmarks/membership_calibration.py [--trials 1000]

Scores of members and others are drawn by groups: a group's own shift (normal), a record's noise
(Student's t with 3 degrees of freedom, scaled), 1 to 9 records a group. Under the null nothing else
differs. A leak adds a shift to all members, in units of a record's noise, or to a share of them as
much as makes them stand above everybody. It prints how often each verdict is given.
"""

import argparse
from collections import Counter
from collections.abc import Sequence

import numpy as np

from fedaudit.api.records import Measurement
from fedaudit.metrics.privacy.membership_tests import permutation_p_values
from fedaudit.metrics.privacy.roc import tpr_at_fpr
from fedaudit.report.verdict.policy import verdict

AT = {"score": "reference", "source": "tuned", "records": "victim"}
DRAWS = 999


def side(rng: np.random.Generator, groups: int, within: float) -> tuple[np.ndarray, list[str]]:
    """Return the scores of one side and their groups; `within` is the share that groups explain."""
    sizes = rng.integers(1, 10, groups)
    shifts = np.repeat(rng.normal(0, within**0.5, groups), sizes)
    noise = rng.standard_t(3, sizes.sum()) / 3**0.5 * (1 - within) ** 0.5
    return shifts + noise, [str(name) for name in np.repeat(np.arange(groups), sizes)]


def audit(
    rng: np.random.Generator, groups: int, within: float, shift: float, share: float, seed: int
) -> str:
    """Return the verdict on a made-up audit."""
    (members, first), (others, second) = (side(rng, groups, within) for _ in range(2))
    members = members + shift
    members = np.where(rng.random(len(members)) < share, members + 50.0, members)
    found = permutation_p_values(
        list(members), list(others), (first, second), fpr=0.01, seed=seed, draws=DRAWS
    )
    n = len(members)
    rows = [
        Measurement(kind="membership", plugin="membership", metric="p_value", value=p, n=n,
                    scope={**AT, "test": test})
        for test, p in (("ranks", found.ranks), ("tail", found.tail))
    ]  # fmt: skip
    if len(others) >= 100:
        rate = tpr_at_fpr(list(members), list(others), 0.01)
        rows.append(Measurement.mean(rate, n, hits=round(rate.value * n), kind="membership",
                                     plugin="membership", metric="tpr",
                                     scope={**AT, "fpr": 0.01}))  # fmt: skip
    return str(verdict(rows, [])["status"])


def main(words: Sequence[str] | None = None) -> None:
    """Print how often each verdict is given, a line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    asked = parser.parse_args(words)
    print(f"{asked.trials} audits each; groups a side, share of variance by group, leak")
    for groups, within in ((10, 0.0), (10, 0.5), (40, 0.0), (40, 0.5), (100, 0.5)):
        for shift, share in ((0.0, 0.0), (0.3, 0.0), (0.6, 0.0), (0.0, 0.1), (0.0, 0.2)):
            rng = np.random.default_rng([groups, int(10 * within), int(10 * (shift + share))])
            told = Counter(
                audit(rng, groups, within, shift, share, seed) for seed in range(asked.trials)
            )
            shares = "  ".join(
                f"{name} {told[name] / asked.trials:6.1%}"
                for name in ("fail", "inconclusive", "pass")
            )
            leak = f"{share:.0%} of records" if share else f"shift {shift:g}" if shift else "none"
            print(f"{groups:4} {within:4.1f}  {leak:15} {shares}", flush=True)


if __name__ == "__main__":
    main()
