"""Resuming an audit that was stopped, and what a stopped audit leaves behind."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit import environment
from fedaudit.audit.fingerprint import RunFingerprint, describe_changes
from fedaudit.audit.stored_request import from_table, to_table
from fedaudit.audit.target import AuditTarget
from fedaudit.cache.answers import FILE, AnswerCache, CacheHeader, Shard, load
from fedaudit.engine import factory

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest
    from fedaudit.report.document import Report


@contextmanager
def open_cache(
    request: "AuditRequest",
    fingerprint: RunFingerprint,
    folder: Path,
    *,
    resume: bool = False,
    audit_shard: Shard | None = None,
) -> Iterator[AnswerCache]:
    """Provide the cache of the audit in `folder`: the existing one, or a new one.

    Raises UsageError if there is nothing to resume, and InputError for the cache of another audit
    or shard and for an unfinished one without a request to resume.
    """
    header = CacheHeader(
        run=fingerprint.run,
        request=to_table(request),
        config=fingerprint.facts,
        shard=str(audit_shard) if audit_shard else None,
        device=environment.machine_facts(request.device),
    )
    if audit_shard:
        factory.check_shards(request.engine)
    was_begun = (folder / FILE).exists() or was_stopped(folder)  # possibly without any answer
    stored = load(folder, write=True)
    try:
        if stored is not None:
            _check(stored, header, resume=resume)
        elif resume and not was_begun:
            raise _nothing(folder)
        stored = stored or AnswerCache(folder, header, audit_shard)
        yield stored
    finally:
        if stored is not None:
            stored.close()


def stored_run(folder: Path, servers: Sequence[str] = ()) -> tuple["AuditRequest", Shard | None]:
    """Return the request of the audit whose cache is in `folder`, and its shard.

    Raises UsageError if there is no cache or if its audit asked a server that is not among
    `servers`, and InputError for a cache without a request.
    """
    stored = load(folder, write=False)
    if stored is None:
        raise _nothing(folder)
    shard = stored.shard if stored.header.shard else None
    return from_table(stored.header.request, folder, servers), shard


def _nothing(folder: Path) -> UsageError:
    return UsageError(f"There is no unfinished audit in {folder} to resume.")


def _check(stored: AnswerCache, header: CacheHeader, *, resume: bool) -> None:
    """Refuse the cache of another audit, and one that the user did not ask to resume."""
    differing = describe_changes(header.config, stored.header.config)
    if differing:
        raise InputError(
            f"{stored.folder} holds the answers of another audit: {differing}. Choose another "
            f"--out, or remove {stored.path}."
        )
    if header.shard != stored.header.shard:
        default = "a whole audit"
        raise InputError(
            f"{stored.folder} holds the answers of {_shard(stored.header.shard, default)}, not "
            f"of {_shard(header.shard, default)}: choose another --out."
        )
    if not resume:
        state = "finished: fedaudit merge puts shards together" if stored.finished else "unfinished"
        raise InputError(
            f"{stored.folder} holds this very audit, {state}. Go on with --resume, or remove "
            f"{stored.path} to begin again."
        )


def _shard(name: str | None, default: str) -> str:
    return f"shard {name}" if name else default


def resume_hint(kept: AnswerCache) -> str:
    """Return a message with the number of answers kept and how to resume."""
    if not kept.answers:
        return "No answer was kept: give the same command to begin again."
    count = kept.answers
    summary = "1 answer is kept." if count == 1 else f"{count:,} answers are kept."
    return f"{summary} Give the same command with --resume to go on."


def was_stopped(folder: Path) -> bool:
    """Tell whether the folder holds the report of an audit that was stopped."""
    from fedaudit.report.document import read

    path = folder / "report.json"
    return path.exists() and read(path)["status"] == "interrupted"


def interrupted_report(
    request: "AuditRequest",
    audited: AuditTarget,
    fingerprint: RunFingerprint,
    start_time: datetime,
    kept: AnswerCache,
) -> "Report":
    """Return the report of an audit that was stopped: how to resume it, and no numbers."""
    from fedaudit.report.run_header import build_report
    from fedaudit.report.verdict.policy import RULE

    return build_report(
        status="interrupted",
        command=request.command,
        name=fingerprint.run,
        config={**fingerprint.settings, "round": audited.round},
        started=start_time,
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


STOPPED = (
    "The audit was stopped before it had any result; give the same command with --resume to go on."
)
