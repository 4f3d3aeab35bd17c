"""Attacks on a federated model."""

from typing import TYPE_CHECKING

from fedaudit.api import hookimpl

if TYPE_CHECKING:
    from fedaudit.api import Attack


@hookimpl
def fedaudit_attacks() -> "list[type[Attack]]":
    """Return the built-in attacks."""
    from .completion.discoverable import Discoverable
    from .completion.verbatim import Verbatim
    from .gate.attack import GateAttack
    from .inversion import Inversion
    from .laft.attack import Laft
    from .membership.attack import Membership
    from .prefix.contextual import Contextual
    from .prefix.frequency import Frequency
    from .prefix.superset import Superset
    from .ranking.attack import Ranking
    from .reconstruction.attack import Reconstruction
    from .source.attack import SourceInference
    from .untargeted.attack import Untargeted
    from .untargeted.benign import BenignPrompts

    return [
        BenignPrompts,
        Contextual,
        Discoverable,
        Frequency,
        GateAttack,
        Inversion,
        Laft,
        Membership,
        Ranking,
        Reconstruction,
        SourceInference,
        Superset,
        Untargeted,
        Verbatim,
    ]
