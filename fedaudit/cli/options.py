"""Options that several commands share."""

import json as json_module
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from math import isnan
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.audit.request import AuditRequest, options_of
from fedaudit.config import registry
from fedaudit.config.options import build_settings, parse_settings
from fedaudit.engine.remote.options import EndpointOptions
from fedaudit.engine.vllm.options import VllmOptions
from fedaudit.system import outputs


def refuse_nan(value: float | None) -> float | None:
    """Return the number that an option has; NaN, which every range lets pass, is refused."""
    if value is not None and isnan(value):
        raise typer.BadParameter("nan is not a number.")
    return value


def file_to_write(text: str) -> Path:
    """Return the path of a file; the name of a folder, which ends in a slash, is refused."""
    if text.endswith(("/", "/.", os.sep)):
        raise InputError(f"{text} names a folder; a file is needed.")
    return Path(text)


REPORTING = {"compare": "COMPARISON", "scrub": "COUNTS", "merge": "REPORT"}
"""What commands write to --json that write no report of their own, as kinds of outputs."""


def json_to_write(context: typer.Context, path: Path | None) -> Path | None:
    """Return the file of --json; raises InputError where something else is in its place."""
    if path is None:
        return path
    command = context.command_path.partition(" ")[2]
    kind = getattr(outputs, REPORTING.get(command, "REPORT"))
    if command not in REPORTING:
        kind = kind.of(command)
    outputs.check_output(path, kind)
    return path


SET = typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; may be repeated.")
Set = Annotated[list[str] | None, SET]
Out = Annotated[Path | None, typer.Option("--out", help="The folder to write into.")]
Json = Annotated[
    Path | None,
    typer.Option("--json", help="Also write the report to this JSON file.", callback=json_to_write),
]
Seed = Annotated[int | None, typer.Option("--seed", help="The seed of everything random.")]
OF_REQUESTS = options_of(AuditRequest)
Device = Annotated[str, OF_REQUESTS["device"]]
Dtype = Annotated[str, OF_REQUESTS["dtype"]]
Detector = Annotated[str, OF_REQUESTS["detector"]]
Template = Annotated[str, OF_REQUESTS["template"]]
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
        "no one.",
    ),
]

Run = Annotated[
    str | None,
    typer.Argument(metavar="[RUN|BASE]", help="What is audited; --target may name it as well."),
]
Reveal = Annotated[
    bool,
    typer.Option("--reveal", help="Write the leaks in plain text to a file only you can read."),
]


Command = Callable[..., int]


def takes_options(
    argument: str,
    of: type,
    make: Callable[..., object] = dict,
    without: Collection[str] = (),
) -> Callable[[Command], Command]:
    """Give a command the options that a dataclass's fields are annotated with, as one argument.

    That is what `make` returns for the fields that have a value; the fields `without` an option are
    named.
    """
    hints, defaults = get_type_hints(of), {one.name: one.default for one in fields(of)}
    options = {name: one for name, one in options_of(of).items() if name not in without}
    for name, option in options.items():
        if float in (hints[name], *get_args(hints[name])):
            option.callback = option.callback or refuse_nan
    parameters = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=_parsed_default(defaults[name]),
            annotation=Annotated[_parsed_type(hints[name]), option],
        )
        for name, option in options.items()
    ]

    def extended(command: Command) -> Command:
        own = signature(command).parameters.values()
        every = [new for one in own for new in (parameters if one.name == argument else [one])]

        @wraps(command)
        def run(**given: Any) -> int:
            chosen = {name: given.pop(name) for name in options}
            values = {name: value for name, value in chosen.items() if value is not None}
            made = make(**{n: tuple(v) if isinstance(v, list) else v for n, v in values.items()})
            return command(**given, **{argument: made})

        # Typer makes options of these.
        run.__dict__["__signature__"] = Signature(every, return_annotation=int)
        run.__annotations__ = {one.name: one.annotation for one in every}
        return run

    return extended


def _parsed_default(default: Any) -> Any:
    return Parameter.empty if default is MISSING else None if default == () else default


def _parsed_type(hint: Any) -> Any:
    """Return the type that typer parses for a field; the choices of a Literal are checked later."""
    if get_origin(hint) is tuple:
        return GenericAlias(list, get_args(hint)[:1]) | None
    return str if get_origin(hint) is Literal else hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where an audit writes its report, and how it runs there."""

    out: Out = None
    json: Json = None
    reveal: Reveal = False
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard", metavar="I/N", help="Ask only part I of N; `merge` puts the parts together."
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with an unfinished audit; fail when there is none."),
    ] = False
    dry_run: DryRun = False
    quiet: Quiet = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of plugins and servers."""

    set_: Annotated[tuple[str, ...], SET] = ()
    pattern: Annotated[
        tuple[str, ...],
        typer.Option(
            "--pattern",
            metavar="NAME=REGEX",
            help="A kind of PII of your own that the detector finds: NAME=REGEX, "
            "NAME:CHECK=REGEX (luhn, mod97, mod11, verhoeff, id_card, date), or @FILE with one a "
            "line; may be repeated.",
        ),
    ] = ()

    def split(
        self, detector: str, servers: Sequence[str] = ("endpoint", "vllm")
    ) -> tuple[list[str], dict[str, Any]]:
        """Return the settings of plugins, and options by server: one asked, one that vLLM starts.

        A server that no setting names has None. The patterns are the `detector`'s.
        """
        settings = list(self.set_)
        if self.pattern:
            settings.append(f"{detector}.patterns={json_module.dumps(self.pattern)}")
        kinds: dict[str, Any] = {"endpoint": EndpointOptions, "vllm": VllmOptions}
        found: dict[str, Any] = {}
        for name in servers:
            own = [setting for setting in settings if setting.startswith(f"{name}.")]
            settings = [setting for setting in settings if setting not in own]
            table = parse_settings(own)[name] if own else None
            found[name] = None if table is None else build_settings(kinds[name], table, name)
        return settings, found


def one_target(run: str | None, target: str | None) -> str | None:
    """Return what is audited, named by its place or by --target.

    Raises UsageError for both, and for a file in that place.
    """
    if run is None:
        return target
    if target is not None:
        raise UsageError(f"{run} and --target {target} both name what is audited: give one.")
    if Path(run).is_file():
        raise UsageError(f"{run} belongs to no option: name every file with an option.")
    return run


def refuse_options_before_subcommand(context: typer.Context) -> None:
    """Refuse options that stand before a step: the step would not see them."""
    for name in context.params:
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE":
            [option] = [one.opts[0] for one in context.command.params if one.name == name]
            raise UsageError(f"Give {option} after {context.invoked_subcommand}, not before it.")


def settings_by_plugin(set_: list[str] | None, kind: str, names: Collection[str]) -> dict[str, Any]:
    """Return the settings of --set by plugin; each must be of one of `names`, which are of a kind.

    Raises UsageError for any other.
    """
    table = parse_settings(set_ or [])
    for name, chosen in table.items():
        if name not in names or not isinstance(chosen, dict):
            raise unknown_name_error(kind, name, names)
    return table


def settings_by_installed_plugin(set_: list[str] | None, *kinds: str) -> dict[str, Any]:
    """Return the settings of --set by plugin; each must be of an installed one of these kinds."""
    names = [name for kind in kinds for name in registry.plugins(kind)]
    return settings_by_plugin(set_, " or ".join(kinds), names)
