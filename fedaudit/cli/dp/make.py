"""fedaudit dp make: canaries with coins, and what they can prove."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from fedaudit.cli.console import print_text
from fedaudit.cli.options import Quiet, Template

if TYPE_CHECKING:
    from fedaudit.canaries.coin_file import CoinSet, Position


def make(
    out: Annotated[Path, typer.Option("--out", help="Where the secret file of coins goes.")],
    corpus: Annotated[
        Path, typer.Option("--corpus", help="Records in the style of the client's, as JSONL.")
    ],
    client: Annotated[
        str, typer.Option("--client", help="The client whose records the canaries are planted in.")
    ] = "c0",
    base: Annotated[
        str,
        typer.Option("--base", help="The model whose tokens the canaries' endings are drawn from."),
    ] = "fedaudit-nano",
    count: Annotated[
        int, typer.Option("--count", help="Canaries, in and out.", max=1_000_000)
    ] = 1000,
    delta: Annotated[
        float, typer.Option("--delta", help="The claim's delta, 1e-5 at most.")
    ] = 1e-5,
    level: Annotated[
        float, typer.Option("--level", help="The largest chance that a true claim is refuted.")
    ] = 0.05,
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
    prefix_words: Annotated[
        int,
        typer.Option(
            "--prefix-words", help="Words of a record that a canary begins with.", min=1, max=10_000
        ),
    ] = 6,
    suffix_tokens: Annotated[
        int,
        typer.Option(
            "--suffix-tokens", help="Random words that a canary ends with.", min=1, max=10_000
        ),
    ] = 32,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Makes the coins repeatable for anybody who knows it."),
    ] = None,
    template: Template = "fed_pii",
    quiet: Quiet = False,
) -> int:
    """Draw canaries, and toss a fair coin for each.

    It prints the largest epsilon that they can refute.

    Each is a document of its own: a beginning from the --corpus, and an ending of random words.
    Publish the commitment that is printed before anybody trains.
    """
    from fedaudit.canaries import coin_file, coin_generator
    from fedaudit.cli.console import print_note
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.system.files import check_free

    check_free(out, "the coins")
    request = coin_generator.CoinRequest(
        corpus=corpus,
        base=base,
        client=client,
        count=count,
        delta=delta,
        level=level,
        positions=tuple(map(_position, position or ["client"])),
        estimator="one_run" if any_mechanism else "f_dp",
        score=score,
        prefix_words=prefix_words,
        suffix_tokens=suffix_tokens,
        template=template,
        seed=seed,
    )
    tokenizer = load_base(base, device="cpu").tokenizer
    coin_set = coin_generator.make(request, [tokenizer.decode([i]) for i in range(len(tokenizer))])
    coin_file.write(coin_set, out)
    print_text(
        f"{count:,} canaries for {client} in {out}: {sum(coin_set.coins):,} of them are to be "
        "planted."
    )
    print_text(_power(coin_set))
    print_text(
        f"Their commitment is {coin_file.commitment(coin_set)}: publish it before anybody trains."
    )
    print_note(f"{out} holds the coins: keep it to yourself.", quiet=quiet)
    return 0


def _position(name: str) -> "Position":
    from fedaudit.api.errors import unknown_name_error

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
