"""Which sums the server asks for, as options of the commands that ask, and the plan they make."""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedaudit.api.errors import UsageError
from fedaudit.cli.console import print_text
from fedaudit.cli.options import Seed, refuse_nan, takes

if TYPE_CHECKING:
    from fedaudit.attribution.server.sum_plan import ProtocolConfig, SumPlan

Protocol = Annotated[
    str,
    typer.Option(
        "--protocol",
        help="How sums are asked for: pairs or shared; default: the federation's, or pairs.",
    ),
]
Others = Annotated[
    int | None,
    typer.Option(
        "--others",
        help="pairs: other clients in a set (m); default: the federation's, or 5.",
        min=0,
        max=1_000_000,
    ),
]
Queries = Annotated[
    int | None,
    typer.Option(
        "--queries",
        help="pairs: pairs of sums per client and round (K); default: the federation's, or 5.",
        min=0,
        max=1_000_000,
    ),
]
Sets = Annotated[
    int | None,
    typer.Option(
        "--sets",
        help="shared: sets per round (Q); default: the federation's, or half as many as clients.",
        min=1,
        max=1_000_000,
    ),
]
Limit = Annotated[
    float | None,
    typer.Option(
        "--limit",
        help="The largest share of another client's update in an estimate; default: the "
        "federation's, or 0.4.",
        min=0,
        callback=refuse_nan,
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        "--weights", help="How updates are weighted in sums: equal or size; default: equal."
    ),
]
Hidden = Annotated[
    float | None,
    typer.Option(
        "--hidden",
        help="shared: the least share of every update's variance that the sums leave hidden; "
        "default: 0.2.",
        min=0,
        max=1,
        callback=refuse_nan,
    ),
]
Threshold = Annotated[
    int | None,
    typer.Option(
        "--threshold",
        help="The fewest clients that a sum may include; default: the federation's, or 5.",
        min=1,
        max=1_000_000,
    ),
]
Secure = Annotated[
    str,
    typer.Option(
        "--secure-aggregation",
        help="The plugin that adds up plaintext updates; default: the federation's, or ideal.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only describe what would be asked and what it would give away."
    ),
]

Colluding = Annotated[
    str,
    typer.Option(
        "--colluding",
        help="Clients that tell the server their updates, separated by commas; needs --dry-run.",
    ),
]


def helpers(colluding: str, *, dry_run: bool) -> list[str]:
    """Return the clients that collude with the server, each once."""
    names = list(dict.fromkeys(name.strip() for name in colluding.split(",") if name.strip()))
    if names and not dry_run:
        raise UsageError("--colluding only describes what a server could learn: add --dry-run.")
    return names


def protocol_config(
    protocol: Protocol = "",
    others: Others = None,
    queries: Queries = None,
    sets: Sets = None,
    limit: Limit = None,
    hidden: Hidden = None,
    threshold: Threshold = None,
    secure_aggregation: Secure = "",
    weights: Weights = "",
    seed: Seed = None,
) -> "ProtocolConfig":
    """Return what the server is asked to do, from the options that say it."""
    from fedaudit.attribution.server.sum_plan import ProtocolConfig

    return ProtocolConfig(
        protocol=protocol,
        others=others,
        pairs=queries,
        sets=sets,
        limit=limit,
        hidden=hidden,
        threshold=threshold,
        secure=secure_aggregation,
        weights=weights,
        seed=seed,
    )


def takes_sums(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of `protocol_config`, and a call of it as its argument `sums`.

    The command makes the call, because help must not import what it needs.
    """
    options = signature(protocol_config).parameters.values()
    return takes("sums", list(options), partial(partial, protocol_config))(command)


def native(rounds: Path, *, quiet: bool, recorded: bool = False) -> Path:
    """Return a federation's folder; what another framework left is imported below runs/ first.

    It is refused where what is asked for is `recorded` in the federation's folder: below another
    working directory the folder would be imported again, without its ledger.
    """
    from fedaudit.audit.target import RUNS
    from fedaudit.cli.console import print_note
    from fedaudit.conversion.foreign_targets import check_native, native_folder
    from fedaudit.system.files import existing_path

    existing_path(rounds, "federation")
    if recorded:
        check_native(rounds)
    return native_folder(rounds, RUNS, lambda line: print_note(line, quiet=quiet))


def draw_plan(rounds: Path, protocol_config: "ProtocolConfig") -> "SumPlan":
    """Return what would be asked of a federation; nobody can guess its seed if none is given."""
    from fedaudit.attribution import copied_updates
    from fedaudit.attribution.server import sum_plan
    from fedaudit.federation.folder import check_consecutive, open_federation

    federation = open_federation(rounds)
    check_consecutive(federation)
    copied_updates.check_rounds(federation)
    return sum_plan.draw_sum_plan(federation, protocol_config, secret=True)


def print_dry_run(
    plan: "SumPlan",
    marks: Any,
    worker_options: Any,
    colluding: Sequence[str],
    extra_lines: Sequence[str] = (),
) -> int:
    """Print what a plan would ask and give away."""
    from fedaudit.attribution.server import collusion, dry_run

    collusion_lines = collusion.describe_collusion(plan, colluding)
    print_text(
        "\n".join(
            [*dry_run.describe_plan(plan, marks, worker_options), *collusion_lines, *extra_lines]
        )
    )
    return 0
