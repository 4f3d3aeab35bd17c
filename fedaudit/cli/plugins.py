"""fedaudit plugins: what is installed."""

from typing import Annotated

import typer


def plugins(
    name: Annotated[str | None, typer.Argument(help="A plugin, to see its options.")] = None,
) -> int:
    """List the installed plugins, or show one.

    Of one: what it is, its options with their defaults, its paper.
    """
    from fedaudit.api.errors import unknown_name_error
    from fedaudit.config import registry

    kinds = {kind: registry.plugins(kind) for kind in registry.KINDS}
    if name is None:
        for kind, found in kinds.items():
            for cls in found.values():
                print(f"{kind:<12} {cls.name:<14} {registry.summary(cls)}")
        return 0
    named = [(kind, found[name]) for kind, found in kinds.items() if name in found]
    if not named:
        raise unknown_name_error(
            "plugin", name, [known for found in kinds.values() for known in found]
        )
    for kind, cls in named:
        print("\n".join(registry.describe(kind, cls)))
    return 0
