"""fedaudit canary plant: a client's records with its canaries among them."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.console import print_text
from fedaudit.cli.options import Canaries, Quiet, Template


def plant(
    canaries: Canaries,
    records: Annotated[Path, typer.Option("--records", help="The client's records, as JSONL.")],
    client: Annotated[str, typer.Option("--client", help="Whose records they are.")],
    out: Annotated[
        Path,
        typer.Option("--out", help="Where the records go with the canaries among them, as JSONL."),
    ],
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Makes the order repeatable for anybody who knows it."),
    ] = None,
    template: Template = "fed_pii",
    quiet: Quiet = False,
) -> int:
    """Write a client's records with its canaries to a new file.

    All of them are shuffled.
    """
    from fedaudit.canaries import planting_plan
    from fedaudit.cli.console import print_note

    done = planting_plan.plant(
        planting_plan.PlantRequest(
            canaries=canaries,
            records=records,
            client=client,
            out=out,
            template=template,
            seed=seed,
        )
    )
    print_text(
        f"{done.records:,} records in {out}: {done.copies:,} of them are copies of "
        f"{done.canaries:,} canaries of {client}."
    )
    for line in done.empty:
        print_note(f"{line}.", quiet=quiet)
    print_note(
        f"Training on {out} teaches the model these secrets, which is the purpose.", quiet=quiet
    )
    return 0
