"""fedaudit canary measure: how far training moved each of them up among all."""

from typing import Annotated

import typer

from fedaudit.cli.audit_runner import run_audit
from fedaudit.cli.options import (
    Adapter,
    BatchSize,
    Canaries,
    Device,
    Dtype,
    Engine,
    Json,
    Out,
    Quiet,
    Resume,
    Reveal,
    Round,
    Run,
    Seed,
    Target,
    Template,
    one_target,
)


def measure(
    canaries: Canaries,
    run: Run = None,
    target: Target = None,
    adapter: Adapter = None,
    round_: Round = None,
    commitment: Annotated[
        str, typer.Option("--commitment", help="The commitment that was published before training.")
    ] = "",
    space_limit: Annotated[
        int,
        typer.Option(
            "--space-limit",
            help="Score all secrets of a space that has at most this many.",
            min=0,
            max=10_000_000,
        ),
    ] = 10_000,
    references: Annotated[
        int,
        typer.Option(
            "--references",
            help="Secrets drawn at random from a larger space.",
            min=1,
            max=1_000_000,
        ),
    ] = 1_000,
    template: Template = "fed_pii",
    seed: Seed = None,
    batch_size: BatchSize = 0,
    out: Out = None,
    json: Json = None,
    reveal: Reveal = False,
    device: Device = "auto",
    dtype: Dtype = "auto",
    engine: Engine = "local",
    resume: Resume = False,
    quiet: Quiet = False,
) -> int:
    """Measure how far training raised each planted secret's rank.

    The rank is among all secrets of its kind, or a random sample of them, by how likely the model
    finds each.

    Exit code 1: secrets that were planted stand higher than chance explains.
    """
    from fedaudit.audit.request import ExposureRequest

    request = ExposureRequest(
        canaries=canaries,
        target=one_target(run, target),
        adapter=adapter,
        round=round_,
        commitment=commitment,
        space_limit=space_limit,
        references=references,
        template=template,
        seed=seed or 0,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        engine=engine,
    )
    return run_audit(
        request, out=out, json=json, reveal=reveal, quiet=quiet, resume=resume, shard=None
    )
