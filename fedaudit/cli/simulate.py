"""fedaudit simulate: a whole federation on this machine."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.cli.options import Device, Dtype, Json, Out, Quiet, Scale, Seed, Set

if TYPE_CHECKING:
    from fedaudit.simulation.config import Simulation
    from fedaudit.simulation.context import Run


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
    from fedaudit.simulation import counterfactual, preparation, runner
    from fedaudit.system.files import make_folder

    start_time = datetime.now(UTC)
    chosen = profiles.load(profile)
    config = settings(
        chosen.settings(scale), given_settings(set_ or [], seed, device, dtype, engine)
    )
    folder = out or Path("runs") / chosen.name
    original, place = config, folder
    if without:
        config, folder = counterfactual.settings(config, without, folder)
    run = preparation.prepare(config, folder)  # refuses settings before a file is read
    if without:
        counterfactual.check_original(original, place)
        make_folder(folder.parent)
    with runner.lock_run(folder):
        done = _train(run, start_time, resume=resume, quiet=quiet)
    if json:
        _copy(folder / "report.json", json)
    print_report(done)
    print_note(f"The federation is in {folder}. Audit it: fedaudit audit {folder}", quiet=quiet)
    return 0


def _train(run: "Run", start_time: datetime, *, resume: bool, quiet: bool) -> dict[str, Any]:
    """Train what is missing of the federation, and return its report."""
    from fedaudit.api.errors import UsageError
    from fedaudit.cli.console import print_note, progress_bars, save_report, training_progress
    from fedaudit.simulation import runner

    config, folder = run.config, run.out
    manifest = runner.existing_manifest(config, folder)
    if resume and manifest is None:
        raise UsageError(f"There is no run in {folder} to resume.")
    if manifest is not None and (report := _stored_report(config, manifest.status, folder)):
        print_note(f"{folder} already holds this federation, complete.", quiet=quiet)
        return report
    if manifest is not None:
        print_note(f"Going on in {folder} after round {len(manifest.rounds) - 1}.", quiet=quiet)
    with training_progress(quiet) as listener, progress_bars(quiet) as bar:
        result = runner.complete(run, manifest, listener=listener, progress=bar)
    return dict(save_report(_report(config, folder, result, start_time), folder / "report.json"))


def settings(table: Mapping[str, Any], above: Mapping[str, Any]) -> "Simulation":
    """Return the simulation that a profile's table and the command line's settings make."""
    from fedaudit.config.options import build_settings, merge_tables
    from fedaudit.simulation.config import Simulation

    return build_settings(Simulation, merge_tables(table, above), "simulate")


def given_settings(
    assignments: list[str], seed: int | None, device: str, dtype: str, engine: str = "local"
) -> dict[str, Any]:
    """Return the settings of the command line; --seed and the like win over --set."""
    from fedaudit.config.options import merge_tables, parse_settings

    options: dict[str, Any] = {} if seed is None else {"seed": seed}
    options |= {
        key: value for key, value in (("device", device), ("dtype", dtype)) if value != "auto"
    }
    options |= {} if engine == "local" else {"engine": engine}
    return merge_tables(parse_settings(assignments), options)


def _stored_report(config: "Simulation", status: str, folder: Path) -> dict[str, Any] | None:
    """Return the report of a complete federation; None for others, or if the judge changed."""
    from fedaudit.report.document import read

    if status != "complete" or not (folder / "report.json").exists():
        return None
    report = dict(read(folder / "report.json"))
    judge = report["run"]["config"].get("judge") or type(config)().table()["judge"]
    return report if judge == config.table()["judge"] else None


def _report(config: "Simulation", folder: Path, result: Any, start_time: datetime) -> Any:
    from fedaudit.audit import environment
    from fedaudit.federation import adapters
    from fedaudit.report.run_header import build_report
    from fedaudit.simulation import counterfactual

    hashes = result.manifest.files
    last = result.manifest.rounds[-1]
    return build_report(
        command="simulate",
        name=config.sha256()[:12],
        config=config.table(),
        started=start_time,
        resumed_from=None if result.resumed_from is None else f"round {result.resumed_from}",
        base=config.base,
        adapter=str(folder / last.adapter),
        sha256=adapters.fingerprint(
            folder / last.adapter, lambda file: hashes[file.relative_to(folder).as_posix()]
        ),
        base_sha256=result.manifest.base.sha256,
        environment=environment.describe(config.device),
        data=[
            {
                "path": str(folder / client.data),
                "sha256": hashes[client.data],
                "records": client.examples,
                "annotation": result.annotation,
            }
            for client in result.manifest.clients
        ],
        seeds={"simulation": config.seed},
        measurements=result.measurements,
        limits=[*counterfactual.caveat(config, folder.parent.parent), *result.limits],
        artifacts=[{"path": str(folder / last.adapter), "sha256": None}],
    )


def _copy(source: Path, to: Path) -> None:
    from fedaudit.system.outputs import REPORT, write_output

    write_output(to, source.read_text("utf-8"), REPORT)
