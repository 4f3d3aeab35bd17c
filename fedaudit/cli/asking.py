"""What `attribute` and its step `estimate` plan to ask for, before anything is asked."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.errors import UsageError

if TYPE_CHECKING:
    from fedaudit.attribution.plan import Plan, Wish

Colluding = Annotated[
    str,
    typer.Option(
        "--colluding",
        help="Clients that tell the server their updates, with commas between; for --dry-run.",
    ),
]


def helpers(colluding: str, *, dry_run: bool) -> list[str]:
    """Return the clients that collude with the server, each once."""
    names = list(dict.fromkeys(name.strip() for name in colluding.split(",") if name.strip()))
    if names and not dry_run:
        raise UsageError("--colluding says what a server could learn and asks nothing: --dry-run.")
    return names


def wish(*design: Any, rounds: Sequence[int] = ()) -> "Wish":
    """Return what the server is asked: m, K, limit, threshold and the rest."""
    from fedaudit.attribution.plan import Wish

    names = ("others", "pairs", "limit", "threshold", "secure", "weights", "seed")
    return Wish(rounds=tuple(rounds), **dict(zip(names, design, strict=True)))


def planned(rounds: Path, chosen: "Wish", *, secret: bool = False) -> "Plan":
    """Return what a federation is asked for."""
    from fedaudit.attribution import plan
    from fedaudit.federation.folder import open_federation
    from fedaudit.files import existing

    return plan.plan(open_federation(existing(rounds, "federation")), chosen, secret=secret)


def told(
    plan: "Plan", marks: Any, machine: Any, colluding: Sequence[str], more: Sequence[str] = ()
) -> int:
    """Print what a plan would ask and give away."""
    from fedaudit.attribution import collusion, forecast

    worse = collusion.lines(plan, colluding)
    print("\n".join([*forecast.lines(plan, marks, machine), *worse, *more]))
    return 0
