"""fedaudit attribute bundle and verify: a decision handed over, and computed again."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.console import print_note, print_text, progress_bars
from fedaudit.cli.options import (
    Commitments,
    Device,
    Dtype,
    Quiet,
    Set,
    settings_by_installed_plugin,
)

UNDECIDED = 7
"""The exit code where nothing differs, and what the accusation rests on was not all checked."""


def bundle(
    estimates: Annotated[Path, typer.Argument(help="The folder of estimates.")],
    watermark: Annotated[Path, typer.Option("--watermark", help="The owner's file of marks.")],
    scores: Annotated[Path, typer.Option("--scores", help="The file of scores.")],
    report: Annotated[Path, typer.Option("--report", help="The report of `attribute decide`.")],
    out: Annotated[Path, typer.Option("--out", help="The bundle's folder; it must be new.")],
    commitments: Commitments = None,
    mark: Annotated[
        list[str] | None, typer.Option("--mark", help="Open only this mark; may be repeated.")
    ] = None,
    set_: Set = None,
) -> int:
    """Put together what an expert needs to compute a decision again.

    An accused party's expert needs no more than that.

    It opens marks: anyone who has the bundle can find, plant and avoid them.
    """
    from fedaudit.attribution.evidence import bundle as bundles

    bundle_parts = bundles.BundleParts(
        estimates=estimates,
        marks=watermark,
        scores=scores,
        report=report / bundles.REPORT if report.is_dir() else report,
        commitments=commitments,
        opened_marks=tuple(mark or ()),
        options=settings_by_installed_plugin(set_, "attribution", "watermark"),
    )
    new_bundle = bundles.make(bundle_parts, out)
    print_text(f"{len(new_bundle.files)} files in {out}.")
    print_note(f"{out} opens marks: anyone who has it can find, plant and avoid them.")
    return 0


def verify(
    folder: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The bundle's folder.")],
    client: Annotated[
        str, typer.Option("--client", help="Whose Z is printed; default: the flagged clients'.")
    ] = "",
    log: Annotated[
        Path | None,
        typer.Option("--log", help="The server's log of sums, from the server itself."),
    ] = None,
    commitments: Annotated[
        Path | None,
        typer.Option(
            "--commitments", help="The commitments that you received before training yourself."
        ),
    ] = None,
    estimates_sha256: Annotated[
        str,
        typer.Option(
            "--estimates-sha256", help="The SHA-256 of estimates.json, as the server printed it."
        ),
    ] = "",
    workers: Annotated[
        int,
        typer.Option(
            "--workers", help="Processes that test on CPU; 0 is one a core.", min=0, max=4_096
        ),
    ] = 0,
    device: Device = "cpu",
    dtype: Dtype = "auto",
    quiet: Quiet = False,
) -> int:
    """Compute scores, Z and decision of a bundle again. Exit code 1: something differs.

    It needs the base model. Scores of one device are compared bit for bit on the same one. Exit
    code 7: nothing differs, but something was not checked that could change who is accused.
    """
    from fedaudit.attribution.evidence import verification
    from fedaudit.attribution.owner.worker_pool import DetectionPool, WorkerOptions
    from fedaudit.cli import evidence

    with (
        progress_bars(quiet) as bar,
        DetectionPool(WorkerOptions(device=device, dtype=dtype, workers=workers)) as pool,
    ):
        progress = bar("testing estimates")
        checks = list(
            verification.verify_bundle(
                folder,
                pool,
                client=client,
                log=log,
                commitments=commitments,
                estimates_sha256=estimates_sha256,
                progress=progress,
            )
        )
    if evidence.print_checks(checks):
        return evidence.DIFFERS
    unchecked = any(check.state == "not checked" and check.rests for check in checks)
    return UNDECIDED if unchecked else 0
