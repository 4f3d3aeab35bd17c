"""What every report says of its run: when, with what settings, how long."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from fedaudit.report.document import Report
from fedaudit.system.files import json_sha256

BUDGET = ("queries", "tokens", "seconds", "prefixes")


def run_id(config: Mapping[str, Any]) -> str:
    """Return a short id for a run: a hash of its settings."""
    return json_sha256(config, default=str)[:12]


def build_report(
    *,
    command: str,
    name: str,
    config: Mapping[str, Any],
    started: datetime,
    base: str,
    adapter: str | None = None,
    sha256: str | None = None,
    base_sha256: str | None = None,
    effect: Mapping[str, Any] | None = None,
    beginning: Mapping[str, Any] | None = None,
    endpoint: Mapping[str, Any] | None = None,
    update_of: str = "",
    models: Mapping[Path, str] | None = None,
    resumed_from: str | None = None,
    earlier: float = 0.0,
    usage: Mapping[str, int | None] | None = None,
    shards: Sequence[Mapping[str, Any]] | None = None,
    limits: Sequence[str] = (),
    status: Literal["success", "interrupted"] = "success",
    **sections: Any,
) -> Report:
    """Return the report of a run that began at `started` and ends now.

    `name` becomes the run's id. `usage` is the budget without its seconds; the time of resumed runs
    (`earlier`) is added to those. `shards` are the merged shards; `models` are the fingerprints of
    the models that were read besides the audited one, by their folders. `sections` are further
    sections of Report, passed on unchanged.
    """
    finished = datetime.now(UTC)
    seconds = round((finished - started).total_seconds() + earlier, 1)
    return Report(
        status=status,
        run={
            "id": name,
            "command": command,
            "config": config,
            "started": started.isoformat(timespec="seconds"),
            "finished": finished.isoformat(timespec="seconds"),
            "resumed_from": resumed_from,
            **({"shards": shards} if shards is not None else {}),
        },
        target={
            "base": base,
            "adapter": adapter,
            "sha256": sha256,
            "base_sha256": base_sha256,
            "effect": effect or {},
            "beginning": beginning,
            **({"endpoint": endpoint} if endpoint is not None else {}),
            **({"update_of": update_of} if update_of else {}),
            **({"models": _model_rows(models)} if models else {}),
        },
        limits=limits,
        budget={**dict.fromkeys(BUDGET), **(usage or {}), "seconds": seconds},
        **sections,
    )


def _model_rows(models: Mapping[Path, str]) -> list[dict[str, str]]:
    rows = {str(path): digest for path, digest in models.items()}
    return [{"path": path, "sha256": digest} for path, digest in sorted(rows.items())]
