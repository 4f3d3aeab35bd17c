"""fedaudit forget: whether a member that left a federation is still in its model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.api.errors import UsageError
from fedaudit.audit.request import ForgetRequest
from fedaudit.cli.audit_runner import make_request, run_audit
from fedaudit.cli.options import Output, takes_options


@takes_options(
    "asked",
    ForgetRequest,
    without=("target", "model", "adapter", "client", "keys", "detector"),
)
@takes_options("output", Output, Output, without=("reveal", "shard", "dry_run"))
def verify(
    after: Annotated[
        Path,
        typer.Argument(
            metavar="AFTER", help="The model after: a federation's folder, or an adapter's."
        ),
    ],
    base: Annotated[
        str | None,
        typer.Option(
            "--base", help="The model that an adapter is on, unless its configuration names it."
        ),
    ] = None,
    *,
    asked: dict[str, Any],
    output: Output,
) -> int:
    """Test whether the model still has a member that left.

    The model before shows what the tests can see; models trained without the member show what one
    is like that never had it.

    Exit code 1: surely more than the limit is left. 7: neither that nor the opposite is shown.
    """
    from fedaudit.federation.folder import is_federation

    named = {"target": str(after)}
    if is_federation(after):
        if base:
            raise UsageError(
                f"{after} is a federation's folder, which names its base: leave --base."
            )
    else:
        named = {"adapter": str(after), **({"target": base} if base else {})}
    return run_audit(make_request(ForgetRequest, **named, **asked), output)


app = typer.Typer(
    help="Verify that a member that left is no longer in the model.", no_args_is_help=True
)
app.command()(verify)
