"""A simulation and its folder: its settings, what is missing of its training, and its report."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.progress import Progress, no_progress
from fedaudit.config import profile as profiles
from fedaudit.config.options import build_settings, merge_tables
from fedaudit.engine import environment
from fedaudit.federation import adapters
from fedaudit.federation.counterfactual import place_of
from fedaudit.report.document import Report, read, write
from fedaudit.report.run_header import build_report
from fedaudit.simulation import preparation, runner
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.context import Listener, Run
from fedaudit.simulation.runner import SimulationResult, existing_manifest
from fedaudit.system.files import make_folder

Watching = AbstractContextManager[tuple[Listener, Callable[[str], Progress]]]
"""Provides the callbacks for progress while a federation is trained."""


def simulate(
    profile: str | Path = "fed_pii",
    *,
    scale: str = "nano",
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    without: Sequence[str] = (),
    resume: bool = False,
    watching: Watching | None = None,
) -> Path:
    """Train a federation, or what is missing of it, and return its folder, as `fedaudit simulate`.

    Args:
        profile: The name of a profile, or its TOML file.
        scale: One of the profile's scales: "nano", "small" or "paper".
        out: The federation's folder; the default is `runs/PROFILE`.
        settings: What replaces settings of the profile, such as `{"seed": 1, "rounds": 2}`.
        without: Clients without which the federation in `out` is trained again, beside it.
        resume: Whether an unfinished run must exist.
        watching: Provides the callbacks for progress.

    Returns:
        The folder, which `fedaudit.audit` and `fedaudit.attribute` take. Its `report.json` has the
        federation's utility and cost.

    Raises:
        UsageError: For settings that do not exist or do not go together.
        InputError: For files that cannot be read, and for a folder that holds something else.
    """
    run = prepare(str(profile), scale, settings or {}, None if out is None else Path(out), without)
    complete(run, resume=resume, watching=watching)
    return run.out


def simulation_settings(table: Mapping[str, Any], above: Mapping[str, Any]) -> Simulation:
    """Return the settings of a profile's table, with those `above` in place of its own."""
    return build_settings(Simulation, merge_tables(table, above), "simulate")


def prepare(
    profile: str, scale: str, above: Mapping[str, Any], out: Path | None, without: Sequence[str]
) -> Run:
    """Return a simulation with every check made that reads no records.

    Raises UsageError for settings, and InputError where the original of a counterfactual is
    missing or was trained with other settings.
    """
    chosen = profiles.load(profile)
    original = config = simulation_settings(chosen.settings(scale), above)
    place = folder = out or Path("runs") / chosen.name
    if without:
        config, folder = settings(config, without, folder)
    run = preparation.prepare(config, folder)  # refuses settings before a file is read
    if without:
        check_original(original, place)
        make_folder(folder.parent)
    return run


def complete(
    run: Run,
    *,
    resume: bool = False,
    watching: Watching | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> Mapping[str, Any]:
    """Train what is missing of a federation, write its report, and return it as a document.

    `note` is called with what was there already. Raises UsageError if there is nothing to resume,
    and InputError for a folder that holds something else.
    """
    start_time, config, folder = datetime.now(UTC), run.config, run.out
    with runner.lock_run(folder):
        manifest = runner.existing_manifest(config, folder)
        if resume and manifest is None:
            raise UsageError(f"There is no run in {folder} to resume.")
        if manifest is not None and (stored := stored_report(config, manifest.status, folder)):
            note(f"{folder} already holds this federation, complete.")
            return stored
        if manifest is not None:
            note(f"Going on in {folder} after round {len(manifest.rounds) - 1}.")
        with watching or nullcontext((lambda event: None, lambda title: no_progress)) as callbacks:
            listener, bar = callbacks
            result = runner.complete(run, manifest, listener=listener, progress=bar)
        report = _report(config, folder, result, start_time)
        return write(report, folder / "report.json")


def stored_report(config: Simulation, status: str, folder: Path) -> Mapping[str, Any] | None:
    """Return the report of a complete federation; None for others, or if the judge changed."""
    if status != "complete" or not (folder / "report.json").exists():
        return None
    report = read(folder / "report.json")
    judge = report["run"]["config"].get("judge") or type(config)().table()["judge"]
    return report if judge == config.table()["judge"] else None


def _report(
    config: Simulation, folder: Path, result: SimulationResult, start_time: datetime
) -> Report:
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
        limits=[*caveat(config, folder.parent.parent), *result.limits],
        artifacts=[{"path": str(folder / last.adapter), "sha256": None}],
    )


CAVEAT = (
    "This is a counterfactual federation: the one in {run} trained again without {who}, with the "
    "same seeds, settings and other clients. It answers what the model would know if {who} had "
    "never joined, by one training each: what chance in training does is not averaged out."
)


def settings(config: Simulation, without: Sequence[str], out: Path) -> tuple[Simulation, Path]:
    """Return the settings of the federation in `out` without some clients, and its folder.

    Raises UsageError for an unknown client and for leaving out everybody.
    """
    names = config.client_names
    for client in without:
        if client not in names:
            raise unknown_name_error("client", client, names)
    left_out = [name for name in names if name in without]
    if len(left_out) == len(names):
        raise UsageError("--without leaves no client: there would be nothing to train.")
    return replace(config, without=tuple(left_out)), place_of(out, left_out)


def check_original(config: Simulation, out: Path) -> None:
    """Raise InputError unless `out` holds the complete federation of these settings."""
    manifest = existing_manifest(config, out)
    if manifest is None or manifest.status != "complete":
        raise InputError(
            f"{out} holds no complete federation of these settings: give the same command without "
            "--without first."
        )


def caveat(config: Simulation, run: Path) -> tuple[str, ...]:
    """Return the caveat that a report has on a counterfactual federation; nothing for others."""
    if not config.without:
        return ()
    return (CAVEAT.format(run=run, who=", ".join(config.without)),)
