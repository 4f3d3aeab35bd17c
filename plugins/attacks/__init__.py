"""Attacks on a federated model."""

from typing import TYPE_CHECKING

from fedaudit.hookspecs import hookimpl

if TYPE_CHECKING:
    from fedaudit.interfaces import Attack


@hookimpl
def fedaudit_attacks() -> "list[type[Attack]]":
    """Return the built-in attacks."""
    from .contextual import Contextual
    from .gate import Gate
    from .ranking import Ranking
    from .untargeted import Untargeted

    return [Contextual, Gate, Ranking, Untargeted]
