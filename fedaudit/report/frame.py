"""What every report says of its run: when, with what settings, how long."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fedaudit.report.document import Report

BUDGET = ("queries", "tokens", "seconds", "prefixes")


def framed(
    *,
    command: str,
    name: str,
    config: Mapping[str, Any],
    started: datetime,
    base: str,
    adapter: str | None = None,
    sha256: str | None = None,
    effect: Mapping[str, Any] | None = None,
    beginning: Mapping[str, Any] | None = None,
    resumed_from: str | None = None,
    spent: Mapping[str, int | None] | None = None,
    **sections: Any,
) -> Report:
    """Return the report of a run that `started` then and ends now.

    `name` becomes the run's id, `spent` the budget besides its seconds; `sections` are those of
    Report that need no framing.
    """
    finished = datetime.now(UTC)
    seconds = round((finished - started).total_seconds(), 1)
    return Report(
        status="success",
        run={
            "id": name,
            "command": command,
            "config": config,
            "started": started.isoformat(timespec="seconds"),
            "finished": finished.isoformat(timespec="seconds"),
            "resumed_from": resumed_from,
        },
        target={
            "base": base,
            "adapter": adapter,
            "sha256": sha256,
            "effect": effect or {},
            "beginning": beginning,
        },
        budget={**dict.fromkeys(BUDGET), **(spent or {}), "seconds": seconds},
        **sections,
    )
