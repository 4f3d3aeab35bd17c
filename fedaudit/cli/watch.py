"""fedaudit watch: what each round has learnt of a member's own records."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.api.errors import NoEffectError, UsageError
from fedaudit.audit.request import WatchRequest
from fedaudit.cli.audit_runner import make_request, run_audit, watching
from fedaudit.cli.console import print_note, print_report, verdict_code
from fedaudit.cli.options import Output, takes_options

if TYPE_CHECKING:
    from fedaudit.audit.input_files import InputReader
    from fedaudit.federation.folder import Federation

PAUSE = 5
"""The number of seconds between two looks at the folder."""


@takes_options(
    "asked",
    WatchRequest,
    without=("target", "model", "adapter", "client", "keys", "detector"),
)
@takes_options("output", Output, Output, without=("reveal", "shard", "dry_run"))
def watch(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The federation's folder, which may still grow.")
    ],
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Wait for further rounds; end when the limit is passed or RUN is done."
        ),
    ] = False,
    *,
    asked: dict[str, Any],
    output: Output,
) -> int:
    """Test every round's global model with your own records, alone.

    How many of them rank higher than records that you set aside, because they were trained on: at
    least and at most, in all rounds together with 95 % confidence, however often you look.

    Exit code 1: in some round surely more than the limit was learnt. 7: neither that nor the
    opposite is shown.
    """
    request = make_request(WatchRequest, target=str(run), **asked)
    return _follow(request, output) if follow else run_audit(request, output)


def _follow(request: WatchRequest, output: Output) -> int:
    """Test each new round, with a report of its own; show the last one and return its code."""
    from fedaudit.audit.input_files import InputReader
    from fedaudit.audit.session import AuditSession
    from fedaudit.audit.watch import WatchMemory, replaced_text, resolve

    if request.round is not None or output.resume:
        raise UsageError("--follow goes with neither --round nor --resume.")
    reader, memory = InputReader(), WatchMemory()
    path, tested = Path(request.target or ""), 0
    while True:
        federation = _next_round(path, tested, reader, quiet=output.quiet)
        tested = federation.manifest.rounds[-1].round
        inputs = resolve(replace(request, round=tested), reader, memory)
        for number in memory.newly_replaced(inputs.round_sha256):
            print_note(replaced_text(number), quiet=output.quiet)
        session = AuditSession(
            inputs.request,
            output.out and output.out / f"round-{tested:03d}",
            copy=output.json,
            inputs=inputs,
        )
        try:
            session.run(watching(output.quiet))
        except NoEffectError:
            if federation.manifest.status == "complete":
                raise
            print_note(
                f"Round {tested} still equals its base: nothing to test.", quiet=output.quiet
            )
            continue
        report = session.document
        if report["verdict"]["status"] == "fail" or federation.manifest.status == "complete":
            print_report(report)
            print_note(f"The report is {session.folder / 'report.json'}.", quiet=output.quiet)
            return verdict_code(report)
        print_note(
            f"Round {tested}: {' '.join(report['verdict']['reasons'])} The report is "
            f"{session.folder / 'report.json'}.",
            quiet=output.quiet,
        )


def _next_round(path: Path, tested: int, reader: "InputReader", *, quiet: bool) -> "Federation":
    """Wait until a federation has a round after `tested`, or is complete; return it."""
    from fedaudit.federation.folder import is_federation

    waiting = False
    while True:
        if is_federation(path):
            federation = reader.reopen(path)
            last = federation.manifest.rounds[-1].round
            if last > tested or federation.manifest.status == "complete":
                return federation
        if not waiting:
            print_note(f"Waiting for round {tested + 1} of {path}.", quiet=quiet)
            waiting = True
        time.sleep(PAUSE)
