"""fedaudit attribute estimate: the server's step, alone."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.cli.attribution import sums_options
from fedaudit.cli.attribution.sums_options import Colluding, DryRun, takes_sums
from fedaudit.cli.console import print_note, print_text, progress_bars
from fedaudit.cli.options import Quiet
from fedaudit.system.files import sha256
from fedaudit.system.numbers import count_of


@takes_sums
def estimate(
    rounds: Annotated[Path, typer.Option("--rounds", help="The server's federation folder.")],
    out: Annotated[
        Path, typer.Option("--out", help="The folder for the estimates, which the owner gets.")
    ],
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            help="The log of what was asked for, which only the server keeps; default: "
            "OUT.log.json.",
        ),
    ] = None,
    round_: Annotated[
        list[int] | None, typer.Option("--round", help="Only this round; may be repeated.")
    ] = None,
    *,
    sums: ProtocolConfig,
    dry_run: DryRun = False,
    colluding: Colluding = "",
    quiet: Quiet = False,
) -> int:
    """Take the server's step: estimate clients' updates from sums.

    It needs no key. Rounds that OUT has already are not asked for again, so rounds may be added as
    they come. Without --seed the sets are drawn at random and only the log says them.
    """
    from fedaudit.attribution import estimates as estimates_folder
    from fedaudit.attribution.copies import copy_caveats
    from fedaudit.attribution.server import dry_run as forecast
    from fedaudit.attribution.server import estimation, ledger, sums_log
    from fedaudit.federation.folder import unchecked_caveats

    helpers = sums_options.helpers(colluding, dry_run=dry_run)
    protocol_config = replace(sums, rounds=tuple(round_ or ()))
    rounds = sums_options.native(rounds, quiet=quiet, recorded=not dry_run)
    plan = estimation.remaining_plan(sums_options.draw_plan(rounds, protocol_config), out)
    beside = out if out.name else out.absolute()
    log_path = log or beside.with_name(f"{beside.name}.log.json")
    logs = sums_log.read(log_path, estimation.identity(plan.federation))
    plan = ledger.resume_plan(plan, logs) if protocol_config.seed is None else plan
    entries = ledger.check(plan, estimation.identity(plan.federation), logs)
    again = [entry.round for entry in entries if entry.round in plan.designs]
    if dry_run:
        return sums_options.print_dry_run(
            plan, (), None, helpers, ledger.describe_releases(plan.federation, again)
        )
    with progress_bars(quiet) as bar:
        estimates, seconds = estimation.estimate(
            plan, out, log_path, progress=bar("asking for sums")
        )
    count = sum(len(r.estimates) for r in estimates.rounds)
    print_text(
        f"{count_of(len(estimates.rounds), 'round')} with {count_of(count, 'estimate')} in {out}, "
        f"{count_of(plan.queries, 'sum')}, {seconds:.0f} s."
    )
    given_away = (*forecast.describe_choices(plan), *forecast.describe_exposure(plan))
    print_text("\n".join([*given_away, *ledger.describe_releases(plan.federation, again)]))
    print_text(
        f"SHA-256 of {estimates_folder.NAME}: {sha256(out / estimates_folder.NAME)}. It is in the "
        "ledger and the log; tell it to anyone who may have to check the estimates."
    )
    for caveat in (*unchecked_caveats(plan.federation), *copy_caveats(estimates.copies)):
        print_note(caveat)
    print_note(f"What was asked for is in {log_path}; it stays with the server.", quiet=quiet)
    return 0
