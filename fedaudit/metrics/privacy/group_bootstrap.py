"""The interval of a true positive rate for grouped records: a bootstrap over groups."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.intervals import Estimate
from fedaudit.metrics.privacy.membership_tests import CELLS
from fedaudit.metrics.privacy.roc import rates_above, tpr_at_fpr

RESAMPLES = 999
"""The number of resamples of the groups on both sides."""


def tpr_by_groups(
    members: Sequence[float],
    non_members: Sequence[float],
    groups: tuple[Sequence[str], Sequence[str]],
    *,
    fpr: float,
    seed: int,
    draws: int = RESAMPLES,
) -> Estimate:
    """Return `tpr_at_fpr` with a 95 % percentile interval over groups drawn with replacement.

    Whole groups are resampled, of members and of the others separately, so that the threshold
    varies too: it may depend on the records of a single person who did not take part. Raises
    ValueError as `tpr_at_fpr` does.
    """
    value = tpr_at_fpr(members, non_members, fpr).value
    scores = np.concatenate([np.asarray(members, float), np.asarray(non_members, float)])
    order = np.argsort(-scores, kind="stable")
    inside = order < len(members)
    rng = np.random.default_rng([seed, len(scores)])
    step = max(1, CELLS // len(scores))
    rates = []
    for start in range(0, draws, step):
        weights = _weights(groups, rng, min(step, draws - start))[:, order]
        rates.append(rates_above(scores[order], weights * inside, weights * ~inside, fpr)[0])
    low, high = np.quantile(np.concatenate(rates), (0.025, 0.975))
    return Estimate(value, min(float(low), value), max(float(high), value))


def _weights(
    groups: tuple[Sequence[str], Sequence[str]], rng: np.random.Generator, draws: int
) -> npt.NDArray[np.int64]:
    """Return how often each record is drawn with its group, (draws, records)."""
    sides = []
    for names in groups:
        index = {name: i for i, name in enumerate(dict.fromkeys(names))}
        times = rng.multinomial(len(index), np.full(len(index), 1 / len(index)), size=draws)
        sides.append(times[:, [index[name] for name in names]])
    return np.concatenate(sides, axis=1)
