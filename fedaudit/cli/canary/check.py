"""fedaudit canary check: whether training on a client's records learns its canaries."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedaudit.cli.console import print_text
from fedaudit.cli.options import Canaries, Quiet, Template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedaudit.canaries.loss_coverage import TrainedTokens
    from fedaudit.engine.loading.loader import LoadedBase
    from fedaudit.simulation.config import Training


def check(
    canaries: Canaries,
    records: Annotated[
        Path, typer.Option("--records", help="What the client trains on, as JSONL, CSV or Parquet.")
    ],
    client: Annotated[str, typer.Option("--client", help="The client whose records they are.")],
    base: Annotated[
        str, typer.Option("--base", help="The model that is trained: a folder or a hub id.")
    ] = "fedaudit-nano",
    max_length: Annotated[
        int,
        typer.Option(
            "--max-length", help="How many tokens of a record are read.", min=2, max=10_000_000
        ),
    ] = 256,
    learned: Annotated[
        Literal["text", "answer"],
        typer.Option("--learned", help="The part of an instruction record that the loss covers."),
    ] = "text",
    template: Template = "fed_pii",
    quiet: Quiet = False,
) -> int:
    """Check that training would learn every planted canary.

    Records become text and tokens as in `fedaudit simulate`.

    Exit code 1: training would not learn from every copy.
    """
    from fedaudit.canaries import canary_file
    from fedaudit.canaries.loss_coverage import describe, loss_coverage
    from fedaudit.cli.console import print_note
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.simulation.config import Training

    canary_set = canary_file.read(canaries)
    model = load_base(base, device="cpu")
    rows = _rows(model, records, template, Training(max_length=max_length, learned=learned))
    covered = loss_coverage(canary_set, client, rows, model.tokenizer.decode)
    print_text(describe(covered, client))
    complete = all(c.is_whole for c in covered)
    if not complete:
        print_note("Fix the training, or plant the canaries in another form.", quiet=quiet)
    return 0 if complete else 1


def _rows(
    base: "LoadedBase", records: Path, template: str, training: "Training"
) -> "Iterator[TrainedTokens]":
    """Yield the tokens and labels of a client's records."""
    from fedaudit.api.templates import template as named
    from fedaudit.canaries.loss_coverage import IGNORED
    from fedaudit.data import corpus
    from fedaudit.simulation.data.datasets import training_sequences
    from fedaudit.simulation.data.loss_mask import prompt_length

    documents = list(corpus.read(records, named(template)))
    for tokens in training_sequences(training, base, documents):
        prompt_len = prompt_length(tokens)
        yield tokens, [*([IGNORED] * prompt_len), *tokens[prompt_len:]]
