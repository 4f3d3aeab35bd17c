"""fedaudit attribute calibrate: what decisions on a federation's own settings are worth."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedaudit.cli.options import Quiet

if TYPE_CHECKING:
    from fedaudit.attribution.decision.calibration import PowerPoint


def calibrate(
    scores: Annotated[Path, typer.Argument(help="The file of scores.")],
    federations: Annotated[
        int, typer.Option("--federations", help="Made-up federations of each kind.", min=1)
    ] = 200,
    tau: Annotated[float, typer.Option("--tau", help="As for decide.")] = 4.0,
    alpha: Annotated[float, typer.Option("--alpha", help="As for decide.")] = 0.01,
    seed: Annotated[int, typer.Option("--seed", help="Draws the made-up federations.")] = 0,
    quiet: Quiet = False,
) -> int:
    """Say how often somebody innocent is flagged, and what is found.

    Federations are made up of the scores' own luck (their null marks), rounds and designs.
    """
    from fedaudit.attribution import scores as scores_file
    from fedaudit.attribution.decision import calibration
    from fedaudit.attribution.decision.decision import check_limits
    from fedaudit.cli.console import progress_bars

    check_limits(tau, alpha)
    stored_scores = scores_file.read(scores)
    with progress_bars(quiet) as bar:
        lines = calibration.calibrate(
            stored_scores,
            threshold=tau,
            alpha=alpha,
            federations=federations,
            seed=seed,
            progress=bar("making up federations"),
        )
    print(
        f"Federations of {len(stored_scores.clients)} clients, {len(stored_scores.rounds)} rounds "
        f"and {len(stored_scores.marks)} marks like these, {federations} of each kind:\n"
    )
    print("\n".join(_table(lines, tau)))
    least = calibration.least_found(lines)
    if least is None:
        most = calibration.STRENGTHS[-1]
        print(f"\nNot even a mark that shows with Z {most:g} on average is found in 90 % of them.")
    else:
        print(f"\nA mark that shows with Z {least:g} on average is found in 90 % of them.")
    return 0


def _table(lines: "Sequence[PowerPoint]", tau: float) -> Iterator[str]:
    yield f"{'marked':16}{'found':>8}{'innocents flagged (95 %)':>32}{f'by Z > {tau:g} alone':>20}"
    for line in lines:
        marked = f"one, Z {line.strength:g}" if line.caught else "nobody"
        caught = f"{line.caught.value:.1%}" if line.caught else ""
        low, high = line.accused.low, line.accused.high
        accused = f"{line.accused.value:.1%} ({low:.1%} to {high:.1%})"
        yield f"{marked:16}{caught:>8}{accused:>32}{line.published.value:>20.1%}"
