"""Watermarks that documents carry into the models trained on them."""

from typing import TYPE_CHECKING

from fedaudit.api import hookimpl

if TYPE_CHECKING:
    from fedaudit.api import Watermark


@hookimpl
def fedaudit_watermarks() -> "list[type[Watermark]]":
    """Return the built-in watermarks."""
    from .fictitious.watermark import Fictitious
    from .invisible.watermark import Invisible
    from .kgw.watermark import KGW

    return [Fictitious, Invisible, KGW]
