"""fedaudit merge: the shards of one audit -> one report."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.options import Device, Json, Out, Quiet, Recheck, Reveal


def merge(
    parts: Annotated[
        list[Path], typer.Argument(metavar="PART PART ...", help="The folders of all shards.")
    ],
    out: Out = None,
    json: Json = None,
    recheck: Recheck = 1.0,
    server: Annotated[
        list[str] | None,
        typer.Option(
            "--server",
            metavar="URL",
            help="A server that the shards asked; a part of their questions is asked again.",
        ),
    ] = None,
    reveal: Reveal = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> int:
    """Merge shards into one report, equal to an unsharded audit's.

    A random sample of each shard's questions is asked again, to check that its answers are the
    model's. Data and model are read from where the shards read them.
    """
    from fedaudit.audit.session import AuditSession
    from fedaudit.cli.audit_runner import run_session

    session = AuditSession.merge(
        parts,
        out,
        recheck=recheck / 100,
        device=device,
        servers=server or (),
        copy=json,
        reveal=reveal,
    )
    return run_session(session, quiet=quiet)
