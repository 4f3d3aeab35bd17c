"""The limits that a policy sets for an audit, and how certain the evidence must be."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

ATTACK_CLASSES = (
    *("membership_inference", "attribute_inference", "exfiltration"),
    *("regurgitation", "inversion", "reconstruction"),
)
"""The attacks that EDPB Opinion 28/2024, paragraph 55, names."""


LEAST_CERTAIN = 0.5
"""The least power and confidence: below it a verdict is surer to be wrong than right."""


def _check_share(name: str, value: float, *, above: bool) -> None:
    if not 0 <= value < 1 or (above and not value):
        least = "above 0" if above else "at least 0"
        raise ValueError(f"{name} is {value:g}; it must be {least} and below 1.")


def _check_certainty(name: str, value: float) -> None:
    if not LEAST_CERTAIN <= value < 1:
        raise ValueError(
            f"{name} is {value:g}, the probability of being right: it must be at least "
            f"{LEAST_CERTAIN:g} and below 1."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of a verdict; the defaults are the rule of every command without a policy.

    Shares are from 0 to 1. Raises ValueError for a number beyond its range.
    """

    name: str = "default"
    description: str = ""
    level: float = 0.01
    """The highest probability of failing a model that holds nothing of what is looked for: for
    extraction and inference together, and for each of the other instruments."""
    detectable: float = 0.10
    """A pass says that a leak of this share would have been seen, and that no more came out."""
    power: float = 0.9
    """The probability with which it would have been seen."""
    confidence: float = 0.95
    """The confidence of the one-sided bounds that are compared with the limits below."""
    extraction: float = 0.0
    """The share of the targets that training may give away: a proven leak of less does not fail."""
    memorization: float = 0.0
    """The share of prefixes, beyond the base's, that may draw another client's text."""
    kinds: Mapping[str, float] = field(default_factory=dict)
    """The most that may come out of each kind of data: a label, or a major category."""
    membership: float | None = None
    """The highest true-positive rate of membership inference; None: it is not judged."""
    membership_fpr: float = 0.01
    """The false-positive rate at which it is read."""
    attribution: bool = True
    """Whether a client that is flagged fails the audit."""
    required: tuple[str, ...] = ()
    """Classes of attacks that must have been measured for a pass."""

    def __post_init__(self) -> None:
        for name in ("level", "detectable", "membership_fpr"):
            _check_share(name, getattr(self, name), above=True)
        for name in ("power", "confidence"):
            _check_certainty(name, getattr(self, name))
        for name in ("extraction", "memorization"):
            _check_share(name, getattr(self, name), above=False)
        if self.membership is not None:
            _check_share("membership", self.membership, above=True)
        for name, most in self.kinds.items():
            _check_share(f"the limit of {name}", most, above=True)
        if unknown := set(self.required) - set(ATTACK_CLASSES):
            raise ValueError(
                f"{min(unknown)} is not a class of attacks: {', '.join(ATTACK_CLASSES)}."
            )

    @property
    def max_leak(self) -> float:
        """The share that a leak must certainly be below for a pass."""
        return max(self.extraction, self.detectable)

    def table(self) -> dict[str, Any]:
        """Return the policy as a report holds it."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**named, "kinds": dict(self.kinds), "required": list(self.required)}
