"""fedaudit data: public data sets as records."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from fedaudit.api.errors import InputError, UsageError
from fedaudit.cli.console import print_item, print_text
from fedaudit.cli.options import file_to_write
from fedaudit.system.numbers import count_of


def data(
    name: Annotated[str | None, typer.Argument(help="A data set; without one, all are listed.")] = (
        None
    ),
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILES...", help="Its files, as published.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=file_to_write, help="Where the records go (NAME.jsonl)."),
    ] = None,
    each: Annotated[
        int,
        typer.Option(
            "--each", min=0, max=100_000_000, help="Keep at most N records of each corpus (0: all)."
        ),
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT if it exists.")] = False,
) -> int:
    """Turn the files of a public data set into records.

    Nothing is fetched. Repeated records count once. With --each, records are drawn by their hash.
    """
    from fedaudit.data import corpus, public_sets

    if name is None:
        for recipe_name, recipe in public_sets.RECIPES.items():
            print_item(f"{recipe_name:<16} ", recipe.what)
        return 0
    if not files:
        raise UsageError(f"Name the files of {name}, as in `fedaudit data {name} FILE`.")
    path = out or Path(f"{name}.jsonl")
    if any(path.exists() and path.samefile(one) for one in files if one.exists()):
        raise InputError(f"{path} is one of the files to read: choose another --out.")
    if path.exists() and not force:
        raise InputError(f"{path} exists; choose another --out, or add --force.")
    done = public_sets.convert(name, files, each)
    corpus.write_fields(path, done.records)
    print_text(f"{path}: {count_of(len(done.records), 'record')}")
    for corpus_name, count in sorted(Counter(map(public_sets.corpus_name, done.records)).items()):
        if corpus_name:
            print_item("  ", f"{corpus_name}: {count:,}")
    for reason, count in sorted(done.left_out.items()):
        print_item("  ", f"left out, {reason}: {count:,}")
    return 0
