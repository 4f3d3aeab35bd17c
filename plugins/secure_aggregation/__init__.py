"""Forms of secure aggregation."""

from typing import TYPE_CHECKING

from fedaudit.api import hookimpl

if TYPE_CHECKING:
    from fedaudit.api import SecureAggregation


@hookimpl
def fedaudit_secure_aggregations() -> "list[type[SecureAggregation]]":
    """Return the built-in forms of secure aggregation."""
    from .flower import Flower
    from .ideal import Ideal

    return [Flower, Ideal]
