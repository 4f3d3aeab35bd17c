"""fedaudit canary: secrets of known law, planted before training and looked for afterwards."""

import typer

from fedaudit.cli.canary.check import check
from fedaudit.cli.canary.exposure import measure
from fedaudit.cli.canary.make import make
from fedaudit.cli.canary.plant import plant

app = typer.Typer(
    help="Plant secrets before training, and measure what became of them.",
    no_args_is_help=True,
)
for command in (make, plant, check, measure):
    app.command()(command)
