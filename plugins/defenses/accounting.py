"""Accounting of DP-SGD by Opacus: a noise multiplier's epsilon, and an epsilon's multiplier."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from typing import Literal

from fedaudit.api import UsageError

Accountant = Literal["prv", "rdp"]
MAX_PRV_EPSILON = 200.0
"""Above this RDP bound the PRV accountant takes minutes and gigabytes and says no more."""


def require_opacus() -> None:
    """Raise UsageError where Opacus is not installed."""
    if find_spec("opacus") is None:
        raise UsageError("The defence dp needs Opacus: pip install 'fedaudit[dp]'.")


def load_opacus() -> None:
    """Import Opacus without the root logger that it sets up, which prints what others log."""
    require_opacus()
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    import opacus.accountants  # noqa: F401

    root.handlers[:] = before
    root.setLevel(level)


def sample_rate(batch_size: int, documents: int) -> float:
    """Return q; a batch larger than the data is all of the data, at every step."""
    return min(1.0, batch_size / documents)


@lru_cache(maxsize=256)
def noise_for(
    epsilon: float, delta: float, rate: float, steps: int, accountant: Accountant
) -> float:
    """Return a sigma that spends `epsilon`, or up to 0.01 less; UsageError where none does."""
    load_opacus()
    from opacus.accountants.utils import get_noise_multiplier

    settings = {"target_epsilon": epsilon, "target_delta": delta, "accountant": accountant}
    try:
        with _quiet():
            return float(get_noise_multiplier(sample_rate=rate, steps=steps, **settings))
    except ValueError:
        message = f"dp: no noise is shown to give epsilon {epsilon:g} at delta {delta:g}."
        raise UsageError(message) from None


@lru_cache(maxsize=256)
def spent_epsilon(
    sigma: float, delta: float, rate: float, steps: int, accountant: Accountant
) -> tuple[float, Accountant]:
    """Return an upper bound on epsilon and its accountant, always RDP above MAX_PRV_EPSILON."""
    load_opacus()
    from opacus.accountants import create_accountant

    def bound(name: Accountant) -> float:
        counting = create_accountant(mechanism=name)
        counting.history = [(sigma, rate, steps)]
        with _quiet():
            return max(0.0, float(counting.get_epsilon(delta=delta)))

    coarse = bound("rdp")
    if accountant == "rdp" or coarse > MAX_PRV_EPSILON:
        return coarse, "rdp"
    return bound("prv"), "prv"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence accountants' warnings where their bound is valid: at q = 1, at extreme orders.

    A search for sigma passes by some so small that PRV's integrals overflow on the way; the sigma
    that it ends with is far from those.
    """
    import numpy as np
    from scipy.integrate import IntegrationWarning

    ignored = np.errstate(divide="ignore", over="ignore", invalid="ignore")
    with warnings.catch_warnings(), ignored:
        warnings.filterwarnings("ignore", message="Optimal order is the")
        warnings.filterwarnings("ignore", category=IntegrationWarning)
        yield
