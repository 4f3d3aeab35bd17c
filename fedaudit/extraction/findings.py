"""Findings of attacks: their ids, and their plain text."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from fedaudit.api.records import Finding

T = TypeVar("T")


def numbered(plugin: str, leaks: Iterable[T]) -> list[tuple[str, T]]:
    """Return (finding id, leak) of each leak, in order."""
    return [(f"{plugin}-{number:04d}", leak) for number, leak in enumerate(leaks, 1)]


def revealed(findings: Iterable[Finding]) -> tuple[Mapping[str, str], ...]:
    """Return the plain text of findings, whose evidence has it under "text", for --reveal."""
    return tuple(
        {"id": one.id, "label": one.label, "text": str(one.evidence["text"])} for one in findings
    )
