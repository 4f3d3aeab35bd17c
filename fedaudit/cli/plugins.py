"""fedaudit plugins: what is installed."""

from typing import Annotated

import typer

from fedaudit.api.errors import unknown_name_error
from fedaudit.cli.console import print_item
from fedaudit.config import registry


def plugins(
    name: Annotated[str | None, typer.Argument(help="A plugin, to see its options.")] = None,
) -> int:
    """List the installed plugins, or show one.

    With NAME it shows what the plugin is, its paper, and its options: default and meaning.
    """
    kinds = {kind: registry.plugins(kind) for kind in registry.KINDS}
    if name is None:
        for kind, classes in kinds.items():
            for cls in classes.values():
                print_item(f"{kind:<12} {cls.name:<14} ", registry.summary(cls))
        return 0
    named = [(kind, classes[name]) for kind, classes in kinds.items() if name in classes]
    if not named:
        raise unknown_name_error(
            "plugin", name, [plugin for classes in kinds.values() for plugin in classes]
        )
    for kind, cls in named:
        for line in registry.describe(kind, cls):
            print_item(line[: -len(line.lstrip())], line.lstrip())
    return 0
