"""Ways to tell which clients trained on watermarked documents."""

from typing import TYPE_CHECKING

from fedaudit.api import hookimpl

if TYPE_CHECKING:
    from fedaudit.api import Attributor


@hookimpl
def fedaudit_attributors() -> "list[type[Attributor]]":
    """Return the built-in ways of attribution beside the protocol itself."""
    from .direct import Direct
    from .fldetector import FLDetector
    from .flforensics import FLForensics, FLForensicsKMeans
    from .global_model import Global

    return [Direct, FLDetector, FLForensics, FLForensicsKMeans, Global]
