"""fedaudit extract: what private data comes out of the model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedaudit.api.errors import UsageError
from fedaudit.audit.request import BUDGET, CrossClientRequest, ExtractionRequest, options_of
from fedaudit.cli import audit_runner as attacking
from fedaudit.cli.options import Output, Settings, one_target, takes_options

ONE_CLIENT = {
    "prefixes": "--prefixes",
    "victim": "--victim",
    "members": "--member",
    "held_out": "--held-out",
    "counterfactual": "--counterfactual",
    "reference_folders": "--reference",
}
"""What is asked about a single attacker and victim, and not with --matrix: fields, options."""


@takes_options("asked", ExtractionRequest)
@takes_options("settings", Settings, Settings)
@takes_options("output", Output, Output)
def extract(
    prefixes: Annotated[
        Path | None,
        typer.Option(
            "--prefixes", "--ours", help="The attacker's own documents, or prompts, as JSONL."
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
    budget: Annotated[int | None, options_of(CrossClientRequest)["budget"]] = None,
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
    *,
    asked: dict[str, Any],
    settings: Settings,
    output: Output,
) -> int:
    """Pull personal data out of a model, beyond what its base gives.

    With --matrix every client of a federation is the attacker once, and all others its victims.

    Options of an attack or of the detector are set as --set NAME.OPTION=VALUE, for example
    contextual.samples=30 or names.ner=spacy:en_core_web_sm; those of a server as
    --set endpoint.OPTION=VALUE, of one that --engine vllm starts as --set vllm.OPTION=VALUE.
    """
    from fedaudit.extraction import estimator_choice as estimators

    named = named or []
    if not clients and named:
        asked["target"] = one_target(named[0], asked.get("target"))
    asked["attacks"] = tuple(attack or ["contextual"])
    set_, servers = settings.split(asked["detector"])
    options = attacking.options(set_, (*asked["attacks"], asked["detector"]))
    asked["options"] = estimators.estimator_options(estimator, asked["attacks"], options)
    if len(named) > 1 and not clients:
        stray = next((name for name in named if Path(name).is_file()), named[1])
        raise UsageError(f"{stray} belongs to no option: name every file with an option.")
    files = [*clients, *map(Path, named)] if clients else []
    if matrix:
        _refuse_single_client_options({"prefixes": prefixes, **asked})
        return _every_pair({**asked, **servers}, files, budget, output)
    documents = _attacker_file(prefixes, files, budget)
    request = attacking.make_request(ExtractionRequest, prefixes=documents, **asked, **servers)
    return attacking.run_audit(request, output)


def _every_pair(
    asked: Mapping[str, Any], files: Sequence[Path], budget: int | None, output: Output
) -> int:
    """Audit every client as attacker on every other one."""
    from fedaudit.audit.clients import list_clients
    from fedaudit.audit.input_files import InputReader

    reader = InputReader()
    target = asked.get("target")
    request = attacking.make_request(
        CrossClientRequest,
        clients=list_clients(Path(target) if target else None, files, reader),
        budget=budget or BUDGET,
        **asked,
    )
    return attacking.run_audit(request, output, reader)


def _refuse_single_client_options(asked: Mapping[str, Any]) -> None:
    """Refuse options about a single attacker or victim together with --matrix."""
    if option := next((option for name, option in ONE_CLIENT.items() if asked.get(name)), None):
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
