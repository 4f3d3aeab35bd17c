"""fedaudit merge: the shards of one audit -> one report."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.options import Device, Json, Out, Quiet, Recheck, Reveal


def merge(
    context: typer.Context,
    parts: Annotated[
        list[Path], typer.Argument(metavar="PART PART ...", help="The folders of all shards.")
    ],
    out: Out = None,
    json: Json = None,
    recheck: Recheck = 1.0,
    reveal: Reveal = False,
    device: Device = "auto",
    quiet: Quiet = False,
) -> int:
    """Make one report of the shards of an audit, as if it had been made at once.

    The data and the model are read again from where the shards read them. What a shard has asked is
    asked again of a random sample alone, to see that the shard holds what the model says.
    """
    from fedaudit.audit import merge
    from fedaudit.cli.exit_handling import invoke_command

    command, *given = merge.words(parts)
    words = [command, "--device", device, "--recheck", str(recheck)]
    words += [word for part in parts for word in ("--part", str(part))]
    words += [w for name, to in (("--out", out), ("--json", json)) if to for w in (name, str(to))]
    words += [name for name, on in (("--reveal", reveal), ("--quiet", quiet)) if on]
    # The shard's own words last: among them may be a "--", behind which nothing is an option.
    words += given
    return invoke_command(context.find_root().command, words)
