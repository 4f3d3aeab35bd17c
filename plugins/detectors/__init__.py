"""Detectors of personal data in text that no one has annotated."""

from typing import TYPE_CHECKING

from fedaudit.api import hookimpl

if TYPE_CHECKING:
    from fedaudit.api import PiiDetector


@hookimpl
def fedaudit_detectors() -> "list[type[PiiDetector]]":
    """Return the built-in detectors."""
    from .names import Names
    from .presidio import Presidio

    return [Names, Presidio]
