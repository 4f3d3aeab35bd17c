"""Laws of shared sets from few simulated systems of them, the search for which takes long."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fedaudit.metrics.attribution import mixture, shared_sets_distribution

KEPT = (
    shared_sets_distribution.systems,
    mixture._shared_sample,
    mixture._shared_designs,
    mixture._draws,
)


def forget() -> None:
    for one in KEPT:
        one.cache_clear()


@contextmanager
def few_systems(count: int) -> Iterator[None]:
    """Simulate `count` systems of sets for each law in this context; none is kept behind it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_sets_distribution, "SYSTEMS", count)
        forget()
        yield
    forget()
