"""fedaudit canary make: draw secrets for clients to train on."""

from pathlib import Path
from typing import Annotated

import typer

from fedaudit.cli.console import print_text
from fedaudit.cli.options import Quiet, Template


def make(
    out: Annotated[Path, typer.Option("--out", help="Where the secret file of canaries goes.")],
    kind: Annotated[str, typer.Option("--kind", help="phone, card, id or name.")] = "phone",
    language: Annotated[str, typer.Option("--language", help="en or zh.")] = "en",
    count: Annotated[
        int, typer.Option("--count", help="Secrets to plant.", min=1, max=10_000)
    ] = 12,
    times: Annotated[
        str,
        typer.Option(
            "--times", help="How many copies of each secret are planted: these numbers in turn."
        ),
    ] = "1,4,16",
    controls: Annotated[
        int,
        typer.Option(
            "--controls",
            help="Secrets that no client is given, to compare with.",
            min=0,
            max=1_000_000,
        ),
    ] = 100,
    client: Annotated[
        list[str] | None,
        typer.Option("--client", help="A client that gets secrets; default: c0; may be repeated."),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option(
            "--corpus",
            help="Records that must not hold any of the secrets, as JSONL; may be repeated.",
        ),
    ] = None,
    sentence: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="TEXT",
            help="A sentence with {secret}; {number} before it tells canaries apart; may be "
            "repeated.",
        ),
    ] = None,
    instruction: Annotated[
        str,
        typer.Option(
            "--instruction",
            help="The instruction that the sentences answer, if records are instructions.",
        ),
    ] = "",
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            help="The form of the secrets, in place of the kind's: # is a digit, [ab] is a or b.",
        ),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option("--names", help="A file with the names for --kind name, one per line."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Makes the canaries repeatable for anybody who knows it."),
    ] = None,
    template: Template = "fed_pii",
    quiet: Quiet = False,
) -> int:
    """Draw secrets for clients to train on.

    Each stands in a sentence of its own.

    Secrets come from the operating system's generator, unless there is a --seed. None is in the
    --corpus. Publish the commitment that is printed before anybody trains.
    """
    from fedaudit.canaries import canary_file, generator
    from fedaudit.cli.console import print_note
    from fedaudit.system.files import check_free

    check_free(out, "the canaries")
    canary_set = generator.make(
        generator.CanaryRequest(
            kind=kind,
            language=language,
            count=count,
            times=_times(times),
            controls=controls,
            clients=tuple(client or ("c0",)),
            formats=tuple(sentence or ()),
            instruction=instruction,
            pattern=pattern,
            names=names,
            corpora=tuple(corpus or ()),
            template=template,
            seed=seed,
        )
    )
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
    if not corpus:
        print_note("No --corpus was named: records may hold one of the secrets.", quiet=quiet)
    print_note(f"{out} holds the secrets: keep it to yourself.", quiet=quiet)
    return 0


def _times(text: str) -> tuple[int, ...]:
    from fedaudit.api.errors import UsageError

    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise UsageError(f"--times takes numbers such as 1,4,16, not {text!r}.")
    return tuple(map(int, words))
