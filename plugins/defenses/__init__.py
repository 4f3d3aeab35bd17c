"""Defences of a federation."""

from typing import TYPE_CHECKING

from fedaudit.api import hookimpl

if TYPE_CHECKING:
    from fedaudit.api import Defense


@hookimpl
def fedaudit_defenses() -> "list[type[Defense]]":
    """Return the built-in defences."""
    from .dp import DifferentialPrivacy
    from .fed_mit import FedMit
    from .few_fed_pit import FewFedPit
    from .few_fed_weight import FewFedWeight
    from .scrub import Scrub
    from .secure_gate.defense import SecureGate

    return [DifferentialPrivacy, FedMit, FewFedPit, FewFedWeight, Scrub, SecureGate]
