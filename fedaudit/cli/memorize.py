"""fedaudit memorize: who can draw whose text out of the global model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import DETECTOR
from fedaudit.cli.audit_runner import run_audit, split_server_options
from fedaudit.cli.options import (
    Adapter,
    BatchSize,
    Detector,
    Device,
    DryRun,
    Dtype,
    Engine,
    Json,
    Model,
    Out,
    Pattern,
    Quiet,
    Resume,
    Reveal,
    Round,
    Seed,
    Set,
    Shard,
    Target,
    Template,
    one_target,
    settings_by_plugin,
    with_patterns,
)

if TYPE_CHECKING:
    from fedaudit.audit.input_files import InputReader
    from fedaudit.audit.request import MemorizationRequest


def memorize(
    run: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN", help="A federation's folder; after --clients, further files of clients."
        ),
    ] = None,
    clients: Annotated[
        list[Path] | None,
        typer.Option(
            "--clients",
            metavar="FILE [FILE ...]",
            help="The clients' documents, one file per client; default: the federation's own.",
        ),
    ] = None,
    sample: Annotated[
        int,
        typer.Option(
            "--sample", help="Texts drawn at random from each client.", min=1, max=10_000_000
        ),
    ] = 4000,
    prefix_length: Annotated[
        int | None,
        typer.Option(
            "--prefix-length",
            help="Tokens of a text that the model is given; default: 30, or fewer if most texts "
            "are too short.",
            min=1,
            max=1_000_000,
        ),
    ] = None,
    decoding: Annotated[
        str,
        typer.Option(
            "--decoding", help="How tokens are drawn: top-k, top-p, temperature or greedy."
        ),
    ] = "top-k",
    top_k: Annotated[
        int,
        typer.Option(
            "--top-k",
            help="How many of the likeliest tokens top-k draws from.",
            min=1,
            max=10_000_000,
        ),
    ] = 40,
    top_p: Annotated[
        float,
        typer.Option("--top-p", help="The total probability of the tokens that top-p draws from."),
    ] = 0.8,
    temperature: Annotated[
        float,
        typer.Option("--temperature", help="The temperature of --decoding temperature."),
    ] = 1.0,
    new_tokens: Annotated[
        int,
        typer.Option("--new-tokens", help="The most tokens of a continuation.", min=1, max=100_000),
    ] = 256,
    prompt: Annotated[
        str,
        typer.Option(
            "--prompt",
            help="What precedes a prefix: all that does in the record (record), or only its "
            "header (header).",
        ),
    ] = "record",
    retrieved: Annotated[
        int,
        typer.Option(
            "--retrieved",
            help="Suffixes of each client to compare with, the most similar first.",
            min=1,
            max=10_000_000,
        ),
    ] = 10,
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="Compare with every sampled suffix instead.")
    ] = False,
    compat: Annotated[
        bool, typer.Option("--compat", help="Use the published detector's rules, with its defects.")
    ] = False,
    central: Annotated[
        bool, typer.Option("--central", help="Measure the centrally trained model as well.")
    ] = False,
    paraphraser: Annotated[
        str,
        typer.Option("--paraphraser", help="The plugin that scores paraphrases; default: none."),
    ] = "",
    target: Target = None,
    model: Model = None,
    adapter: Adapter = None,
    round_: Round = None,
    set_: Set = None,
    seed: Seed = None,
    batch_size: BatchSize = 0,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", help="Processes that compare texts; 0: one per core.", min=0, max=4_096
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
    """Measure whose texts a federation's model continues for whom.

    A continuation counts if it has a text word for word, as an idea or paraphrased. Options of the
    scorer of paraphrases and of the detector, which then finds entities, are set as --set
    NAME.OPTION=VALUE, for example sequence_pair.model=FOLDER.
    """
    set_, servers = split_server_options(with_patterns(set_, detector, pattern))
    plugins = [*filter(None, (detector, paraphraser))]
    options = settings_by_plugin(set_, "paraphraser or detector in use", plugins)
    protocol = {
        "sample": sample,
        **({"prefix_length": prefix_length} if prefix_length else {}),
        "decoding": decoding,
        "top_k": top_k,
        "top_p": top_p,
        "temperature": temperature,
        "new_tokens": new_tokens,
        "prompt": prompt,
        "retrieved": retrieved,
        "all_pairs": all_pairs,
        "compat": compat,
        "central": central,
        "paraphraser": paraphraser,
        "scoring": options.get(paraphraser, {}),
    }
    arguments: dict[str, Any] = {
        "options": options,
        "shorter": prefix_length is None,
        "model": model,
        **servers,
        "adapter": adapter,
        "round": round_,
        "detector": detector,
        "template": template,
        "seed": seed or 0,
        "batch_size": batch_size,
        "workers": workers,
        "device": device,
        "dtype": dtype,
        "engine": engine,
    }
    from fedaudit.audit.input_files import InputReader

    reader = InputReader()
    request = _request(run or [], clients or [], target, protocol, arguments, reader)
    return run_audit(
        request,
        out=out,
        json=json,
        reveal=reveal,
        quiet=quiet,
        resume=resume,
        shard=shard,
        dry_run=dry_run,
        reader=reader,
    )


def _request(
    places: Sequence[Path],
    clients: Sequence[Path],
    target: str | None,
    protocol: Mapping[str, Any],
    arguments: Mapping[str, Any],
    reader: "InputReader",
) -> "MemorizationRequest":
    """Return what is asked for: files behind --clients are clients, a folder is RUN."""
    from fedaudit.audit.clients import list_clients
    from fedaudit.audit.request import MemorizationRequest, Protocol
    from fedaudit.config.options import build_settings
    from fedaudit.engine.remote.options import is_url
    from fedaudit.nano import BASE

    parsed_protocol = build_settings(Protocol, protocol, "memorize")
    if clients and (models := [place for place in places if place.is_dir() or str(place) == BASE]):
        target = one_target(str(models[0]), target)
        places = [place for place in places if place != models[0]]
    if clients:
        return MemorizationRequest(
            clients=list_clients(None, [*clients, *places], reader),
            target=target,
            protocol=parsed_protocol,
            **arguments,
        )
    if len(places) > 1:
        raise UsageError(
            f"{places[1]} belongs to no option: name the clients' files with --clients FILE FILE."
        )
    if is_url(target):
        raise UsageError(
            "A server keeps nobody's documents: name the clients' files with --clients FILE FILE."
        )
    named = places[0] if places else Path(target) if target else None
    if named is not None and not named.exists():
        raise InputError(
            f"There is no federation {named}; for any other model, name the clients' files with "
            "--clients FILE FILE ..."
        )
    where = target or (str(places[0]) if places else None)
    return MemorizationRequest(
        clients=list_clients(named, (), reader),
        target=where,
        protocol=parsed_protocol,
        **arguments,
    )
