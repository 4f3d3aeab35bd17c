"""fedaudit watermark: mark documents, and test texts or a model for a mark."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedaudit.api.errors import UsageError
from fedaudit.cli.console import VERDICT_CODES, print_note, print_text, progress_bars
from fedaudit.cli.options import Device, Dtype, Quiet, Seed, Set, Template
from fedaudit.config.options import parse_settings
from fedaudit.report.redaction import make_visible

if TYPE_CHECKING:
    from fedaudit.api.watermark import Score

app = typer.Typer(
    help="Watermark documents, and test texts or a model for a watermark.", no_args_is_help=True
)

Teacher = Annotated[
    str,
    typer.Option(
        "--model", help="The model that writes documents, or whose tokenizer the test needs."
    ),
]


@app.command()
def make(
    documents: Annotated[Path, typer.Argument(help="The owner's documents, as JSONL.")],
    out: Annotated[Path, typer.Argument(help="Where the marked documents go, as JSONL.")],
    watermark: Annotated[
        Path,
        typer.Option("--watermark", help="The secret file of marks; it is created or added to."),
    ],
    plugin: Annotated[
        str, typer.Option("--plugin", help="kgw, fictitious, invisible or another.")
    ] = "kgw",
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", help="Texts that are not trained on, for tests; JSONL."),
    ] = None,
    id_: Annotated[str, typer.Option("--id", help="The mark's id, for one licensee.")] = "",
    model: Teacher = "fedaudit-nano",
    set_: Set = None,
    seed: Seed = None,
    template: Template = "fed_pii",
    device: Device = "auto",
    dtype: Dtype = "auto",
    quiet: Quiet = False,
) -> int:
    """Write marked documents, with a new mark for one licensee.

    Options of the watermark are set as --set OPTION=VALUE. Without --prompts, a tenth of the
    documents is kept back as prompts and not marked. Without --seed the secret is drawn at random;
    with one, anyone who knows the seed can find the mark.
    """
    from fedaudit.attribution.owner import watermarking
    from fedaudit.attribution.report import lost_mark_caveats
    from fedaudit.data.corpus import unread_caveat

    with progress_bars(quiet) as bar:
        result = watermarking.make(
            watermarking.WatermarkRequest(
                documents=documents,
                out=out,
                watermark=watermark,
                plugin=plugin,
                options=parse_settings(set_ or []),
                prompts=prompts,
                id=id_,
                model=model,
                seed=seed,
                template=template,
                device=device,
                dtype=dtype,
            ),
            bar,
        )
    print_text(f"{result.count} documents with mark {result.mark.id} in {out}.")
    print_text(f"Its commitment is {result.commitment}: publish it before anybody trains.")
    for line in unread_caveat(documents, result.unread):
        print_note(f"{line}; {out} is without them.", quiet=quiet)
    print_note(f"{watermark} holds the key that finds the mark: keep it secret.", quiet=quiet)
    for line in lost_mark_caveats([plugin]):
        print_note(f"{line}.", quiet=quiet)
    return 0


@app.command()
def commitment(
    watermark: Annotated[Path, typer.Argument(help="The secret file of marks.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Also write the public file of commitments, to be published."),
    ] = None,
) -> int:
    """Print what to publish of every mark before anybody trains."""
    from fedaudit.attribution.owner import watermarking

    public_commitments = watermarking.publish_commitments(watermark, out)
    for entry in public_commitments.commitments:
        print_text(f"{entry.sha256}  {entry.id}  {entry.plugin}")
    return 0


@app.command()
def check(
    watermark: Annotated[Path, typer.Option("--watermark", help="The secret file of marks.")],
    texts: Annotated[
        Path | None, typer.Argument(help="Texts to test: JSONL, or any text file.")
    ] = None,
    model: Teacher = "fedaudit-nano",
    adapter: Annotated[
        Path | None, typer.Option("--adapter", help="Test this LoRA adapter on the model.")
    ] = None,
    base: Annotated[bool, typer.Option("--base", help="Test the model itself.")] = False,
    set_: Set = None,
    z: Annotated[float, typer.Option("--z", help="The z above which a mark is found.")] = 4.0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    quiet: Quiet = False,
) -> int:
    """Test texts, or what a model answers, for every mark.

    Exit code 1: a mark is found; 7: none is found, and for some mark there was nothing to test.
    """
    from fedaudit.attribution.owner import watermarking
    from fedaudit.attribution.report import lost_mark_caveats
    from fedaudit.federation import watermark_keys as marks_file

    if not isfinite(z):
        raise UsageError("--z takes a finite number.")
    if sum((texts is not None, adapter is not None, base)) != 1:
        raise UsageError("Name one thing to test: a file of texts, --adapter FOLDER, or --base.")
    with progress_bars(quiet) as bar:
        scores = watermarking.check(
            watermark,
            texts=texts,
            model=model,
            adapter=adapter,
            options=parse_settings(set_ or []),
            device=device,
            dtype=dtype,
            progress=bar("testing"),
        )
    print_text("\n".join(_lines(scores, z)))
    missed = {mark for mark, score in scores if score.z <= z}
    for line in lost_mark_caveats(m.name for m in marks_file.read(watermark) if m.id in missed):
        print_note(f"{line}.", quiet=quiet)
    if any(score.z > z for _, score in scores):
        return VERDICT_CODES["fail"]
    return VERDICT_CODES["pass" if all(score.n for _, score in scores) else "inconclusive"]


def _lines(scores: "Sequence[tuple[str, Score]]", z: float) -> list[str]:
    return [f"{'mark':<16} {'z':>8} {'p':>9} {'hits':>7} {'of':>7} {'chance':>7}  found"] + [
        f"{make_visible(mark):<16} {round(score.z, 2) + 0.0:>8.2f} {score.p_value:>9.2g} "
        f"{score.hits:>7} {score.n:>7} {score.chance:>7.1%}  {_found(score, z)}"
        for mark, score in scores
    ]


def _found(score: "Score", z: float) -> str:
    """Return whether a mark is found; "untested" where there was nothing to look at."""
    if not score.n:
        return "untested"
    return "yes" if score.z > z else "no"
