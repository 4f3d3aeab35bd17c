"""What every small federation would do anew: load the built-in base, and count its operations."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache

import pytest

from fedaudit.engine.loading import loader
from fedaudit.simulation.evaluation import cost

load, count = loader.load_base, cost._form_and_frozen
loaded = cache(load)


def load_base(name, **options):
    """Return the built-in base as a copy, and any other as it is loaded."""
    return deepcopy(loaded(name, **options)) if name == "fedaudit-nano" else load(name, **options)


def formula(*given):
    """Count operations on eight equal tokens, whatever the texts.

    They follow from the shapes of batches alone, as tests/simulation/evaluation/test_cost.py shows.
    """
    return count(*given[:-1], (7,) * 8)


@contextmanager
def kept() -> Iterator[None]:
    """Load and count once for all federations in this context."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "load_base", load_base)
        patch.setattr(cost, "_form_and_frozen", formula)
        yield
