"""fedaudit attribute calibrate: what decisions on a federation's own settings are worth."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.cli.console import print_text, progress_bars
from fedaudit.cli.options import Quiet
from fedaudit.report.redaction import make_visible
from fedaudit.system.numbers import count_of

if TYPE_CHECKING:
    from fedaudit.attribution.decision.calibration import Calibration, PowerEstimate
    from fedaudit.attribution.scores import Scores

MOST_CLIENTS = 12
"""Clients in the table: those that are flagged most often."""


def calibrate(
    scores: Annotated[Path, typer.Argument(help="The file of scores.")],
    federations: Annotated[
        int,
        typer.Option(
            "--federations", help="Federations to simulate of each kind.", min=1, max=1_000_000
        ),
    ] = 200,
    tau: Annotated[float, typer.Option("--tau", help="As for decide.")] = 4.0,
    alpha: Annotated[float, typer.Option("--alpha", help="As for decide.")] = 0.01,
    seed: Annotated[int, typer.Option("--seed", help="The seed of the simulated federations.")] = 0,
    marked_share: Annotated[
        str,
        typer.Option(
            "--marked-share",
            metavar="CLIENT=SHARE",
            help="A client and the known share of its documents that were marked, such as c1=0.2.",
        ),
    ] = "",
    known_sets: Annotated[
        bool,
        typer.Option(
            "--known-sets", help="Calibrate a decision that is given the server's log of sums."
        ),
    ] = False,
    commitments: Annotated[
        Path | None,
        typer.Option("--commitments", help="As for decide: unopened ones count as tests."),
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Say how often an innocent client is flagged, and what is found.

    Federations are simulated with the rounds, the designs and the null marks of the scores.
    """
    from fedaudit.attribution import scores as scores_file
    from fedaudit.attribution.decision import calibration
    from fedaudit.attribution.decision.decision import check_limits

    check_limits(tau, alpha)
    stored_scores = scores_file.read(scores)
    known = _known_share(marked_share, stored_scores) if marked_share else None
    unopened = _count_unopened(commitments, stored_scores) if commitments else 0
    with progress_bars(quiet) as bar:
        result = calibration.calibrate(
            stored_scores,
            threshold=tau,
            alpha=alpha,
            federations=federations,
            seed=seed,
            sets_known=known_sets,
            unopened=unopened,
            progress=bar("simulating federations"),
        )
    beside = f", {count_of(unopened, 'unopened commitment')} beside" if unopened else ""
    print_text(
        f"Federations of {count_of(len(stored_scores.clients), 'client')}, "
        f"{count_of(len(stored_scores.rounds), 'round')} and "
        f"{count_of(len(stored_scores.marks), 'mark')} like these{beside}, {federations} of each "
        "kind:\n"
    )
    print_text("\n".join(_table(result.points, tau)))
    least = calibration.least_found(result.points)
    if least is None:
        most = calibration.STRENGTHS[-1]
        print_text(
            f"\nNot even a mark that shows with Z {most:g} on average is found in 90 % of them."
        )
    else:
        print_text(f"\nA mark that shows with Z {least:g} on average is found in 90 % of them.")
        if known:
            print_text(_share_text(least, *known))
    print_text("\n" + "\n".join(_client_table(result)))
    return 0


def _count_unopened(path: Path, scores: "Scores") -> int:
    """Return how many of the published commitments are of marks that were not tested."""
    from fedaudit.attribution.evidence import commitment

    commitment.check(path, scores.marks)
    return commitment.check_commitments(scores, path).unopened


def _known_share(text: str, scores: "Scores") -> tuple[str, float, float]:
    """Return a client, its largest Z and the known share of its marked documents.

    Raises UsageError for anything but CLIENT=SHARE, with a client that was tested.
    """
    from fedaudit.attribution.decision.decision import verdicts

    client, _, number = text.rpartition("=")
    try:
        share = float(number)
    except ValueError:
        share = 0.0
    if not (client and 0 < share <= 1):
        raise UsageError(f"--marked-share {text!r}: give a client and a share, such as c1=0.2.")
    z_values = [v.z for (name, _), v in verdicts(scores).items() if name == client]
    if not z_values:
        raise unknown_name_error("client", client, scores.clients)
    return client, max(z_values), share


def _share_text(least: float, client: str, shown: float, share: float) -> str:
    """Return the smallest share of marked documents that would be found, in proportion to one."""
    from fedaudit.attribution.decision.calibration import least_share

    share_needed = least_share(least, shown, share)
    of = f"{make_visible(client)}, with {share:.0%} of its documents marked, shows Z {shown:.1f}"
    if share_needed is None:
        return fill(f"{of}: too little to tell which share would be found.", 80)
    return fill(f"{of}: in proportion, that takes {share_needed:.1%} of a client's documents.", 80)


def _client_table(result: "Calibration") -> Iterator[str]:
    """Yield how often each client is flagged while it is innocent, the most often first."""
    yield f"{'client':24}{'flagged while innocent (95 %)':>52}"
    rates = sorted(result.accused.items(), key=lambda item: (-item[1].value, item[0]))
    for client, rate in rates[:MOST_CLIENTS]:
        text = f"{rate.value:.2%} ({rate.low:.2%} to {rate.high:.2%})"
        yield f"{make_visible(client)[:24]:24}{text:>52}"
    if len(rates) > MOST_CLIENTS:
        yield f"and {len(rates) - MOST_CLIENTS:,} more clients, none more often"


def _table(lines: "Sequence[PowerEstimate]", tau: float) -> Iterator[str]:
    yield f"{'marked':20}{'found':>8}{'innocents flagged (95 %)':>32}{f'by Z > {tau:g} alone':>20}"
    for line in lines:
        marked = f"one, Z {line.strength:g}" if line.caught else "nobody"
        if line.partial:
            marked = f"Z {line.strength:g}, rounds: {line.rounds}"
        caught = f"{line.caught.value:.1%}" if line.caught else ""
        low, high = line.accused.low, line.accused.high
        accused = f"{line.accused.value:.1%} ({low:.1%} to {high:.1%})"
        yield f"{marked:20}{caught:>8}{accused:>32}{line.published.value:>20.1%}"
