"""fedaudit profiles: the papers that can be simulated."""

from dataclasses import fields, is_dataclass
from typing import Annotated, Any

import typer

from fedaudit.cli.console import print_item, print_text
from fedaudit.cli.options import Scale
from fedaudit.config.option_text import option_docs, toml_value
from fedaudit.config.options import build_settings


def profiles(
    name: Annotated[str | None, typer.Argument(help="A profile, to see its settings.")] = None,
    scale: Scale = "nano",
) -> int:
    """List the profiles, or show one.

    With NAME it shows the paper, settings, study, claims, and what becomes of tables and figures.
    """
    from fedaudit.config import profile
    from fedaudit.simulation.config import Simulation

    if name is None:
        for profile_name in profile.shipped_profiles():
            print_item(f"{profile_name:<14} ", profile.load(profile_name).title)
        return 0
    chosen = profile.load(name)
    simulation = build_settings(Simulation, chosen.settings(scale), f"profile {name}")
    print_item("", f"{chosen.name}: {chosen.title}")
    print_item("", f"paper: {chosen.paper}")
    print_text(f"\n[scale.{scale}]")

    def lines(settings: Any, prefix: str) -> None:
        docs = option_docs(type(settings))
        for option in fields(settings):
            value = getattr(settings, option.name)
            if is_dataclass(value):
                lines(value, f"{prefix}{option.name}.")
            else:
                print_item("  ", f"{prefix}{option.name} = {toml_value(value)}")
                if option.name in docs:
                    print_item("      ", docs[option.name])

    lines(simulation, "")
    for title, rows in (
        ("study", [f"{v.name}: {', '.join(v.attacks)}" for v in chosen.study]),
        ("claims", [f"{c.id}: {c.statement} ({c.source})" for c in chosen.claims]),
        ("coverage", [f"{c.source}: {c.state}" for c in chosen.coverage]),
    ):
        print_text(f"\n{title}" if rows else "")
        for row in rows:
            print_item("  ", row)
    return 0
