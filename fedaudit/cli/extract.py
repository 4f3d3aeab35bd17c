"""fedaudit extract: what private data comes out of the model."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli import attack as attacking
from fedaudit.cli.options import (
    Adapter,
    Client,
    Detector,
    Device,
    Dtype,
    Json,
    Key,
    Out,
    Quiet,
    Reveal,
    Round,
    Seed,
    Set,
    Target,
    Template,
)


def extract(
    prefixes: Annotated[
        Path,
        typer.Option("--prefixes", help="The attacker's own documents, or prompts, as JSONL."),
    ],
    victim: Annotated[
        Path | None,
        typer.Option("--victim", help="The victim's documents, to score against."),
    ] = None,
    attack: Annotated[
        list[str] | None, typer.Option("--attack", help="An attack's name; may be repeated.")
    ] = None,
    target: Target = None,
    adapter: Adapter = None,
    round_: Round = None,
    client: Client = None,
    key: Key = None,
    set_: Set = None,
    seed: Seed = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", help="Continuations drawn at once; 0 chooses.", min=0)
    ] = 0,
    detector: Detector = "presidio",
    template: Template = "fed_pii",
    out: Out = None,
    json: Json = None,
    reveal: Reveal = False,
    device: Device = "auto",
    dtype: Dtype = "auto",
    quiet: Quiet = False,
) -> int:
    """Pull personal data out of a model and say how much of it training put there.

    Options of an attack or of the detector are set as --set NAME.OPTION=VALUE, for example
    contextual.samples=30 or presidio.ner=spacy:en_core_web_sm.
    """
    from fedaudit.audit.extract import Request

    chosen = tuple(attack or ["contextual"])
    request = Request(
        prefixes=prefixes,
        victim=victim,
        attacks=chosen,
        options=attacking.options(set_, (*chosen, detector)),
        target=target,
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
    )
    return attacking.audited(request, out=out, json=json, reveal=reveal, quiet=quiet)
