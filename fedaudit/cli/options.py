"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; may be repeated."),
]
Out = Annotated[Path | None, typer.Option("--out", help="The folder to write into.")]
Json = Annotated[
    Path | None, typer.Option("--json", help="Also write the report to this JSON file.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="The seed of everything random.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, ... or auto.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float32, bfloat16, float16 or auto.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Scale = Annotated[str, typer.Option("--scale", help="nano (minutes on two cores) or paper.")]
