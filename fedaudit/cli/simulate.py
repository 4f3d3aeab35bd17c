"""fedaudit simulate: a whole federation on this machine."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.cli.options import Device, Dtype, Json, Out, Quiet, Scale, Seed, Set

if TYPE_CHECKING:
    from fedaudit.simulation.config import Simulation


def simulate(
    profile: Annotated[str, typer.Option("--profile", help="A profile's name or TOML file.")],
    scale: Scale = "nano",
    out: Out = None,
    set_: Set = None,
    seed: Seed = None,
    json: Json = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="local|ray[:N]|flower[:N]",
            help="Train here, on a Ray cluster, or in Flower's simulation.",
        ),
    ] = "local",
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="CLIENT",
            help="Train the federation in --out again without this client; may be repeated.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with an unfinished run; fail when there is none."),
    ] = False,
    quiet: Quiet = False,
) -> int:
    """Train a federation, round by round, and measure its utility.

    The same command goes on where an interrupted one stopped.
    """
    from fedaudit.cli.console import print_note, print_report
    from fedaudit.config import profile as profiles
    from fedaudit.simulation import counterfactual, runner
    from fedaudit.system.files import check_target, make_folder

    if json:
        check_target(json)
    started = datetime.now(UTC)
    chosen = profiles.load(profile)
    config = settings(
        chosen.settings(scale), given_settings(set_ or [], seed, device, dtype, engine)
    )
    place = out or Path("runs") / chosen.name
    runner.prepare(config, place)  # names what is wrong with a plugin before anything else
    if without:
        config, place = counterfactual.settings(config, without, place)
        make_folder(place.parent)
    with runner.alone_in(place):
        done = _trained(config, place, started, resume=resume, quiet=quiet)
    if json:
        _copy(place / "report.json", json)
    print_report(done)
    print_note(f"The federation is in {place}.", quiet=quiet)
    return 0


def _trained(
    config: "Simulation", place: Path, started: datetime, *, resume: bool, quiet: bool
) -> dict[str, Any]:
    """Return the report of the federation, trained as far as it is not."""
    from fedaudit.api.errors import UsageError
    from fedaudit.cli.console import print_note, progress_bars, save_report, training_progress
    from fedaudit.simulation import runner

    found = runner.existing_manifest(config, place)
    if resume and found is None:
        raise UsageError(f"There is no run in {place} to resume.")
    if found is not None and (kept := _kept(config, found.status, place)):
        print_note(f"{place} holds this very federation already, complete.", quiet=quiet)
        return kept
    if found is not None:
        print_note(f"Going on in {place} after round {len(found.rounds) - 1}.", quiet=quiet)
    with training_progress(quiet) as listener, progress_bars(quiet) as bar:
        result = runner.simulate(config, place, listener=listener, progress=bar)
    return dict(save_report(_report(config, place, result, started), place / "report.json"))


def settings(table: Mapping[str, Any], above: Mapping[str, Any]) -> "Simulation":
    """Return the simulation that a profile's table and the command line's settings make."""
    from fedaudit.config.options import build, merge_tables
    from fedaudit.simulation.config import Simulation

    return build(Simulation, merge_tables(table, above), "simulate")


def given_settings(
    assignments: list[str], seed: int | None, device: str, dtype: str, engine: str = "local"
) -> dict[str, Any]:
    """Return the settings that the command line's options spell; --seed and others win."""
    from fedaudit.config.options import merge_tables, parse_settings

    own: dict[str, Any] = {} if seed is None else {"seed": seed}
    own |= {key: value for key, value in (("device", device), ("dtype", dtype)) if value != "auto"}
    own |= {} if engine == "local" else {"engine": engine}
    return merge_tables(parse_settings(assignments), own)


def _kept(config: "Simulation", status: str, place: Path) -> dict[str, Any] | None:
    """Return the report of a complete federation, unless another judge is to be asked now."""
    from fedaudit.report.document import read

    if status != "complete" or not (place / "report.json").exists():
        return None
    report = dict(read(place / "report.json"))
    asked = report["run"]["config"].get("judge") or type(config)().table()["judge"]
    return report if asked == config.table()["judge"] else None


def _report(config: "Simulation", place: Path, result: Any, started: datetime) -> Any:
    from fedaudit.audit import environment
    from fedaudit.federation import adapters
    from fedaudit.report.run_header import build_report
    from fedaudit.simulation import counterfactual
    from fedaudit.system.files import sha256

    last = result.manifest.rounds[-1]
    return build_report(
        command="simulate",
        name=config.sha256()[:12],
        config=config.table(),
        started=started,
        resumed_from=None if result.resumed_from is None else f"round {result.resumed_from}",
        base=config.base,
        adapter=str(place / last.adapter),
        sha256=adapters.fingerprint(place / last.adapter),
        base_sha256=result.manifest.base.sha256,
        environment=environment.describe(config.device),
        data=[
            {
                "path": str(place / client.data),
                "sha256": sha256(place / client.data),
                "records": client.examples,
                "annotation": result.annotation,
            }
            for client in result.manifest.clients
        ],
        seeds={"simulation": config.seed},
        measurements=result.measurements,
        limits=[*counterfactual.caveat(config, place.parent.parent), *result.limits],
        artifacts=[{"path": str(place / last.adapter), "sha256": None}],
    )


def _copy(source: Path, to: Path) -> None:
    from fedaudit.system.files import atomic_text

    atomic_text(to, source.read_text("utf-8"))
