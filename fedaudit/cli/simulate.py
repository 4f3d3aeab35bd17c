"""fedaudit simulate: a whole federation on this machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.cli.console import (
    print_lines,
    print_note,
    print_report,
    progress_bars,
    training_progress,
)
from fedaudit.cli.options import Device, DryRun, Dtype, Json, Out, Quiet, Scale, Seed, Set
from fedaudit.config.options import merge_tables, parse_settings
from fedaudit.system.outputs import REPORT, check_output, write_output

if TYPE_CHECKING:
    from fedaudit.api.progress import Progress
    from fedaudit.simulation.context import Listener


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
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> int:
    """Train a federation, round by round, and measure its utility.

    The same command goes on where an interrupted one stopped.
    """
    from fedaudit.simulation import session

    given = given_settings(set_ or [], seed, device, dtype, engine)
    run = session.prepare(profile, scale, given, out, without or ())
    if dry_run:
        from fedaudit.simulation.forecast import forecast

        print_lines(forecast(run, given).describe())
        return 0
    kind = REPORT.of("simulate")
    if json:
        check_output(json, kind)
    done = session.complete(
        run,
        resume=resume,
        watching=_watching(quiet),
        note=lambda line: print_note(line, quiet=quiet),
    )
    if json:
        write_output(json, (run.out / "report.json").read_text("utf-8"), kind)
    print_report(done)
    print_note(f"The federation is in {run.out}. Audit it: fedaudit audit {run.out}", quiet=quiet)
    return 0


@contextmanager
def _watching(quiet: bool) -> Iterator[tuple["Listener", Callable[[str], "Progress"]]]:
    """Provide the progress display of a training."""
    with training_progress(quiet) as listener, progress_bars(quiet) as bar:
        yield listener, bar


def given_settings(
    assignments: list[str], seed: int | None, device: str, dtype: str, engine: str = "local"
) -> dict[str, Any]:
    """Return the settings of the command line; --seed and the like win over --set."""
    options: dict[str, Any] = {} if seed is None else {"seed": seed}
    options |= {
        key: value for key, value in (("device", device), ("dtype", dtype)) if value != "auto"
    }
    options |= {} if engine == "local" else {"engine": engine}
    return merge_tables(parse_settings(assignments), options)
