"""fedaudit dp audit: is the claim refuted."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.audit_runner import run_audit
from fedaudit.cli.options import (
    Adapter,
    BatchSize,
    Coins,
    Device,
    Dtype,
    Engine,
    Json,
    Out,
    Quiet,
    Resume,
    Round,
    Run,
    Seed,
    Target,
    Template,
    one_target,
    refuse_nan,
)


def audit(
    coins: Coins,
    run: Run = None,
    target: Target = None,
    adapter: Adapter = None,
    round_: Round = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon",
            help="The claimed epsilon; default: the one in the simulation's report.",
            min=0,
            callback=refuse_nan,
        ),
    ] = None,
    noiseless: Annotated[
        Path | None,
        typer.Option(
            "--noiseless",
            metavar="RUN",
            help="The same federation trained without noise, for which the audit must refute "
            "the claim.",
        ),
    ] = None,
    commitment: Annotated[
        str, typer.Option("--commitment", help="The commitment that was published before training.")
    ] = "",
    template: Template = "fed_pii",
    seed: Seed = None,
    batch_size: BatchSize = 0,
    out: Out = None,
    json: Json = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    engine: Engine = "local",
    resume: Resume = False,
    quiet: Quiet = False,
) -> int:
    """Test a claimed epsilon by what the model reveals about the coins.

    Exit code 1: the claim is refuted. 7: it is not, and the audit has not shown that it could.
    """
    from fedaudit.audit.request import EpsilonRequest

    request = EpsilonRequest(
        coins=coins,
        target=one_target(run, target),
        adapter=adapter,
        round=round_,
        epsilon=epsilon,
        noiseless=noiseless,
        commitment=commitment,
        template=template,
        seed=seed or 0,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        engine=engine,
    )
    return run_audit(
        request, out=out, json=json, reveal=False, quiet=quiet, resume=resume, shard=None
    )
