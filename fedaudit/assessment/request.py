"""What `fedaudit audit` is asked to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from fedaudit.api.errors import UsageError
from fedaudit.api.policy import Policy
from fedaudit.assessment.context import ReleaseContext
from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessmentRequest(AuditRequest):
    """Every step of an audit, and the policy and context for its verdict.

    Raises UsageError if there is no step.
    """

    kind: ClassVar[str] = "audit"
    command: ClassVar[str] = "audit"
    purpose: ClassVar[str] = "audit"

    attacks: tuple[str, ...] = ()
    steps: Mapping[str, AuditRequest]
    """The steps that ask the audited model, by name, in their order."""
    policy: Policy = field(default_factory=Policy)
    context: ReleaseContext = field(default_factory=ReleaseContext)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why a class of attacks, or a step, is not run."""
    quick: bool = False

    def __post_init__(self) -> None:
        AuditRequest.__post_init__(self)
        if not self.steps:
            raise UsageError("Nothing can be asked of this model with what is at hand.")

    @property
    def input_path(self) -> Path:
        """The documents of the first step."""
        return next(iter(self.steps.values())).input_path
