"""A federation trained again without some clients: same seeds, same settings, same others."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.federation.counterfactual import place_of
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.runner import existing_manifest

CAVEAT = (
    "This is a counterfactual federation: the one in {run} trained again without {who}, with the "
    "same seeds, settings and other clients. It answers what the model would know if {who} had "
    "never joined, by one training each: what chance in training does is not averaged out."
)


def settings(config: Simulation, without: Sequence[str], out: Path) -> tuple[Simulation, Path]:
    """Return the settings of the federation in `out` without some clients, and its folder.

    Raises UsageError for an unknown client and for leaving out everybody.
    """
    names = config.client_names
    for client in without:
        if client not in names:
            raise unknown_name_error("client", client, names)
    left_out = [name for name in names if name in without]
    if len(left_out) == len(names):
        raise UsageError("--without leaves no client: there would be nothing to train.")
    return replace(config, without=tuple(left_out)), place_of(out, left_out)


def check_original(config: Simulation, out: Path) -> None:
    """Raise InputError unless `out` holds the complete federation of these settings."""
    manifest = existing_manifest(config, out)
    if manifest is None or manifest.status != "complete":
        raise InputError(
            f"{out} holds no complete federation of these settings: give the same command without "
            "--without first."
        )


def caveat(config: Simulation, run: Path) -> tuple[str, ...]:
    """Return the caveat that a report has on a counterfactual federation; nothing for others."""
    if not config.without:
        return ()
    return (CAVEAT.format(run=run, who=", ".join(config.without)),)
