"""Attacks on a federated model."""

from typing import TYPE_CHECKING

from fedaudit.hookspecs import hookimpl

if TYPE_CHECKING:
    from fedaudit.interfaces import Attack


@hookimpl
def fedaudit_attacks() -> "list[type[Attack]]":
    """Return the built-in attacks."""
    from .contextual import Contextual
    from .discoverable import Discoverable
    from .frequency import Frequency
    from .gate import Gate
    from .laft import Laft
    from .ranking import Ranking
    from .superset import Superset
    from .untargeted import Untargeted
    from .verbatim import Verbatim

    return [
        Contextual,
        Discoverable,
        Frequency,
        Gate,
        Laft,
        Ranking,
        Superset,
        Untargeted,
        Verbatim,
    ]
