"""What `fedaudit joint commit` is asked to do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Option

from fedaudit.audit.request import BUDGET, AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class JointRequest(AuditRequest):
    """A member's part in a joint audit: its records, the model, and the attack of all members."""

    kind: ClassVar[str] = "joint"
    command: ClassVar[str] = "joint"
    purpose: ClassVar[str] = "extraction"
    input_field: ClassVar[str] = "ours"

    attacks: tuple[str, ...] = ("contextual",)
    ours: Annotated[Path, Option("--ours", help="The member's own documents, as JSONL.")]
    control: Annotated[
        Path | None,
        Option(
            "--control",
            help="Documents that are in no member's records; their PII shows what guessing finds.",
        ),
    ] = None
    budget: Annotated[
        int, Option("--budget", help="Prefixes that each member asks.", min=1, max=1_000_000)
    ] = BUDGET
