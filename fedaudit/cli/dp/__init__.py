"""fedaudit dp: a claimed epsilon, held against canaries that coins put into training."""

import typer

from fedaudit.cli.dp.audit import audit
from fedaudit.cli.dp.make import make
from fedaudit.cli.dp.plant import plant

app = typer.Typer(
    help="Test a claimed epsilon with canaries planted by tossing coins.",
    no_args_is_help=True,
)
for command in (make, plant, audit):
    app.command()(command)
