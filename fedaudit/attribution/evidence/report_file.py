"""A report of `attribute decide` on disk, as it is in a bundle and needed for a verification."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.attribution.decision.decision import check_limits
from fedaudit.report import document

MOST_FEDERATIONS = 100_000
"""The most simulated federations in a report that can be verified: all are simulated again."""
KINDS: Mapping[str, tuple[type, ...]] = {
    "threshold": (int, float),
    "alpha": (int, float),
    "committed": (bool,),
    "sets_known": (bool,),
    "federations": (int,),
}


def read(path: Path) -> dict[str, Any]:
    """Return a report of `attribute decide`; raises InputError for any other file."""
    report = document.read(path)
    config = report["run"]["config"]
    if report["run"]["command"] != "attribute decide" or not all(
        type(config.get(name)) in kinds for name, kinds in KINDS.items()
    ):
        raise InputError(f"{path} is not a report of this version's `fedaudit attribute decide`.")
    try:
        check_limits(config["threshold"], config["alpha"])
    except UsageError as error:
        raise InputError(f"{path}: {error}") from None
    if not 0 <= config["federations"] <= MOST_FEDERATIONS:
        raise InputError(
            f"{path} states {config['federations']:,} simulated federations; a report has up to "
            f"{MOST_FEDERATIONS:,}."
        )
    return report


def settings(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings on which a report's decision depends."""
    return {name: report["run"]["config"][name] for name in KINDS}


def accusation(report: Mapping[str, Any]) -> str:
    """Return the sentence of a report that says who is flagged, or that no one is."""
    reasons = report["verdict"].get("reasons") or [f"verdict {report['verdict']['status']}"]
    return str(reasons[0])
