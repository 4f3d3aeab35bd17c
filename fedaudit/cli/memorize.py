"""fedaudit memorize: who can draw whose text out of the global model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.request import MemorizationRequest, Protocol
from fedaudit.cli.audit_runner import make_request, run_audit
from fedaudit.cli.options import Output, Settings, one_target, settings_by_plugin, takes_options
from fedaudit.config.options import build_settings
from fedaudit.engine.remote.options import is_url

if TYPE_CHECKING:
    from fedaudit.audit.input_files import InputReader


@takes_options("protocol", Protocol)
@takes_options("asked", MemorizationRequest, without=("client", "keys"))
@takes_options("settings", Settings, Settings)
@takes_options("output", Output, Output)
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
    *,
    protocol: dict[str, Any],
    asked: dict[str, Any],
    settings: Settings,
    output: Output,
) -> int:
    """Measure whose texts a federation's model continues for whom.

    A continuation counts if it has a text word for word, as an idea or paraphrased. Options of the
    scorer of paraphrases and of the detector, which then finds entities, are set as --set
    NAME.OPTION=VALUE, for example sequence_pair.model=FOLDER.
    """
    from fedaudit.audit.input_files import InputReader

    set_, servers = settings.split(asked["detector"])
    paraphraser = protocol["paraphraser"]
    plugins = [*filter(None, (asked["detector"], paraphraser))]
    options = settings_by_plugin(set_, "paraphraser or detector in use", plugins)
    protocol["scoring"] = options.get(paraphraser, {})
    if prefix_length:
        protocol["prefix_length"] = prefix_length
    asked |= {"options": options, "shorter": prefix_length is None, **servers}
    asked["protocol"] = build_settings(Protocol, protocol, "memorize")
    reader = InputReader()
    return run_audit(_request(run or [], clients or [], asked, reader), output, reader)


def _request(
    places: Sequence[Path],
    clients: Sequence[Path],
    asked: Mapping[str, Any],
    reader: "InputReader",
) -> MemorizationRequest:
    """Return what is asked for: files behind --clients are clients, a folder is RUN."""
    from fedaudit.audit.clients import list_clients
    from fedaudit.nano import BASE

    if clients and (models := [place for place in places if place.is_dir() or str(place) == BASE]):
        asked = {**asked, "target": one_target(str(models[0]), asked.get("target"))}
        places = [place for place in places if place != models[0]]
    if clients:
        files = [*clients, *places]
        return make_request(MemorizationRequest, clients=list_clients(None, files, reader), **asked)
    if len(places) > 1:
        raise UsageError(
            f"{places[1]} belongs to no option: name the clients' files with --clients FILE FILE."
        )
    target = asked.get("target")
    if is_url(target):
        raise UsageError(
            "A server does not keep clients' documents: name the clients' files with --clients "
            "FILE FILE."
        )
    named = places[0] if places else Path(target) if target else None
    if named is not None and not named.exists():
        raise InputError(
            f"There is no federation {named}; for any other model, name the clients' files with "
            "--clients FILE FILE ..."
        )
    clients_of = list_clients(named, (), reader)
    where = target or (str(places[0]) if places else None)
    return make_request(MemorizationRequest, clients=clients_of, **{**asked, "target": where})
