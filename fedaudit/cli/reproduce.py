"""fedaudit reproduce: a paper's whole study."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.cli.console import (
    print_lines,
    print_note,
    print_report,
    print_text,
    progress_bars,
    report_folder,
    save_report,
    training_progress,
)
from fedaudit.cli.options import Device, DryRun, Dtype, Json, Out, Quiet, Scale, Seed, Set
from fedaudit.cli.simulate import given_settings
from fedaudit.report.redaction import Redactor, user_key

if TYPE_CHECKING:
    from fedaudit.config.profile import Profile, Published
    from fedaudit.report.document import Report
    from fedaudit.reproduction.runner import StudyResult


def reproduce(
    profile: Annotated[str, typer.Argument(help="A profile's name or TOML file.")],
    scale: Scale = "nano",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Leave out ablations and some rows; their claims stay open."),
    ] = False,
    out: Out = None,
    set_: Set = None,
    seed: Seed = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            help="How many seeds to use; those that settings were tuned on are skipped.",
            min=1,
            max=1_000,
        ),
    ] = None,
    json: Json = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            help="Variants that run at a time; 0: one per core at nano scale.",
            min=0,
            max=4_096,
        ),
    ] = 0,
    dry_run: DryRun = False,
    quiet: Quiet = False,
) -> int:
    """Run a paper's study, and check its claims and figures.

    A federation of equal settings is trained once and kept. Exit code 1: a claim does not hold.
    """
    from fedaudit.config import profile as profiles
    from fedaudit.reproduction.runner import run_study
    from fedaudit.reproduction.variant import Watch
    from fedaudit.system.files import new_folder

    start_time = datetime.now(UTC)
    chosen = profiles.load(profile)
    given = given_settings(set_ or [], seed, device, dtype)
    place = Path("runs") / "reproduce" / chosen.name
    if dry_run:
        from fedaudit.reproduction.forecast import describe_study

        below = (out or place) / "federations"
        print_lines(
            describe_study(
                chosen, scale, quick=quick, settings=given, federations=below, seeds=seeds
            )
        )
        return 0
    folder = report_folder(out, place, json, "reproduce")
    redactor = Redactor(user_key())
    with (
        new_folder(folder),
        training_progress(quiet) as listener,
        progress_bars(quiet) as bar,
    ):
        watch = Watch(
            variant=lambda name, n, total: print_note(
                f"Variant {n} of {total}: {name}", quiet=quiet
            ),
            training=listener,
            bar=bar,
        )
        result = run_study(
            chosen,
            scale,
            quick=quick,
            settings=given,
            federations=folder / "federations",
            redactor=redactor,
            watch=watch,
            jobs=jobs,
            seeds=seeds,
        )
    report = _report(chosen, scale, result, start_time, device, quick=quick)
    document = save_report(report, folder / "report.json", json)
    print_report(document)
    print_text("\n".join(_figures(result.figures)))
    print_note(f"The report is {folder / 'report.json'}.", quiet=quiet)
    return 1 if any(claim.holds is False for claim in result.claims) else 0


def _figures(figures: Sequence[tuple["Published", float | None]]) -> list[str]:
    """Return the paper's figures with ours beside them."""
    if not figures:
        return []
    lines = ["", "Published and ours", f"{'source':<10} {'paper':>9} {'ours':>9}  what"]
    for figure, ours in figures:
        our_value = "-" if ours is None else f"{ours:.4g}"
        lines.append(f"{figure.source:<10} {figure.value:>9.4g} {our_value:>9}  {figure.what}")
    return lines


def _report(
    profile: "Profile",
    scale: str,
    result: "StudyResult",
    start_time: datetime,
    device: str,
    *,
    quick: bool,
) -> "Report":
    from fedaudit.engine import environment
    from fedaudit.report.run_header import build_report, run_id

    figures = [
        {"source": f.source, "what": f.what, "metric": f.metric, "paper": f.value, "ours": ours}
        for f, ours in result.figures
    ]
    config: Mapping[str, Any] = {"profile": profile.name, "scale": scale, "figures": figures}
    if profile.tradeoffs:
        config = {**config, "tradeoffs": [asdict(column) for column in profile.tradeoffs]}
    if quick:
        config = {**config, "quick": True}
    if result.lock:
        config = {**config, "lock": dict(result.lock)}
    if len(result.seeds) > 1:
        config = {**config, "seeds": list(result.seeds)}
    elif result.seed is not None:
        config = {**config, "seed": result.seed}
    federations = list(dict.fromkeys(result.federations))
    data = {row["path"]: row for row in result.data}
    return build_report(
        command="reproduce",
        name=run_id({**config, "federations": [path.name for path in federations]}),
        config=config,
        started=start_time,
        base=str(profile.settings(scale).get("base")),
        environment=environment.describe(device),
        data=list(data.values()),
        seeds={},
        measurements=result.measurements,
        findings=result.findings,
        claims=result.claims,
        limits=result.limits,
        artifacts=[{"path": str(path), "sha256": None} for path in federations],
    )
