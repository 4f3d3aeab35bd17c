"""Size and power of the verdict on membership: shares of made-up audits.

    python benchmarks/membership_calibration.py [--trials 1000]

Scores of members and others are drawn by groups: a group's own shift (normal), a record's noise
(Student's t with 3 degrees of freedom, scaled), 1 to 9 records a group. Under the null nothing else
differs. A leak adds a shift to all members, in units of a record's noise, or to a share of them, or
of their groups, as much as makes them stand above everybody. Held-out groups may be odd: one in
thirty then stands above everybody else. It prints how often each verdict is given.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedaudit.api.records import Measurement
from fedaudit.metrics.privacy.group_bootstrap import tpr_by_groups
from fedaudit.metrics.privacy.membership_tests import least_p_value, permutation_p_values
from fedaudit.metrics.privacy.roc import tpr_at_fpr
from fedaudit.report.verdict.policy import verdict

AT = {"score": "reference", "source": "tuned", "records": "victim"}
DRAWS = 999
ODD, TOP = 1 / 30, 50.0


@dataclass(frozen=True, slots=True)
class Leak:
    """What training did to members' scores, and what is odd about the others'."""

    shift: float = 0.0
    records: float = 0.0
    groups: float = 0.0
    odd: bool = False

    def __str__(self) -> str:
        """Return it in words."""
        told = [f"shift {self.shift:g}"] if self.shift else []
        told += [f"{self.records:.0%} of records"] if self.records else []
        told += [f"{self.groups:.0%} of groups"] if self.groups else []
        return (", ".join(told) or "none") + (", odd others" if self.odd else "")


LEAKS = (
    *(Leak(), Leak(shift=0.3), Leak(shift=0.6), Leak(records=0.1)),
    *(Leak(groups=0.15), Leak(odd=True), Leak(groups=0.15, odd=True)),
)


def side(rng: np.random.Generator, groups: int, within: float) -> tuple[np.ndarray, list[str]]:
    """Return the scores of one side and their groups; `within` is the share that groups explain."""
    sizes = rng.integers(1, 10, groups)
    shifts = np.repeat(rng.normal(0, within**0.5, groups), sizes)
    noise = rng.standard_t(3, sizes.sum()) / 3**0.5 * (1 - within) ** 0.5
    return shifts + noise, [str(name) for name in np.repeat(np.arange(groups), sizes)]


def audit(rng: np.random.Generator, groups: int, within: float, leak: Leak, seed: int) -> str:
    """Return the verdict on a made-up audit."""
    (members, first), (others, second) = (side(rng, groups, within) for _ in range(2))
    members = members + leak.shift
    told = rng.random(len(members)) < leak.records
    told |= (rng.random(groups) < leak.groups)[np.array(first, dtype=int)]
    members = np.where(told, members + TOP, members)
    if leak.odd:
        odd = (rng.random(groups) < ODD)[np.array(second, dtype=int)]
        others = np.where(odd, others + 2 * TOP, others)
    found = permutation_p_values(
        list(members), list(others), (first, second), fpr=0.01, seed=seed, draws=DRAWS
    )
    n = len(members)
    rows = [
        Measurement(kind="membership", plugin="membership", metric="p_value", value=p, n=n,
                    scope={**AT, "test": test})
        for test, p in (("ranks", found.ranks), ("tail", found.tail))
    ]  # fmt: skip
    rows.append(Measurement(kind="membership", plugin="membership", metric="least_p_value",
                            value=least_p_value(groups, groups), n=n,
                            scope={**AT, "groups": groups, "beside": groups}))  # fmt: skip
    if len(others) >= 100:
        rate = tpr_at_fpr(list(members), list(others), 0.01)
        rows.append(Measurement.mean(rate, n, hits=round(rate.value * n), kind="membership",
                                     plugin="membership", metric="tpr",
                                     scope={**AT, "fpr": 0.01}))  # fmt: skip
        by_group = tpr_by_groups(
            list(members), list(others), (first, second), fpr=0.01, seed=seed, draws=DRAWS
        )
        rows.append(Measurement.mean(by_group, n, kind="membership", plugin="membership",
                                     metric="tpr_by_group",
                                     scope={**AT, "fpr": 0.01}))  # fmt: skip
    return str(verdict(rows, [])["status"])


def main(words: Sequence[str] | None = None) -> None:
    """Print how often each verdict is given, a line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    asked = parser.parse_args(words)
    print(f"{asked.trials} audits each; groups a side, share of variance by group, leak")
    for groups, within in ((4, 0.0), (10, 0.0), (10, 0.5), (40, 0.0), (40, 0.5), (100, 0.5)):
        for leak in LEAKS:
            rng = np.random.default_rng([groups, int(10 * within)])
            told = Counter(audit(rng, groups, within, leak, seed) for seed in range(asked.trials))
            shares = "  ".join(
                f"{name} {told[name] / asked.trials:6.1%}"
                for name in ("fail", "inconclusive", "pass")
            )
            print(f"{groups:4} {within:4.1f}  {leak!s:28} {shares}", flush=True)


if __name__ == "__main__":
    main()
