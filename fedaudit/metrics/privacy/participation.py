"""A permutation test of whether an organisation took part, on its own groups of records.

Null hypothesis: which of an organisation's groups of records are claimed to have been trained on is
independent of their scores. Whatever all of its records share, such as a style that participants
have too, is on both sides, and the p value is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.api.estimates import Estimate

DRAWS = 9_999
CELLS = 20_000_000
"""The maximum number of array elements in memory at once."""


@dataclass(frozen=True, slots=True)
class ParticipationTest:
    """The difference between the claimed and the held-out records' scores, with its p values."""

    gap: Estimate
    """The mean over claimed groups minus that over held-out groups, with Welch's 95 % interval."""
    p_value: float
    """One-sided, for a gap at least as large."""
    two_sided: float
    """Two-sided, for a gap at least as far from 0."""


def participation_test(
    claimed: Sequence[float],
    held_out: Sequence[float],
    groups: tuple[Sequence[str], Sequence[str]],
    *,
    seed: int,
    draws: int = DRAWS,
) -> ParticipationTest:
    """Return the test of one organisation; a group counts once, however many records it has.

    `groups` are those of the claimed and of the held-out records; a name on both sides is two
    groups. The observed gap counts as one of the draws, so p is never 0. Raises ValueError for
    fewer than two groups on either side.
    """
    inside, outside = (_means(*side) for side in zip((claimed, held_out), groups, strict=True))
    if min(len(inside), len(outside)) < 2:
        raise ValueError("A test needs two groups of claimed and two of held-out records.")
    all_means = np.concatenate([inside, outside])
    gaps = _gaps(all_means, len(inside), draws, seed)
    truth = float(inside.mean() - outside.mean())
    slack = 1e-12 * max(1.0, float(np.abs(all_means).max()))
    return ParticipationTest(
        _welch(inside, outside),
        float((1 + (gaps >= truth - slack).sum()) / (1 + draws)),
        float((1 + (np.abs(gaps) >= abs(truth) - slack).sum()) / (1 + draws)),
    )


def _means(values: Sequence[float], groups: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the mean of each group, sorted by name, so that the records' order does not matter."""
    by_group: dict[str, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        by_group.setdefault(group, []).append(value)
    return np.array([float(np.mean(sorted(by_group[name]))) for name in sorted(by_group)])


def _gaps(
    all_means: npt.NDArray[np.float64], count: int, draws: int, seed: int
) -> npt.NDArray[np.float64]:
    """Return the gaps (draws,) for random choices of the claimed groups."""
    rng = np.random.default_rng(seed)
    inside = np.arange(len(all_means)) < count
    step = max(1, CELLS // len(all_means))
    total, gaps = float(all_means.sum()), []
    for start in range(0, draws, step):
        rows = np.tile(inside, (min(step, draws - start), 1))
        sums = rng.permuted(rows, axis=1) @ all_means
        gaps.append(sums / count - (total - sums) / (len(all_means) - count))
    return np.concatenate(gaps)


def _welch(inside: npt.NDArray[np.float64], outside: npt.NDArray[np.float64]) -> Estimate:
    """Return the difference of means with Welch's interval."""
    from scipy.special import stdtrit

    gap = float(inside.mean() - outside.mean())
    variances = [float(side.var(ddof=1)) / len(side) for side in (inside, outside)]
    error = sum(variances) ** 0.5
    if not error:
        return Estimate(gap, gap, gap)
    sizes = (len(inside) - 1, len(outside) - 1)
    freedom = sum(variances) ** 2 / sum(v**2 / n for v, n in zip(variances, sizes, strict=True))
    margin = float(stdtrit(freedom, 0.975)) * error
    return Estimate(gap, gap - margin, gap + margin)
