"""fedaudit infer: whether the model tells whose personal data a sentence lacks."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.api.plugin import DETECTOR
from fedaudit.cli import audit_runner as attacking
from fedaudit.cli.options import (
    Adapter,
    Client,
    Detector,
    Device,
    DryRun,
    Dtype,
    Engine,
    Json,
    Key,
    Model,
    Out,
    Pattern,
    Quiet,
    Resume,
    Reveal,
    Round,
    Run,
    Seed,
    Set,
    Shard,
    Target,
    Template,
    one_target,
    with_patterns,
)


def infer(
    run: Run = None,
    *,
    data: Annotated[
        Path, typer.Option("--data", help="The documents whose PII is masked, as JSONL.")
    ],
    candidates: Annotated[
        list[int] | None,
        typer.Option(
            "--candidates",
            help="Candidates for each mask; default: 50; may be repeated.",
            min=2,
            max=10_000,
        ),
    ] = None,
    target: Target = None,
    model: Model = None,
    adapter: Adapter = None,
    round_: Round = None,
    client: Client = None,
    key: Key = None,
    set_: Set = None,
    seed: Seed = None,
    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size",
            help="Sentences scored at once; 0: chosen automatically.",
            min=0,
            max=1_000_000,
        ),
    ] = 0,
    detector: Detector = DETECTOR,
    pattern: Pattern = None,
    template: Template = "fed_pii",
    out: Out = None,
    json: Json = None,
    reveal: Reveal = False,
    device: Device = "auto",
    dtype: Dtype = "auto",
    engine: Engine = "local",
    shard: Shard = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> int:
    """Mask personal data, and see how often the model picks it.

    It picks among candidates, in sentences of one client's records.

    Options of the attack or of the detector are set as --set NAME.OPTION=VALUE, for example
    ranking.sentences=300 or ranking.labels=PERSON,ADDRESS.
    """
    from fedaudit.audit.request import InferenceRequest

    set_, servers = attacking.split_server_options(with_patterns(set_, detector, pattern))
    options = attacking.options(set_, ("ranking", detector))
    if candidates:
        options["ranking"] = {**options.get("ranking", {}), "candidates": candidates}
    request = InferenceRequest(
        data=data,
        options=options,
        target=one_target(run, target),
        model=model,
        **servers,
        adapter=adapter,
        round=round_,
        client=client,
        keys=tuple(key or ()),
        detector=detector,
        template=template,
        seed=seed or 0,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        engine=engine,
    )
    return attacking.run_audit(
        request,
        out=out,
        json=json,
        reveal=reveal,
        quiet=quiet,
        resume=resume,
        shard=shard,
        dry_run=dry_run,
    )
