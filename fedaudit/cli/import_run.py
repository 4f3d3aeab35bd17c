"""fedaudit import: another framework's folder, made a federation's."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedaudit.cli.console import WIDTH, print_note, print_text
from fedaudit.cli.options import Quiet
from fedaudit.report.redaction import make_visible

if TYPE_CHECKING:
    from fedaudit.conversion.pipeline import Imported


def import_(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The folder that a run left.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The federation's new folder.")],
    layout: Annotated[
        str, typer.Option("--layout", help="The layout of the folder, if it fits several.")
    ] = "",
    base: Annotated[
        str, typer.Option("--base", help="The base: a folder, a hub id or fedaudit-nano.")
    ] = "",
    config: Annotated[
        str,
        typer.Option(
            "--config",
            metavar="r=16,alpha=32,targets=q_proj+v_proj",
            help="The LoRA settings, or an adapter_config.json, if the adapters come without one.",
        ),
    ] = "",
    template: Annotated[
        str, typer.Option("--template", help="The prompt template; default: the framework's.")
    ] = "",
    quiet: Quiet = False,
) -> int:
    """Make a federation folder from another framework's output.

    What SRC is follows from what is in it; `fedaudit plugins` lists the layouts (importer). Files
    that can run code when they are loaded are opened in a process with limits only.
    """
    from fedaudit.conversion.pipeline import ImportRequest, import_federation

    imported = import_federation(
        ImportRequest(
            source=source, out=out, layout=layout, base=base, config=config, template=template
        )
    )
    _show(imported, out)
    print_note(f"Audit it with --target {out}.", quiet=quiet)
    return 0


def _show(imported: "Imported", out: Path) -> None:
    """Print what was made, a fact a line, so that it reads well at 80 columns."""
    for fact, indent in _facts(imported, out):
        fill = textwrap.TextWrapper(
            width=WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
        )
        print_text("\n".join(fill.wrap(make_visible(fact))))


def _facts(imported: "Imported", out: Path) -> Iterator[tuple[str, str]]:
    from fedaudit.federation.folder import name_rounds

    manifest = imported.manifest
    numbers = [r.round for r in manifest.rounds]
    adapter_count = sum(len(r.clients) for r in manifest.rounds)
    yield f"{out}: imported from {imported.run} ({imported.layout})", "  "
    gap = "" if numbers == list(range(numbers[0], numbers[-1] + 1)) else "; others were not kept"
    rows = {
        "rounds": name_rounds(numbers).partition(" ")[2] + gap,
        "clients": f"{len(manifest.clients)}, with {adapter_count} adapters in all"
        if manifest.clients else "not known: nothing can be attributed to anybody",
        "base": f"{manifest.base.name}{'' if manifest.base.sha256 else ' (not on this machine)'}",
        "template": manifest.template.name,
    }  # fmt: skip
    for name, value in rows.items():
        yield f"  {name:<9} {value}", " " * 12
    for note in imported.notes:
        yield note, "  "
