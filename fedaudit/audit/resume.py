"""Going on with an audit that was stopped, and what a stopped audit leaves."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit import environment
from fedaudit.audit.fingerprint import RunFingerprint, describe_changes
from fedaudit.audit.stored_request import from_table, to_table
from fedaudit.audit.target import AuditTarget
from fedaudit.journal import journal
from fedaudit.journal.journal import FILE, Journal
from fedaudit.journal.shards import AuditJournal, Shard, ShardJournal, shard

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest
    from fedaudit.report.document import Report


@contextmanager
def open_journal(
    request: "AuditRequest",
    fingerprint: RunFingerprint,
    place: Path,
    *,
    resume: bool = False,
    part: Shard | None = None,
) -> Iterator[AuditJournal]:
    """Give what an audit into `place` keeps: its journal there, or a new one.

    Raises UsageError when there is nothing to resume, and InputError for the journal of another
    audit or shard, and for an unfinished one that is not to be resumed.
    """
    header = {
        "run": fingerprint.run,
        "request": to_table(request),
        "config": fingerprint.facts,
        "shard": str(part) if part else None,
        "device": environment.machine_facts(request.device),
    }
    begun = (place / FILE).exists() or was_stopped(place)  # perhaps before it was told anything
    kept = journal.load(place, write=True)
    try:
        if kept is not None:
            _check(kept, header, resume=resume)
        elif resume and not begun:
            raise _nothing(place)
        kept = kept or Journal(place, header)
        yield AuditJournal((ShardJournal(kept, part or Shard()),))
    finally:
        if kept is not None:
            kept.close()


def stored_run(place: Path) -> tuple["AuditRequest", Shard | None]:
    """Return what was asked of the audit whose journal is in a folder, and of which shard.

    Raises UsageError where there is no journal, and InputError for one that holds no request.
    """
    kept = journal.load(place, write=False)
    if kept is None:
        raise _nothing(place)
    return from_table(kept.header.get("request", {}), place), stored_shard(kept)


def stored_shard(kept: Journal) -> Shard | None:
    """Return the shard that a journal is of; None for a whole audit, InputError for no shard."""
    name = kept.header.get("shard")
    try:
        return None if name is None else shard(name)
    except UsageError:
        raise InputError(f"{kept.place} is of a shard that cannot be: it says no i/n.") from None


def _nothing(place: Path) -> UsageError:
    return UsageError(f"There is no unfinished audit in {place} to resume.")


def _check(kept: Journal, header: Mapping[str, Any], *, resume: bool) -> None:
    """Refuse the journal of another audit, and one that nobody asked to go on with."""
    differing = describe_changes(header["config"], kept.header.get("config", {}))
    if differing:
        raise InputError(
            f"{kept.place} holds the answers of another audit: {differing}. Choose another "
            f"--out, or remove {kept.path}."
        )
    if header["shard"] != kept.header.get("shard"):
        whole = "a whole audit"
        raise InputError(
            f"{kept.place} holds the answers of {_shard(kept.header['shard'], whole)}, not of "
            f"{_shard(header['shard'], whole)}: choose another --out."
        )
    if not resume:
        state = "finished: fedaudit merge puts shards together" if kept.finished else "unfinished"
        raise InputError(
            f"{kept.place} holds this very audit, {state}. Go on with --resume, or remove "
            f"{kept.path} to begin again."
        )


def _shard(name: str | None, whole: str) -> str:
    return f"shard {name}" if name else whole


def was_stopped(place: Path) -> bool:
    """Tell whether an audit that was stopped left its report here."""
    from fedaudit.report.document import read

    path = place / "report.json"
    return path.exists() and read(path)["status"] == "interrupted"


def interrupted_report(
    request: "AuditRequest",
    audited: AuditTarget,
    fingerprint: RunFingerprint,
    started: datetime,
    kept: AuditJournal,
) -> "Report":
    """Return the report of an audit that was stopped: no numbers, and how to go on."""
    from fedaudit.report.run_header import build_report
    from fedaudit.report.verdict.policy import RULE

    return build_report(
        status="interrupted",
        command=request.command,
        name=fingerprint.run,
        config={**fingerprint.settings, "round": audited.round},
        started=started,
        base=audited.base,
        adapter=audited.adapter_name,
        sha256=fingerprint.adapter_sha256,
        resumed_from=kept.resumed,
        environment=environment.describe(request.device),
        data=[],
        seeds={request.purpose: request.seed},
        verdict={"status": "inconclusive", "rule": RULE, "reasons": [STOPPED]},
        limits=[STOPPED],
    )


STOPPED = "The audit was stopped before it had any result; the same command with --resume goes on."
