"""fedaudit extract: what private data comes out of the model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import DETECTOR
from fedaudit.cli import audit_runner as attacking
from fedaudit.cli.options import (
    Adapter,
    BatchSize,
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
    Seed,
    Set,
    Shard,
    Target,
    Template,
    one_target,
    with_patterns,
)


def extract(
    prefixes: Annotated[
        Path | None,
        typer.Option(
            "--prefixes", "--ours", help="The attacker's own documents, or prompts, as JSONL."
        ),
    ] = None,
    victim: Annotated[
        Path | None,
        typer.Option("--victim", "--theirs", help="The victim's documents, to score against."),
    ] = None,
    member: Annotated[
        list[Path] | None,
        typer.Option(
            "--member",
            help="Documents of a member other than attacker and victim; default: the federation's "
            "own; may be repeated.",
        ),
    ] = None,
    control: Annotated[
        Path | None,
        typer.Option(
            "--control",
            help="Documents that nobody in the federation has; their PII shows what guessing "
            "finds.",
        ),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(
            "--held-out",
            help="Documents like the victim's that nobody trained on, to compare with.",
        ),
    ] = None,
    counterfactual: Annotated[
        Path | None,
        typer.Option(
            "--counterfactual",
            metavar="RUN",
            help="The federation trained without the victim; default: one beside the target.",
        ),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(
            "--reference",
            metavar="RUN",
            help="A federation trained in the same way on other records, for LiRA; may be "
            "repeated.",
        ),
    ] = None,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Let every client in turn attack every other one.")
    ] = False,
    clients: Annotated[
        list[Path] | None,
        typer.Option(
            "--clients",
            metavar="FILE [FILE ...]",
            help="The clients' documents for --matrix; default: the federation's own.",
        ),
    ] = None,
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN|BASE]",
            help="What is audited; --target may name it as well. After --clients: more files.",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget", help="Prefixes that each attacker of --matrix asks.", min=1, max=1_000_000
        ),
    ] = None,
    attack: Annotated[
        list[str] | None, typer.Option("--attack", help="An attack's name; may be repeated.")
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            "--estimator",
            metavar="sample|exact",
            help="sample: draw continuations; exact: compute how likely each target is.",
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
    batch_size: BatchSize = 0,
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
    """Pull personal data out of a model, beyond what its base gives.

    With --matrix every client of a federation is the attacker once, and all others its victims.

    Options of an attack or of the detector are set as --set NAME.OPTION=VALUE, for example
    contextual.samples=30 or names.ner=spacy:en_core_web_sm; those of a server as
    --set endpoint.OPTION=VALUE, of one that --engine vllm starts as --set vllm.OPTION=VALUE.
    """
    from fedaudit.extraction import estimator_choice as estimators

    named = named or []
    chosen = tuple(attack or ["contextual"])
    set_, servers = attacking.split_server_options(with_patterns(set_, detector, pattern))
    options = attacking.options(set_, (*chosen, detector))
    options = estimators.estimator_options(estimator, chosen, options)
    arguments: dict[str, Any] = {
        "attacks": chosen,
        "options": options,
        "target": target if clients or not named else one_target(named[0], target),
        "model": model,
        **servers,
        "adapter": adapter,
        "round": round_,
        "client": client,
        "keys": tuple(key or ()),
        "control": control,
        "detector": detector,
        "template": template,
        "seed": seed or 0,
        "batch_size": batch_size,
        "device": device,
        "dtype": dtype,
        "engine": engine,
    }
    if len(named) > 1 and not clients:
        stray = next((name for name in named if Path(name).is_file()), named[1])
        raise UsageError(f"{stray} belongs to no option: name every file with an option.")
    files = [*clients, *map(Path, named)] if clients else []
    run_options: dict[str, Any] = {"out": out, "json": json, "reveal": reveal, "quiet": quiet}
    run_options |= {"resume": resume, "shard": shard, "dry_run": dry_run}
    if matrix:
        _refuse_single_client_options(
            {
                "--prefixes": prefixes,
                "--victim": victim,
                "--member": member,
                "--held-out": held_out,
                "--counterfactual": counterfactual,
                "--reference": reference,
            }
        )
        return _every_pair(arguments, files, budget, **run_options)
    documents = _attacker_file(prefixes, files, budget)
    from fedaudit.audit.request import ExtractionRequest

    request = ExtractionRequest(
        prefixes=documents,
        victim=victim,
        members=tuple(member or ()),
        held_out=held_out,
        counterfactual=counterfactual,
        reference_folders=tuple(reference or ()),
        **arguments,
    )
    return attacking.run_audit(request, **run_options)


def _every_pair(
    arguments: Mapping[str, Any], files: Sequence[Path], budget: int | None, **run_options: Any
) -> int:
    """Audit every client as attacker on every other one."""
    from fedaudit.audit.clients import list_clients
    from fedaudit.audit.input_files import InputReader
    from fedaudit.audit.request import BUDGET, CrossClientRequest

    reader = InputReader()
    target = arguments["target"]
    clients = list_clients(Path(target) if target else None, files, reader)
    request = CrossClientRequest(clients=clients, budget=budget or BUDGET, **arguments)
    return attacking.run_audit(request, reader=reader, **run_options)


def _refuse_single_client_options(named: Mapping[str, object]) -> None:
    """Refuse options about a single attacker or victim together with --matrix."""
    if option := next((name for name, value in named.items() if value), None):
        raise UsageError(
            f"--matrix takes every client in turn: it cannot be combined with {option}."
        )


def _attacker_file(prefixes: Path | None, files: Sequence[Path], budget: int | None) -> Path:
    """Return the attacker's documents; refuse if they are missing, or options of --matrix."""
    if files or budget is not None:
        raise UsageError(f"{'--clients' if files else '--budget'} goes with --matrix.")
    if prefixes is None:
        raise UsageError(
            "Missing option '--prefixes': name the attacker's own documents, or take every client "
            "in turn with --matrix."
        )
    return prefixes
