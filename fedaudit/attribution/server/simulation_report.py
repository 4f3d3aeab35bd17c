"""The report that a complete simulation left in its folder: when it began, how long it took."""

from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.federation.folder import Federation


def start_time(federation: Federation) -> str:
    """Return when a simulation began, in ISO 8601; empty if no report states it."""
    report = _read_report(federation)
    return str(report["run"]["started"]) if report else ""


def duration(federation: Federation) -> float:
    """Return the seconds that a simulation took; 0 if no report states them."""
    report = _read_report(federation)
    return float(report["budget"]["seconds"] or 0.0) if report else 0.0


def _read_report(federation: Federation) -> dict[str, Any] | None:
    """Return the report of a simulation that was not resumed; None without one."""
    from fedaudit.report.document import read

    path = federation.path / "report.json"
    if not path.is_file():
        return None
    try:
        report = read(path)
    except InputError:  # a foreign or broken report does not count
        return None
    run = report["run"]
    return report if run["command"] == "simulate" and run["resumed_from"] is None else None
