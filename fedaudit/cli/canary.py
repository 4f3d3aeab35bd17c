"""fedaudit canary: secrets of known law, planted before training and looked for afterwards."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedaudit.api.errors import UsageError
from fedaudit.api.templates import template as named
from fedaudit.audit.request import ExposureRequest
from fedaudit.canaries import canary_file, generator
from fedaudit.canaries.generator import CanaryRequest
from fedaudit.canaries.planting_plan import PlantRequest
from fedaudit.canaries.planting_plan import plant as plant_canaries
from fedaudit.cli.audit_runner import make_request, run_audit
from fedaudit.cli.console import print_note, print_text
from fedaudit.cli.options import Canaries, Output, Quiet, Run, Template, one_target, takes_options
from fedaudit.system.files import check_free

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedaudit.canaries.loss_coverage import TrainedTokens
    from fedaudit.engine.loading.loader import LoadedBase
    from fedaudit.simulation.config import Training


@takes_options("asked", PlantRequest)
def plant(
    canaries: Canaries,
    *,
    asked: dict[str, Any],
    template: Template = "fed_pii",
    quiet: Quiet = False,
) -> int:
    """Write a client's records with its canaries to a new file.

    All of them are shuffled.
    """
    request = PlantRequest(secrets=canaries, template=template, **asked)
    done, out, client = plant_canaries(request), request.out, request.client
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


@takes_options("asked", CanaryRequest)
def make(
    out: Annotated[Path, typer.Option("--out", help="Where the secret file of canaries goes.")],
    times: Annotated[
        str,
        typer.Option(
            "--times", help="How many copies of each secret are planted: these numbers in turn."
        ),
    ] = "1,4,16",
    *,
    asked: dict[str, Any],
    template: Template = "fed_pii",
    quiet: Quiet = False,
) -> int:
    """Draw secrets for clients to train on.

    Each stands in a sentence of its own.

    Secrets come from the operating system's generator, unless there is a --seed. None is in the
    --corpus. Publish the commitment that is printed before anybody trains.
    """
    check_free(out, "the canaries")
    canary_set = generator.make(CanaryRequest(times=_times(times), template=template, **asked))
    canary_file.write(canary_set, out)
    copies = sum(canary.times for canary in canary_set.planted)
    print_text(
        f"{len(canary_set.planted):,} canaries in {copies:,} copies and "
        f"{len(canary_set.controls):,} controls, of {canary_set.space.size:,} secrets, in {out}."
    )
    print_text(
        f"Their commitment is {canary_file.commitment(canary_set)}: "
        "publish it before anybody trains."
    )
    if not asked.get("corpora"):
        print_note("No --corpus was named: records may hold one of the secrets.", quiet=quiet)
    print_note(f"{out} holds the secrets: keep it to yourself.", quiet=quiet)
    return 0


def _times(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise UsageError(f"--times takes numbers such as 1,4,16, not {text!r}.")
    return tuple(map(int, words))


@takes_options("asked", ExposureRequest, without=("model", "client", "keys", "detector"))
@takes_options("output", Output, Output, without=("shard", "dry_run"))
def measure(canaries: Canaries, run: Run = None, *, asked: dict[str, Any], output: Output) -> int:
    """Measure how far training raised each planted secret's rank.

    The rank is among all secrets of its kind, or a random sample of them, by how likely the model
    finds each.

    Exit code 1: secrets that were planted rank higher than chance explains.
    """
    asked["target"] = one_target(run, asked.get("target"))
    return run_audit(make_request(ExposureRequest, canaries=canaries, **asked), output)


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
    from fedaudit.canaries.loss_coverage import describe, loss_coverage
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
    from fedaudit.canaries.loss_coverage import IGNORED
    from fedaudit.data import corpus
    from fedaudit.simulation.data.datasets import training_sequences
    from fedaudit.simulation.data.loss_mask import prompt_length

    documents = list(corpus.read(records, named(template)))
    for tokens in training_sequences(training, base, documents):
        prompt_len = prompt_length(tokens)
        yield tokens, [*([IGNORED] * prompt_len), *tokens[prompt_len:]]


app = typer.Typer(
    help="Plant secrets before training, and measure what became of them.",
    no_args_is_help=True,
)
for command in (make, plant, check, measure):
    app.command()(command)
