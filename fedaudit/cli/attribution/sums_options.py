"""What the commands that ask a server for sums have in common: options, and the plan."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.api.errors import UsageError
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.cli.console import print_note, print_text
from fedaudit.cli.options import takes_options
from fedaudit.system.files import existing_path

if TYPE_CHECKING:
    from fedaudit.attribution.server.sum_plan import SumPlan

takes_sums = takes_options("sums", ProtocolConfig, ProtocolConfig)
"""Gives a command the options that say which sums a server is asked for."""

DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only describe what would be asked and what it would give away."
    ),
]

Colluding = Annotated[
    str,
    typer.Option(
        "--colluding",
        help="Clients that tell the server their updates, separated by commas; needs --dry-run.",
    ),
]


def helpers(colluding: str, *, dry_run: bool) -> list[str]:
    """Return the clients that collude with the server, each once."""
    names = list(dict.fromkeys(name.strip() for name in colluding.split(",") if name.strip()))
    if names and not dry_run:
        raise UsageError("--colluding only describes what a server could learn: add --dry-run.")
    return names


def native(rounds: Path, *, quiet: bool, recorded: bool = False) -> Path:
    """Return a federation's folder; what another framework left is imported below runs/ first.

    It is refused where what is asked for is `recorded` in the federation's folder: below another
    working directory the folder would be imported again, without its ledger.
    """
    from fedaudit.audit.target import RUNS
    from fedaudit.conversion.foreign_targets import check_native, native_folder

    existing_path(rounds, "federation")
    if recorded:
        check_native(rounds)
    return native_folder(rounds, RUNS, lambda line: print_note(line, quiet=quiet))


def draw_plan(rounds: Path, protocol_config: ProtocolConfig) -> "SumPlan":
    """Return what would be asked of a federation; no one can guess its seed if none is given."""
    from fedaudit.attribution import copied_updates
    from fedaudit.attribution.server import sum_plan
    from fedaudit.federation.folder import check_consecutive, open_federation

    federation = open_federation(rounds)
    check_consecutive(federation)
    copied_updates.check_rounds(federation)
    return sum_plan.draw_sum_plan(federation, protocol_config, secret=True)


def print_dry_run(
    plan: "SumPlan",
    marks: Any,
    worker_options: Any,
    colluding: Sequence[str],
    extra_lines: Sequence[str] = (),
) -> int:
    """Print what a plan would ask and give away."""
    from fedaudit.attribution.server import dry_run

    collusion_lines = dry_run.describe_collusion(plan, colluding)
    print_text(
        "\n".join(
            [*dry_run.describe_plan(plan, marks, worker_options), *collusion_lines, *extra_lines]
        )
    )
    return 0
