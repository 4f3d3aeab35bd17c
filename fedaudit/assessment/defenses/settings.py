"""The settings that a federation is trained again with: its own, or a profile's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedaudit.api.errors import UsageError
from fedaudit.assessment.discovery import Material
from fedaudit.config import profile as profiles
from fedaudit.config.options import build_settings, merge_tables
from fedaudit.simulation.config import Simulation

PLAIN_SETTINGS: Mapping[str, Any] = {
    "data": "nano",
    "without": [],
    "central": False,
    "local": "no",
    "held_out": 0.0,
    "test": "",
    "defenses": [],
    "few_shot": {},
    "watermark": {},
    "canaries": {},
    "judge": {},
    "engine": "local",
}
"""What training again leaves out: the split of records, marks and canaries (the records have them
already), models beside the federation, and defences, which are added one at a time."""


def retraining_settings(
    material: Material,
    files: Mapping[str, Path],
    *,
    profile: str = "",
    detector: str,
    device: str = "auto",
    dtype: str = "auto",
) -> Simulation:
    """Return the settings of the federation without any defence, on its clients' own records.

    `profile` (NAME or NAME:SCALE) replaces the settings in the federation's folder. Raises
    UsageError if there are neither.
    """
    federation = material.audited.federation
    table = dict(federation.manifest.config) if federation else {}
    if profile:
        name, _, scale = profile.partition(":")
        table = dict(profiles.load(name).settings(scale or "nano"))
    elif not table:
        where = federation.path if federation else material.audited.adapter or "This model"
        raise UsageError(
            f"{where} was not made by fedaudit simulate and does not say how it was trained: name "
            "settings to train by with --defense-profile NAME[:SCALE] (fedaudit profiles)."
        )
    overrides: dict[str, Any] = {
        "base": federation.manifest.base.name if federation else material.audited.base,
        "client_data": {name: str(path) for name, path in files.items()},
        "clients": len(files),
        "detector": detector,
        **({"test": str(material.held_out)} if material.held_out else {}),
        **({"device": device} if device != "auto" else {}),
        **({"dtype": dtype} if dtype != "auto" else {}),
    }
    cleared = {
        name: value
        for name, value in table.items()
        if not isinstance(PLAIN_SETTINGS.get(name), dict)
    }
    return build_settings(
        Simulation,
        merge_tables(merge_tables(cleared, PLAIN_SETTINGS), overrides),
        "the federation's settings",
    )


def trained_defenses(material: Material) -> list[str | Mapping[str, Any]]:
    """Return the defences that the audited federation was trained under, as its settings say."""
    federation = material.audited.federation
    return list(federation.manifest.config.get("defenses", ())) if federation else []
