"""Going on with an audit that was stopped, and what a stopped audit leaves."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit import environment
from fedaudit.audit import fingerprint as identity
from fedaudit.audit.access import fingerprint
from fedaudit.audit.target import AuditTarget
from fedaudit.journal import journal
from fedaudit.journal.journal import FILE, Journal
from fedaudit.journal.shards import AuditJournal, Shard, ShardJournal

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest
    from fedaudit.report.document import Report


@contextmanager
def open_journal(
    request: "AuditRequest",
    audited: AuditTarget,
    place: Path,
    *,
    resume: bool = False,
    shard: Shard | None = None,
) -> Iterator[AuditJournal]:
    """Give what an audit into `place` keeps: its journal there, or a new one.

    Raises UsageError when there is nothing to resume, and InputError for the journal of another
    audit or shard, and for an unfinished one that is not to be resumed.
    """
    header = {
        "run": identity.identity(request, audited),
        "command": request.command,
        "config": identity.run_facts(request, audited),
        "shard": str(shard) if shard else None,
        "words": sys.argv[1:],
        "device": environment.machine_facts(request.device),
    }
    begun = (place / FILE).exists() or was_stopped(place)  # perhaps before it was told anything
    found = journal.load(place, write=True)
    try:
        if found is not None:
            _check(found, header, resume=resume)
        elif resume and not begun:
            raise UsageError(f"There is no unfinished audit in {place} to resume.")
        found = found or Journal(place, header)
        yield AuditJournal((ShardJournal(found, shard or Shard()),))
    finally:
        if found is not None:
            found.close()


def _check(found: Journal, header: Mapping[str, Any], *, resume: bool) -> None:
    """Refuse the journal of another audit, and one that nobody asked to go on with."""
    differing = identity.describe_changes(header["config"], found.header.get("config", {}))
    if differing:
        raise InputError(
            f"{found.place} holds the answers of another audit: {differing}. Choose another "
            f"--out, or remove {found.path}."
        )
    if header["shard"] != found.header.get("shard"):
        whole = "a whole audit"
        raise InputError(
            f"{found.place} holds the answers of {_shard(found.header['shard'], whole)}, not of "
            f"{_shard(header['shard'], whole)}: choose another --out."
        )
    if not resume:
        state = "finished: fedaudit merge puts shards together" if found.finished else "unfinished"
        raise InputError(
            f"{found.place} holds this very audit, {state}. Go on with --resume, or remove "
            f"{found.path} to begin again."
        )


def _shard(name: str | None, whole: str) -> str:
    return f"shard {name}" if name else whole


def was_stopped(place: Path) -> bool:
    """Tell whether an audit that was stopped left its report here."""
    from fedaudit.report.document import read

    path = place / "report.json"
    return path.exists() and read(path)["status"] == "interrupted"


def interrupted_report(
    request: "AuditRequest", audited: AuditTarget, started: datetime, kept: AuditJournal
) -> "Report":
    """Return the report of an audit that was stopped: no numbers, and how to go on."""
    from fedaudit.report.run_header import build_report
    from fedaudit.report.verdict.policy import RULE

    return build_report(
        status="interrupted",
        command=request.command,
        name=identity.identity(request, audited),
        config={**identity.settings(request), "round": audited.round},
        started=started,
        base=audited.base,
        adapter=str(audited.adapter) if audited.adapter else None,
        sha256=fingerprint(audited),
        resumed_from=kept.resumed,
        environment=environment.describe(request.device),
        data=[],
        seeds={request.purpose: request.seed},
        verdict={"status": "inconclusive", "rule": RULE, "reasons": [STOPPED]},
        limits=[STOPPED],
    )


STOPPED = "The audit was stopped before it had any result; the same command with --resume goes on."
