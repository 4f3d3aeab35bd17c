"""fedaudit attribute: which clients trained on watermarked documents."""

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fedaudit.api.errors import UsageError
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.cli.attribution import bundle, calibrate, estimate, sums_options
from fedaudit.cli.attribution.sums_options import Colluding, DryRun, takes_sums
from fedaudit.cli.console import (
    print_note,
    print_text,
    progress_bars,
    report_and_exit_code,
    report_folder,
)
from fedaudit.cli.options import (
    Commitments,
    Device,
    Dtype,
    Json,
    Out,
    Quiet,
    Set,
    Watermark,
    refuse_options_before_subcommand,
    settings_by_installed_plugin,
)
from fedaudit.system.files import check_target, existing_parent
from fedaudit.system.numbers import count_of


class StepGroup(TyperGroup):
    """The parties' steps; a federation in the place of one is told where it belongs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the step that the first word names; raises UsageError for a folder there."""
        name = args[0]
        if self.get_command(ctx, name) is None and ("/" in name or Path(name).exists()):
            raise UsageError(f"A federation is given with an option: --rounds {shlex.quote(name)}.")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=StepGroup,
    help="Name the clients that trained on watermarked documents.",
    invoke_without_command=True,
)

RoundsOption = Annotated[
    Path | None, typer.Option("--rounds", help="A federation's folder, or the rounds folder in it.")
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers", help="Processes that run the tests on CPU; 0: one per core.", min=0, max=4_096
    ),
]
Alpha = Annotated[
    float,
    typer.Option(
        "--alpha", help="The chance that an innocent client is flagged, over all clients and marks."
    ),
]
Federations = Annotated[
    int | None,
    typer.Option(
        "--federations",
        help="Federations like this one to simulate for each strength of a mark, so that the "
        "report says how often an innocent client is flagged; default: 100, or none above 200 "
        "pairs of client and mark.",
        min=0,
        max=1_000_000,
    ),
]
Tau = Annotated[
    float,
    typer.Option(
        "--tau",
        help="The Z that a client must exceed to be flagged, in standard deviations of chance.",
    ),
]


@app.callback()
@takes_sums
def attribute(
    context: typer.Context,
    rounds: RoundsOption = None,
    watermark: Watermark = None,
    commitments: Commitments = None,
    attribution: Annotated[
        list[str] | None,
        typer.Option(
            "--attribution",
            help="fed_attr, or a method that reads plaintext updates; may be repeated.",
        ),
    ] = None,
    *,
    sums: ProtocolConfig,
    tau: Tau = 4.0,
    alpha: Alpha = 0.01,
    federations: Federations = None,
    dry_run: DryRun = False,
    colluding: Colluding = "",
    set_: Set = None,
    workers: Workers = 0,
    out: Out = None,
    json: Json = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    quiet: Quiet = False,
) -> int:
    """Name the clients whose updates carry a watermark, given the whole federation.

    Options of a method or of a watermark are set as --set NAME.OPTION=VALUE, for example
    fictitious.tokens=24. Exit code 1: someone is flagged.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before_subcommand(context)
        return 0  # before anything is imported: help of a step must stay light
    from fedaudit.attribution import pipeline
    from fedaudit.attribution import request as requests
    from fedaudit.attribution.owner.worker_pool import WorkerOptions
    from fedaudit.audit.input_files import InputReader

    if rounds is None:
        raise UsageError(
            "Name a federation with --rounds, or one party's step: estimate, score or decide."
        )
    rounds = sums_options.native(rounds, quiet=quiet)
    request = requests.AttributionRequest(
        rounds=rounds,
        watermark=watermark,
        commitments=commitments,
        methods=tuple(dict.fromkeys(attribution or ["fed_attr"])),
        protocol_config=sums,
        options=settings_by_installed_plugin(set_, "attribution", "watermark"),
        threshold=tau,
        alpha=alpha,
        seed=sums.seed or 0,
        federations=federations,
        worker_options=WorkerOptions(device=device, dtype=dtype, workers=workers),
    )
    requests.check_methods(request.methods)
    if dry_run and "fed_attr" not in request.methods:
        raise UsageError(
            "--dry-run describes the sums that fed_attr asks for: add --attribution fed_attr."
        )
    helpers = sums_options.helpers(colluding, dry_run=dry_run)
    resolved = requests.resolve_request(request, InputReader())
    if dry_run:
        assert resolved.plan is not None  # fed_attr is among the methods
        return sums_options.print_dry_run(
            resolved.plan, resolved.marks, request.worker_options, helpers
        )
    folder = report_folder(
        out,
        Path("runs") / "attribute" / requests.name_of(resolved),
        json,
        "attribute",
    )
    with progress_bars(quiet) as bar:
        return report_and_exit_code(pipeline.run(resolved, bar), folder, json, quiet)


app.command()(estimate.estimate)


@app.command()
def score(
    estimates: Annotated[Path, typer.Argument(help="The folder of estimates.")],
    watermark: Annotated[Path, typer.Option("--watermark", help="The owner's file of marks.")],
    out: Annotated[
        Path, typer.Option("--out", help="The file of scores; later runs may add rounds to it.")
    ],
    set_: Set = None,
    workers: Workers = 0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    quiet: Quiet = False,
) -> int:
    """Take the owner's step: test every estimate for every mark.

    The global model before each round is tested as well. It needs the base, the estimates and the
    key, and no client's update.
    """
    from fedaudit.attribution import estimates as files
    from fedaudit.attribution import scores as scores_file
    from fedaudit.attribution.owner import detection, scoring
    from fedaudit.attribution.owner.worker_pool import DetectionPool, WorkerOptions
    from fedaudit.federation import watermark_keys as marks_file

    stored_estimates = files.read(estimates)
    options = settings_by_installed_plugin(set_, "watermark")
    marks = detection.override_options(marks_file.read(watermark), options)
    detection.check_issued(marks, watermark)
    check_target(out)  # which may be there, of earlier rounds
    existing_parent(out.absolute().parent)
    known_scores = scoring.read_known(out)
    with (
        progress_bars(quiet) as bar,
        DetectionPool(WorkerOptions(device=device, dtype=dtype, workers=workers)) as pool,
    ):
        progress = bar("testing estimates")
        scored = scoring.score(
            estimates,
            stored_estimates,
            marks,
            pool,
            known=known_scores,
            keep=lambda so_far: scores_file.write(so_far, out),
            progress=progress,
        )
    earlier = known_scores.seconds if known_scores else 0.0
    print_text(
        f"{count_of(len(scored.rounds), 'round')} of {count_of(len(scored.clients), 'client')} "
        f"scored for {count_of(len(scored.marks), 'mark')} in {out}, "
        f"{scored.seconds - earlier:.0f} s."
    )
    if not stored_estimates.base.sha256:
        print_note(f"Integrity not checked: {files.NAME} has no hash of its base.")
    return 0


@app.command()
def decide(
    scores: Annotated[Path, typer.Argument(help="The file of scores.")],
    commitments: Commitments = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="The server's log of sums, which tells the decision which sets were drawn."
        ),
    ] = None,
    tau: Tau = 4.0,
    alpha: Alpha = 0.01,
    federations: Federations = None,
    out: Out = None,
    json: Json = None,
    quiet: Quiet = False,
) -> int:
    """Combine the scores of all rounds and flag clients. Exit code 1: someone is flagged."""
    from fedaudit.attribution import report as reporting
    from fedaudit.attribution import scores as scores_file

    start_time = datetime.now(UTC)
    stored_scores = scores_file.read(scores)
    with progress_bars(quiet) as bar:
        report = reporting.decided_report(
            stored_scores,
            scores,
            threshold=tau,
            alpha=alpha,
            start_time=start_time,
            commitments=commitments,
            log=log,
            federations=federations,
            progress=bar("simulating federations"),
        )
    folder = report_folder(
        out, Path("runs") / "attribute" / str(report.run["id"]), json, report.run["command"]
    )
    return report_and_exit_code(report, folder, json, quiet)


app.command()(bundle.bundle)
app.command()(bundle.verify)
app.command()(calibrate.calibrate)
