"""fedaudit joint: an audit by members who show each other no records."""

import typer

from fedaudit.cli.joint.steps import answer, ask, commit, count, report

app = typer.Typer(
    help="Audit together without showing each other any record.",
    no_args_is_help=True,
)
for command in (commit, ask, answer, count, report):
    app.command()(command)
