"""Options that several commands share."""

import os
from collections.abc import Collection
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer


def refuse_nan(value: float | None) -> float | None:
    """Return the number that an option has; NaN, which every range lets pass, is refused."""
    if value is not None and isnan(value):
        raise typer.BadParameter("nan is no number.")
    return value


def file_to_write(text: str) -> Path:
    """Return the path of a file; the name of a folder, which ends in a slash, is refused."""
    if text.endswith(("/", "/.", os.sep)):
        from fedaudit.api.errors import InputError

        raise InputError(f"{text} names a folder; a file is needed.")
    return Path(text)


REPORTING = {"compare": "COMPARISON", "scrub": "COUNTS", "merge": "REPORT"}
"""What commands write to --json that write no report of their own, as kinds of outputs."""


def json_to_write(context: typer.Context, path: Path | None) -> Path | None:
    """Return the file of --json; raises InputError where something else is in its place."""
    if path is None:
        return path
    from fedaudit.system import outputs

    command = context.command_path.partition(" ")[2]
    kind = getattr(outputs, REPORTING.get(command, "REPORT"))
    if command not in REPORTING:
        kind = kind.of(command)
    outputs.check_output(path, kind)
    return path


Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; may be repeated."),
]
Out = Annotated[Path | None, typer.Option("--out", help="The folder to write into.")]
Json = Annotated[
    Path | None,
    typer.Option("--json", help="Also write the report to this JSON file.", callback=json_to_write),
]
Seed = Annotated[int | None, typer.Option("--seed", help="The seed of everything random.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, ... or auto.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float32, bfloat16, float16 or auto.")]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local[:N]|ray[:N]|vllm[:N]",
        help="Where models run: in this process or N local ones, on N engines of a Ray "
        "cluster, or in vLLM on N GPUs.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only check the input, and say what would be done and what it would cost."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Scale = Annotated[
    str,
    typer.Option(
        "--scale", help="nano (minutes on two cores), small (a real model, SmolLM2-135M) or paper."
    ),
]

Canaries = Annotated[Path, typer.Argument(metavar="CANARIES", help="The secret file of canaries.")]
Coins = Annotated[
    Path, typer.Argument(metavar="COINS", help="The secret file of canaries and coins.")
]
Watermark = Annotated[
    Path | None,
    typer.Option("--watermark", help="The owner's file of marks; a simulation has its own."),
]
Commitments = Annotated[
    Path | None,
    typer.Option(
        "--commitments",
        help="The commitments that the owner published before training; marks without one flag "
        "nobody.",
    ),
]

Run = Annotated[
    str | None,
    typer.Argument(metavar="[RUN|BASE]", help="What is audited; --target may name it as well."),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="A federation's folder, a model folder, a hub id, or a server's address (http://...).",
    ),
]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="The model's name on the server."),
]
Adapter = Annotated[
    str | None, typer.Option("--adapter", help="The folder of a LoRA adapter on the target model.")
]
Round = Annotated[
    int | None, typer.Option("--round", help="The federation's round; default: the last.")
]
Client = Annotated[
    str | None,
    typer.Option(
        "--client",
        help="The client whose deployed model is asked; default: the client of the data.",
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        help="The kind of key to ask with: right, wrong, none or other; default: all; may be "
        "repeated.",
    ),
]
Detector = Annotated[
    str, typer.Option("--detector", help="The plugin that finds PII in unannotated documents.")
]
Pattern = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern",
        metavar="NAME=REGEX",
        help="A kind of PII of your own that the detector finds: NAME=REGEX, NAME:CHECK=REGEX "
        "(luhn, mod97, mod11, verhoeff, id_card, date), or @FILE with one a line; may be repeated.",
    ),
]
Template = Annotated[
    str, typer.Option("--template", help="The prompt template, if the target names none.")
]
BatchSize = Annotated[
    int,
    typer.Option(
        "--batch-size",
        help="Continuations drawn at once; 0: chosen automatically.",
        min=0,
        max=1_000_000,
    ),
]
Reveal = Annotated[
    bool,
    typer.Option("--reveal", help="Write the leaks in plain text to a file only you can read."),
]


Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on with an unfinished audit; fail when there is none."),
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard", metavar="I/N", help="Ask only part I of N; `merge` puts the parts together."
    ),
]


def one_target(run: str | None, target: str | None) -> str | None:
    """Return what is audited, named by its place or by --target.

    Raises UsageError for both, and for a file in that place.
    """
    if run is None:
        return target
    from fedaudit.api.errors import UsageError

    if target is not None:
        raise UsageError(f"{run} and --target {target} both name what is audited: give one.")
    if Path(run).is_file():
        raise UsageError(f"{run} belongs to no option: name every file with an option.")
    return run


def refuse_options_before_subcommand(context: typer.Context) -> None:
    """Refuse options that stand before a step: the step would not see them."""
    for name in context.params:
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE":
            from fedaudit.api.errors import UsageError

            option = f"--{name.rstrip('_').replace('_', '-')}"
            raise UsageError(f"Give {option} after {context.invoked_subcommand}, not before it.")


def settings_by_plugin(set_: list[str] | None, kind: str, names: Collection[str]) -> dict[str, Any]:
    """Return the settings of --set by plugin; each must be of one of `names`, which are of a kind.

    Raises UsageError for any other.
    """
    from fedaudit.api.errors import unknown_name_error
    from fedaudit.config.options import parse_settings

    table = parse_settings(set_ or [])
    for name, chosen in table.items():
        if name not in names or not isinstance(chosen, dict):
            raise unknown_name_error(kind, name, names)
    return table


def with_patterns(
    set_: list[str] | None, detector: str, patterns: list[str] | None
) -> list[str] | None:
    """Return the settings of --set with those of --pattern, which are the detector's."""
    import json

    return [*(set_ or []), f"{detector}.patterns={json.dumps(patterns)}"] if patterns else set_


def settings_by_installed_plugin(set_: list[str] | None, *kinds: str) -> dict[str, Any]:
    """Return the settings of --set by plugin; each must be of an installed one of these kinds."""
    from fedaudit.config import registry

    names = [name for kind in kinds for name in registry.plugins(kind)]
    return settings_by_plugin(set_, " or ".join(kinds), names)
