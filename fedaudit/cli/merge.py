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
            "--server", metavar="URL", help="A server that the shards asked; it is asked again."
        ),
    ] = None,
    reveal: Reveal = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> int:
    """Make one report of the shards of an audit.

    It is that of an audit that was made at once.

    The data and the model are read again from where the shards read them. What a shard has asked is
    asked again of a random sample alone, to see that the shard holds what the model says.
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
