"""fedaudit merge: the shards of one audit -> one report."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.audit_runner import run_session
from fedaudit.cli.options import Device, Json, Out, Quiet, Reveal


def merge(
    parts: Annotated[
        list[Path], typer.Argument(metavar="PART PART ...", help="The folders of all shards.")
    ],
    out: Out = None,
    json: Json = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            "--server",
            metavar="URL",
            help="A server that the shards asked; it scores what they found.",
        ),
    ] = None,
    reveal: Reveal = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> int:
    """Merge shards into one report, equal to an unsharded audit's.

    Data and model are read from where the shards read them.
    """
    from fedaudit.audit.session import AuditSession

    session = AuditSession.merge(
        parts,
        out,
        device=device,
        servers=server or (),
        copy=json,
        reveal=reveal,
    )
    return run_session(session, quiet=quiet)
