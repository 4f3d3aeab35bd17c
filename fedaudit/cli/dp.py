"""fedaudit dp: a claimed epsilon, held against canaries that coins put into training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from fedaudit.api.errors import unknown_name_error
from fedaudit.audit.request import EpsilonRequest
from fedaudit.canaries import coin_file, coin_generator
from fedaudit.canaries.coin_generator import CoinRequest
from fedaudit.canaries.planting_plan import PlantRequest, plant_coins
from fedaudit.cli.audit_runner import make_request, run_audit
from fedaudit.cli.console import print_note, print_text
from fedaudit.cli.options import Coins, Output, Quiet, Run, Template, one_target, takes_options
from fedaudit.system.files import check_free

if TYPE_CHECKING:
    from fedaudit.canaries.coin_file import CoinSet, Position


@takes_options("asked", PlantRequest, without=("client",))
def plant(
    coins: Coins,
    *,
    asked: dict[str, Any],
    client: Annotated[str, typer.Option("--client", help="Whose records they are.")] = "",
    template: Template = "fed_pii",
    quiet: Quiet = False,
) -> int:
    """Write a client's records with the canaries whose coins say so.

    Each is there once, in a new file.
    """
    request = PlantRequest(secrets=coins, client=client, template=template, **asked)
    done, out = plant_coins(request), request.out
    print_text(f"{done.records:,} records in {out}: {done.canaries:,} of them are canaries.")
    for line in done.empty:
        print_note(f"{line}.", quiet=quiet)
    print_note(f"Anyone who trains on {out} must not know which records are canaries.", quiet=quiet)
    return 0


@takes_options("asked", CoinRequest, without=("score",))
def make(
    out: Annotated[Path, typer.Option("--out", help="Where the secret file of coins goes.")],
    *,
    asked: dict[str, Any],
    position: Annotated[
        list[str] | None,
        typer.Option(
            "--position",
            metavar="outsider|client|server",
            help="Where the attacker stands: outsider, client or server; default: client; may "
            "be repeated.",
        ),
    ] = None,
    any_mechanism: Annotated[
        bool,
        typer.Option(
            "--any-mechanism",
            help="Judge by the bound that holds for any mechanism, not by the Gaussian one.",
        ),
    ] = False,
    score: Annotated[
        Literal["loss", "gradient"],
        typer.Option(
            "--score",
            help="What reveals a coin: the canary's loss, or its gradient in the client's updates "
            "(only with --position server).",
        ),
    ] = "loss",
    template: Template = "fed_pii",
    quiet: Quiet = False,
) -> int:
    """Draw canaries, and toss a fair coin for each.

    It prints the largest epsilon that they can refute.

    Each is a document of its own: a beginning from the --corpus, and an ending of random words.
    Publish the commitment that is printed before anybody trains.
    """
    from fedaudit.engine.loading.loader import load_base

    check_free(out, "the coins")
    request = CoinRequest(
        positions=tuple(map(_position, position or ["client"])),
        estimator="one_run" if any_mechanism else "f_dp",
        score=score,
        template=template,
        **asked,
    )
    tokenizer = load_base(request.base, device="cpu").tokenizer
    coin_set = coin_generator.make(request, [tokenizer.decode([i]) for i in range(len(tokenizer))])
    coin_file.write(coin_set, out)
    print_text(
        f"{request.count:,} canaries for {request.client} in {out}: {sum(coin_set.coins):,} of "
        "them are to be planted."
    )
    print_text(_power(coin_set))
    print_text(
        f"Their commitment is {coin_file.commitment(coin_set)}: publish it before anybody trains."
    )
    print_note(f"{out} holds the coins: keep it to yourself.", quiet=quiet)
    return 0


def _position(name: str) -> "Position":
    positions = ("outsider", "client", "server")
    if name not in positions:
        raise unknown_name_error("position", name, positions)
    return cast("Literal['outsider', 'client', 'server']", name)


def _power(coin_set: "CoinSet") -> str:
    """Say before training what so many canaries can refute at most."""
    from fedaudit.audit.epsilon import AuditedClaim, cap
    from fedaudit.metrics.privacy.epsilon_audit import ESTIMATORS

    claim = AuditedClaim(coins=coin_set, epsilon=0.0)
    most = {name: cap(claim, test) for name, test in ESTIMATORS.items()}
    alternative = "f_dp" if coin_set.estimator == "one_run" else "one_run"
    names = {"f_dp": "for the Gaussian mechanism", "one_run": "for any mechanism"}
    return (
        f"A perfect attack proves an epsilon of at most {most[coin_set.estimator]:.2f} "
        f"{names[coin_set.estimator]}, by which the claim is judged ({most[alternative]:.2f} "
        f"{names[alternative]}), at delta {coin_set.delta:g} and level {coin_set.level:g}: no "
        "larger claim can be refuted."
    )


@takes_options("asked", EpsilonRequest, without=("model", "client", "keys", "detector"))
@takes_options("output", Output, Output, without=("reveal", "shard", "dry_run"))
def audit(coins: Coins, run: Run = None, *, asked: dict[str, Any], output: Output) -> int:
    """Test a claimed epsilon by what the model reveals about the coins.

    Exit code 1: the claim is refuted. 7: it is not, and the audit has not shown that it could.
    """
    asked["target"] = one_target(run, asked.get("target"))
    return run_audit(make_request(EpsilonRequest, coins=coins, **asked), output)


app = typer.Typer(
    help="Test a claimed epsilon with canaries planted by tossing coins.",
    no_args_is_help=True,
)
for command in (make, plant, audit):
    app.command()(command)
