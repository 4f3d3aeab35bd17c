"""Scorers that judge whether two sentences say the same in other words."""

from typing import TYPE_CHECKING

from fedaudit.api import hookimpl

if TYPE_CHECKING:
    from fedaudit.api import Paraphraser


@hookimpl
def fedaudit_paraphrasers() -> "list[type[Paraphraser]]":
    """Return the built-in scorers."""
    from .sequence_pair import SequencePair

    return [SequencePair]
