"""Binomial coefficients that are too large for floats."""

from math import lgamma


def log_choose(n: int, k: int) -> float:
    """Return ln of n! / (k! (n - k)!)."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
