"""Which share of a set of records a model was trained on.

DUCI (Tong et al., ICLR 2025): membership guesses are counted, and the count is corrected by the
error rates of the same guesses on reference models whose training records are known. Without such
models the rate at which members are recognised is unknown, and there is a lower bound only.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedaudit.api.estimates import Estimate

from .reference_models import Observations, rmia_offline
from .roc import allowed_above

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

RATES = (0.01, 0.05, 0.2, 0.5)
"""False-positive rates at which records are counted for the lower bound, fixed in advance."""
LEVEL = 0.05
FEWEST = 4
"""The minimum number of reference models for an interval."""
UNTOLD = "the reference models' own records of the set cannot be told from the others"


def lower_bound(claimed: Sequence[float], control: Sequence[float]) -> int:
    """Return how many of the claimed records were surely trained on, at 95 % confidence.

    Scores are one for each independent record, higher for records that were trained on; `control`
    are those of records that were not. Records of the set that were not trained on and the control
    are taken to be exchangeable. At every rate of `RATES`, the bound is the least number u such
    that, if u records were trained on and all of them recognised, as many of the others above the
    control's threshold have a probability over 0.05 / 4; the best of the four is returned.
    """
    from .membership_tests import true_positives_p_value

    scores, others = np.asarray(claimed, float), np.sort(np.asarray(control, float))[::-1]
    best = 0
    for rate in RATES:
        allowed = allowed_above(rate, len(others))
        if allowed >= len(others):
            continue
        hits = int((scores > others[allowed]).sum())
        low, high = 0, hits
        while low < high:
            middle = (low + high) // 2
            p = true_positives_p_value(hits - middle, len(scores) - middle, len(others), rate)
            low, high = (low, middle) if p > LEVEL / len(RATES) else (middle + 1, high)
        best = max(best, low)
    return best


def estimate(seen: Observations) -> tuple[Estimate, int]:
    """Return the share of the claimed records that were trained on, and how many could be asked.

    Claimed are the records of `seen` (probabilities) outside its population; those that every
    reference was trained on are left out. RMIA's offline scores are compared with the threshold
    that has the largest difference of true and false positives over the references, each attacked
    by the others; the share is (positives - fpr) / (tpr - fpr), equations 4 and 5. The interval is
    Student's at 95 %, from the errors of the same estimate of each reference by the others: these
    include what training at random adds, which the published interval leaves out. Both are cut at
    0 and 1. Raises ValueError with fewer than four references, too few records, or references that
    are not told apart.
    """
    from scipy.special import stdtrit

    count, claimed = seen.references.shape[1], ~seen.population
    if count < FEWEST:
        raise ValueError(f"an estimate needs {FEWEST} reference federations")
    attacked, _ = _guess(seen, claimed)
    references = [_guess_reference(seen, claimed, model) for model in range(count)]
    errors = np.array(
        [
            _share(scores, [*references[:k], *references[k + 1 :]]) - trained.mean()
            for k, (scores, trained) in enumerate(references)
        ]
    )
    share = _share(attacked, references)
    half = float(stdtrit(count, 1 - LEVEL / 2) * np.sqrt((errors**2).mean()))
    low, value, high = (min(max(x, 0.0), 1.0) for x in (share - half, share, share + half))
    return Estimate(value, low, high), len(attacked)


def _guess(seen: Observations, claimed: Mask) -> tuple[Array, Mask]:
    """Return the scores of the claimed records that a reference lacked, and which these are."""
    usable = np.asarray((~seen.trained).any(axis=1), dtype=np.bool_)
    chosen = claimed & usable
    if not chosen.any() or not (seen.population & usable).any():
        raise ValueError("too few records were out of a reference federation")
    return rmia_offline(seen.select(usable))[claimed[usable]], chosen


def _guess_reference(seen: Observations, claimed: Mask, model: int) -> tuple[Array, Mask]:
    """Return the scores that the other references give one, and which records that one had."""
    others = np.arange(seen.references.shape[1]) != model
    had = seen.trained[:, model]
    scores, chosen = _guess(
        Observations(
            observed=seen.references[:, model],
            references=seen.references[:, others],
            trained=seen.trained[:, others],
            population=seen.population & ~had,
        ),
        claimed,
    )
    return scores, had[chosen]


def _share(scores: Array, references: Sequence[tuple[Array, Mask]]) -> float:
    """Return the corrected share of scores from the threshold on that tells references best."""
    pooled = np.concatenate([scores for scores, _ in references])
    trained = np.concatenate([had for _, had in references])
    thresholds = np.unique(pooled)
    rates = []
    for side in (pooled[trained], pooled[~trained]):
        if not len(side):
            raise ValueError(UNTOLD)
        rates.append(1 - np.searchsorted(np.sort(side), thresholds, side="left") / len(side))
    best = int((rates[0] - rates[1]).argmax())
    tpr, fpr = rates[0][best], rates[1][best]
    if tpr <= fpr:
        raise ValueError(UNTOLD)
    return float(((scores >= thresholds[best]).mean() - fpr) / (tpr - fpr))
