"""To whom a model is released, as somebody declares it: nothing of it is ever inferred."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedaudit.api.errors import UsageError, unknown_name_error

RELEASES = ("internal", "api-text", "api-logprobs", "weights", "federation-member", "server")
"""Who can ask the model, and what it gives away: texts, probabilities, its weights."""

POSITIONS = ("outsider", "member", "server", "key-holder")

REACHED = {
    "internal": frozenset({"text", "logprobs", "weights"}),
    "api-text": frozenset({"text"}),
    "api-logprobs": frozenset({"text", "logprobs"}),
    "weights": frozenset({"text", "logprobs", "weights"}),
    "federation-member": frozenset({"text", "logprobs", "weights"}),
    "server": frozenset({"text", "logprobs", "weights", "updates"}),
}
"""What an attacker can use if a model is released in this way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseContext:
    """What was declared about a release; a field that nobody declared is empty.

    Raises UsageError for a word outside the lists, and for `declared_by` without a declaration.
    """

    release: str = ""
    positions: tuple[str, ...] = ()
    declared_by: str = ""
    parties: Mapping[str, str] = field(default_factory=dict)
    """What parties are called, by their names in the report."""

    def __post_init__(self) -> None:
        if self.release and self.release not in RELEASES:
            raise unknown_name_error("release", self.release, RELEASES)
        for position in self.positions:
            if position not in POSITIONS:
                raise unknown_name_error("position", position, POSITIONS)
        if self.declared_by and not (self.release or self.positions):
            raise UsageError("--declared-by goes with --release or --position.")

    def table(self) -> dict[str, Any]:
        """Return the context as a report holds it."""
        table = {
            "release": self.release or None,
            "positions": list(dict.fromkeys(self.positions)),
            "declared_by": self.declared_by or None,
        }
        return {**table, "parties": dict(self.parties)} if self.parties else table

    def beyond(self, access: set[str]) -> list[str]:
        """Return the access used beyond the declared release; empty if no release was declared."""
        return sorted(access - REACHED[self.release]) if self.release else []
