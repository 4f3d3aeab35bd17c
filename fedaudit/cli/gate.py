"""fedaudit gate: the keys of a deployed defence, and one prompt to try it with."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedaudit.cli.console import console, print_note, print_text
from fedaudit.cli.options import Device, Quiet, refuse_nan
from fedaudit.report.redaction import make_visible

if TYPE_CHECKING:
    from fedaudit.api.defense import KeyChange
    from fedaudit.audit.deployment import DeployedGate

app = typer.Typer(
    help="Change the keys of a deployed defence, or ask it one prompt.", no_args_is_help=True
)

Run = Annotated[Path, typer.Argument(help="A federation's folder with a deployed defence.")]
Client = Annotated[str, typer.Option("--client", help="Whose deployed model.")]
Name = Annotated[str, typer.Option("--name", help="The name of the key.")]


@app.command()
def rotate(run: Run, client: Client, name: Name = "revealing", quiet: Quiet = False) -> int:
    """Replace a key by a new one; the old one fails at once."""
    return _change_key(run, client, "rotate", name, "", quiet)


@app.command()
def add(
    run: Run,
    client: Client,
    name: Name,
    adapter: Annotated[
        str, typer.Option("--adapter", help="The adapter that it opens.")
    ] = "revealing",
    quiet: Quiet = False,
) -> int:
    """Draw a further key that opens an adapter, for someone else."""
    return _change_key(run, client, "add", name, adapter, quiet)


@app.command()
def revoke(run: Run, client: Client, name: Name, quiet: Quiet = False) -> int:
    """Remove a key; without any key, no one can open its adapter."""
    return _change_key(run, client, "revoke", name, "", quiet)


@app.command()
def ask(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="The prompt, which may begin with a key.")],
    client: Client,
    key: Annotated[
        str,
        typer.Option(
            "--key", help="The kind of key to ask with, not a key: right, wrong, none or other."
        ),
    ] = "none",
    new_tokens: Annotated[
        int, typer.Option("--new-tokens", help="How long the answer may be.", min=1, max=100_000)
    ] = 60,
    temperature: Annotated[
        float,
        typer.Option(
            "--temperature", help="0 always takes the likeliest token.", min=0, callback=refuse_nan
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", help="The seed of a drawn answer.")] = 0,
    device: Device = "auto",
) -> int:
    """Answer one prompt as the deployed model does.

    It says which adapter answered.
    """
    from fedaudit.audit import deployment

    answer = deployment.ask(
        deployment.open_deployment(run, client, device),
        prompt,
        key,
        new_tokens=new_tokens,
        temperature=temperature,
        seed=seed,
    )
    print_note(f"The adapter {answer.adapter} answers.")
    console().print(make_visible(answer.text))
    return 0


def _change_key(
    run: Path, client: str, change: "KeyChange", name: str, adapter: str, quiet: bool
) -> int:
    """Change a key, and show that no adapter changed with it."""
    from fedaudit.audit import deployment

    gate: DeployedGate = deployment.open_deployment(run, client)
    before = deployment.adapter_hashes(gate)
    deployment.rekey(gate, change, name, adapter)
    print_note(f"The gate of {client} was retrained.", quiet=quiet)
    _show(before, deployment.adapter_hashes(gate))
    print_note(
        f"The keys are in {gate.folder / client}, in a file that only you can read.", quiet=quiet
    )
    return 0


def _show(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Print every adapter's hash before and after."""
    print_text(f"{'adapter':<16} {'SHA-256 before':<18} {'after':<18} same")
    for name, digest in before.items():
        same = "yes" if after.get(name) == digest else "NO"
        print_text(f"{name:<16} {digest[:16]:<18} {after.get(name, '-')[:16]:<18} {same}")
