"""fedaudit dp plant: a client's records with those canaries that are in."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.console import print_text
from fedaudit.cli.options import Coins, Quiet, Template


def plant(
    coins: Coins,
    records: Annotated[Path, typer.Option("--records", help="The client's records, as JSONL.")],
    out: Annotated[
        Path,
        typer.Option("--out", help="Where the records go with the canaries among them, as JSONL."),
    ],
    client: Annotated[str, typer.Option("--client", help="Whose records they are.")] = "",
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Makes the order repeatable for anybody who knows it."),
    ] = None,
    template: Template = "fed_pii",
    quiet: Quiet = False,
) -> int:
    """Write a client's records with the canaries whose coins say so.

    Each is there once, in a new file.
    """
    from fedaudit.canaries import coin_planting
    from fedaudit.cli.console import print_note

    done = coin_planting.plant(
        coin_planting.CoinPlantRequest(
            coins=coins, records=records, out=out, client=client, template=template, seed=seed
        )
    )
    print_text(f"{done.records:,} records in {out}: {done.canaries:,} of them are canaries.")
    for line in done.empty:
        print_note(f"{line}.", quiet=quiet)
    print_note(f"Whoever trains on {out} must not know which records are canaries.", quiet=quiet)
    return 0
