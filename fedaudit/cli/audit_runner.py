"""What the commands that attack a model have in common, from their options to the exit code."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedaudit.api.errors import FedauditError, InputError, Interrupted, ResultError, UsageError

if TYPE_CHECKING:
    from fedaudit.audit.pipeline import Audit, Watcher
    from fedaudit.audit.request import AuditRequest
    from fedaudit.audit.target import AuditTarget
    from fedaudit.journal.shards import AuditJournal, Shard
    from fedaudit.report.redaction import Redactor

RUNS = Path("runs")
LOCK = ".lock"
"""The file in an output folder by which a second process notices the first one."""


class AuditModule(Protocol):
    """A module that checks a request and runs it."""

    @property
    def check(self) -> "Callable[[Any], AuditTarget]":
        """Return what is audited, or raise what is wrong with the request."""
        ...

    @property
    def run(self) -> "Callable[[Any, Callable[[], Redactor], Watcher, AuditJournal], Audit]":
        """Audit it, keeping what it is told."""
        ...


def options(set_: list[str] | None, plugins: tuple[str, ...]) -> dict[str, Any]:
    """Return options by plugin; a key must name an attack that runs, or the detector."""
    from fedaudit.api.errors import unknown_name_error
    from fedaudit.config import registry
    from fedaudit.config.options import parse_settings

    table = parse_settings(set_ or [])
    known = [name for kind in ("attack", "detector") for name in registry.plugins(kind)]
    for name in plugins:
        if name not in known:
            raise unknown_name_error("attack or detector", name, known)
    for name, chosen in table.items():
        if name not in plugins or not isinstance(chosen, dict):
            raise unknown_name_error("attack or detector in use", name, plugins)
    return table


def run_audit(
    request: "AuditRequest",
    *,
    out: Path | None,
    json: Path | None,
    reveal: bool,
    quiet: bool,
    by: "AuditModule | None" = None,
    clients: Iterable[str] = (),
    resume: bool = False,
    shard: str | None = None,
    parts: Sequence[Path] = (),
    recheck: float = 1.0,
) -> int:
    """Run the audit, write and show its report, and return the exit code.

    `by` is what audits, the pipeline of all attacks without it; `clients` are those who take part
    where that is more than an attacker and a victim; `parts` are the shards that are merged,
    of which `recheck` percent are asked again.
    """
    from fedaudit.audit import merge, pipeline
    from fedaudit.audit import resume as resuming
    from fedaudit.cli.console import print_note
    from fedaudit.journal import shards
    from fedaudit.system.locks import locked

    by, part = by or pipeline, shards.shard(shard) if shard else None
    if part and (json or reveal):
        raise UsageError("One shard has no report: --json and --reveal go with fedaudit merge.")
    found = by.check(request)
    for line in _notes(found, ", ".join(clients)):
        print_note(line, quiet=quiet)
    place = _place(request, found, out, part)
    _writable(place, json)
    redactor = _redactor(place if out else RUNS, quiet)
    keeper = (
        merge.merged_journals(request, found, parts, recheck / 100)
        if parts
        else resuming.open_journal(request, found, place, resume=resume, shard=part)
    )
    with locked(place / LOCK, f"Another process is auditing into {place}."), keeper as kept:
        try:
            audit = _run(by, request, found, redactor, kept, place, json, quiet)
        except shards.PartAsked:
            kept.finish()
            if resuming.was_stopped(place):
                (place / "report.json").unlink()
            print_note(
                f"Shard {part} is in {place}; fedaudit merge puts all parts together.", quiet=quiet
            )
            return 0
        code = finish_report(audit, place, json=json, reveal=reveal, quiet=quiet)
        if not kept.merged:
            kept.remove()
    return code


def finish_report(
    audit: "Audit", place: Path, *, json: Path | None, reveal: bool, quiet: bool
) -> int:
    """Write and show the report of an audit; return the exit code."""
    from fedaudit.cli.console import print_note, print_report, save_report, verdict_code

    report = save_report(audit.report, place / "report.json", json)
    print_report(report)
    if reveal:
        _reveal(audit.revealed, place / "revealed.jsonl")
        print_note(f"The leaks stand in plain text in {place / 'revealed.jsonl'}.", quiet=quiet)
    print_note(f"The report is {place / 'report.json'}.", quiet=quiet)
    return verdict_code(report)


def _writable(place: Path, json: Path | None) -> None:
    from fedaudit.system.files import check_target, existing_parent

    if json is not None and json.is_dir():
        raise InputError(f"{json} is a folder; --json needs a file.")
    for file in (place / "report.json", place / "revealed.jsonl", *([json] if json else [])):
        check_target(file)
    for made in (place, *([json.parent] if json else [])):
        existing_parent(made)


def _redactor(place: Path, quiet: bool) -> "Callable[[], Redactor]":
    """Return what masks leaks, under the user's key; that there is none is told at once."""
    from fedaudit.cli.console import print_note
    from fedaudit.report.redaction import Redactor, key_for

    key, said = key_for(place)
    if said:
        print_note(said, quiet=quiet)
    return lambda: Redactor(key)


def _run(
    by: "AuditModule",
    request: "AuditRequest",
    found: "AuditTarget",
    redactor: "Callable[[], Redactor]",
    kept: "AuditJournal",
    place: Path,
    json: Path | None,
    quiet: bool,
) -> "Audit":
    """Audit; what is stopped leaves a report that says so, and what it was told."""
    from fedaudit.audit import resume
    from fedaudit.cli.console import progress_bars, save_report
    from fedaudit.cli.exit_handling import handle_sigterm, raise_plugin_crashes

    started = datetime.now(UTC)
    try:
        with handle_sigterm(), progress_bars(quiet) as bar, raise_plugin_crashes():
            return by.run(request, redactor, bar, kept)
    except ResultError as error:
        asked = "" if kept.merged else " The answers are kept: --resume goes on with them."
        raise type(error)(f"{error}{asked}") from error
    except (KeyboardInterrupt, Interrupted) as error:
        if kept.merged:
            raise Interrupted("Interrupted; the shards are as they were.") from error
        report = resume.interrupted_report(request, found, started, kept)
        path = place / "report.json"
        if not path.exists() or resume.was_stopped(place):
            with suppress(FedauditError):  # the disk may be full
                save_report(report, path, json)
        raise Interrupted(f"{_why(error)} {_next(kept)}") from error


def _why(error: BaseException) -> str:
    return str(error) if isinstance(error, Interrupted) else "Interrupted."


def _next(kept: "AuditJournal") -> str:
    """Say how many answers are kept, and how to go on."""
    if not kept.answers:
        return "No answer was kept: the same command begins again."
    said = "1 answer is kept." if kept.answers == 1 else f"{kept.answers:,} answers are kept."
    return f"{said} The same command with --resume goes on."


def _notes(found: "AuditTarget", clients: str) -> Iterator[str]:
    """Yield what the user should know of what is audited."""
    where = found.federation.path if found.federation else found.base
    if clients:
        yield f"Auditing {where}: {clients}."
    elif found.found and found.federation:
        yield f"Auditing {where}, the federation {'written last' if found.last else 'of the data'}."
    if found.deployment:
        yield f"Asking what {found.deployment} deployed, by key."


def _place(
    request: "AuditRequest", found: "AuditTarget", out: Path | None, shard: "Shard | None" = None
) -> Path:
    """Return the output folder; refuses one that holds another run's report.

    Of one that was stopped, the journal tells whether it is another.
    """
    from fedaudit.audit.fingerprint import identity
    from fedaudit.audit.resume import was_stopped
    from fedaudit.journal.journal import FILE
    from fedaudit.report.document import read

    name = identity(request, found)
    part = f"-{shard.number}-of-{shard.of}" if shard else ""
    place = out or RUNS / request.command / f"{name}{part}"
    if place.is_file():
        raise InputError(f"{place} is a file; --out needs a folder.")
    kept = (place / FILE).exists() and was_stopped(place)
    path = place / "report.json"
    if path.exists() and not kept and read(path)["run"]["id"] != name:
        raise InputError(f"{place} holds another run's report; choose another --out or remove it.")
    if (place / "federation.json").exists():
        raise InputError(f"{place} is a federation's folder; choose another --out.")
    return place


def _reveal(leaks: Iterable[Mapping[str, str]], path: Path) -> None:
    from fedaudit.system.files import atomic_text

    lines = (json.dumps(dict(leak), ensure_ascii=False) + "\n" for leak in leaks)
    atomic_text(path, "".join(lines), mode=0o600)
