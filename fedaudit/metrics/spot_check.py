"""Spot checks: how likely a random sample contains at least one forged answer."""

from math import ceil, expm1

from fedaudit.metrics.combinatorics import log_choose


def detection_probability(questions: int, sample_size: int, share: float) -> float:
    """Return the chance, from 0 to 1, that a sample shows a forgery of a `share` of the questions.

    `sample_size` of `questions` are drawn without replacement, all equally likely, and one forged
    answer among them is enough: 1 - C(N - F, n) / C(N, n), with F = N times the share rounded up
    (the hypergeometric distribution). Raises ValueError for a sample that is larger than the
    number of questions, and for a share outside of 0 and 1.
    """
    if not 0 <= sample_size <= questions or not 0 <= share <= 1:
        raise ValueError("a sample of more than there is, or a share outside of 0 and 1")
    forged = ceil(questions * share - 1e-9)
    if sample_size == 0 or forged == 0:
        return 0.0
    if sample_size > questions - forged:
        return 1.0
    return -expm1(log_choose(questions - forged, sample_size) - log_choose(questions, sample_size))
