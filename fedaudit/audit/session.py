"""An audit and its folder: running, resuming, sharding and merging it.

AuditSession(request, Path("part1"), shard="1/2").run()
AuditSession.resume(Path("part1")).run()
AuditSession.merge([Path("part1"), Path("part2")], Path("whole")).run()
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedaudit.api.errors import FedauditError, InputError, Interrupted, ResultError, UsageError
from fedaudit.audit import evidence
from fedaudit.audit.fingerprint import RunFingerprint, describe_changes
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.inputs import Inputs
from fedaudit.audit.request import (
    TEMPLATE,
    AuditRequest,
)
from fedaudit.audit.resolve import pipeline_of, resolve
from fedaudit.audit.run import (
    Audit,
    AuditPipeline,
    ShareAnswers,
    Tell,
    Watcher,
    no_listener,
    no_watcher,
)
from fedaudit.audit.stored_request import from_table, to_table
from fedaudit.audit.target import RUNS, AuditTarget
from fedaudit.cache.answers import (
    FILE,
    AnswerCache,
    CacheHeader,
    Shard,
    ShardComplete,
    load,
    merged_cache,
)
from fedaudit.conversion import foreign_targets
from fedaudit.engine import environment, factory
from fedaudit.engine.remote.options import is_url
from fedaudit.engine.vllm.options import VllmOptions
from fedaudit.report.document import Report, read, save, write
from fedaudit.report.redaction import Redactor, user_key
from fedaudit.report.run_header import build_report
from fedaudit.report.verdict.policy import RULE
from fedaudit.system import outputs
from fedaudit.system.files import existing_parent, make_folder
from fedaudit.system.locks import locked
from fedaudit.system.outputs import check_output
from fedaudit.system.staging import remove_stale_stages

_log = logging.getLogger(__name__)


@contextmanager
def open_cache(
    request: AuditRequest,
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


def stored_run(folder: Path, servers: Sequence[str] = ()) -> tuple[AuditRequest, Shard | None]:
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
        raise InputError(
            f"{stored.folder} holds the answers of {_shard(stored.header.shard)}, not of "
            f"{_shard(header.shard)}: choose another --out."
        )
    if not resume:
        state = "finished: fedaudit merge puts shards together" if stored.finished else "unfinished"
        raise InputError(
            f"{stored.folder} holds this very audit, {state}. Go on with --resume, or remove "
            f"{stored.path} to begin again."
        )


def _shard(name: str | None) -> str:
    return f"shard {name}" if name else "a whole audit"


def resume_hint(kept: AnswerCache) -> str:
    """Return a message with the number of answers kept and how to resume."""
    if not kept.answers:
        return "No answer was kept: give the same command to begin again."
    count = kept.answers
    summary = "1 answer is kept." if count == 1 else f"{count:,} answers are kept."
    return f"{summary} Give the same command with --resume to go on."


def was_stopped(folder: Path) -> bool:
    """Tell whether the folder holds the report of an audit that was stopped."""
    path = folder / "report.json"
    return path.exists() and read(path)["status"] == "interrupted"


def interrupted_report(
    request: AuditRequest,
    audited: AuditTarget,
    fingerprint: RunFingerprint,
    start_time: datetime,
    kept: AnswerCache,
) -> Report:
    """Return the report of an audit that was stopped: how to resume it, and no numbers."""
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


def read_shards(folders: Sequence[Path]) -> list[AnswerCache]:
    """Return the shards in the given folders, in order: all of the audit's, each once.

    Raises InputError if one is missing, duplicated, unfinished or of another audit than the others,
    and UsageError if there is no folder at all.
    """
    if not folders:
        raise UsageError("Name the folders of all shards.")
    shards = [_load_shard(folder) for folder in folders]
    first = shards[0]
    for shard, folder in zip(shards, folders, strict=True):
        differing = describe_changes(
            {**shard.header.config, **shard.facts}, {**first.header.config, **first.facts}
        )
        if differing:
            raise InputError(f"{folder} is of another audit than {folders[0]}: {differing}.")
        if shard.shard.of != first.shard.of:
            raise InputError(f"{folder} is shard {shard.shard}, and {folders[0]} {first.shard}.")
    return _each_once(shards)


def _each_once(shards: Sequence[AnswerCache]) -> list[AnswerCache]:
    by_number: dict[int, AnswerCache] = {}
    for shard in shards:
        if duplicate := by_number.get(shard.shard.number):
            raise InputError(f"{shard.folder} and {duplicate.folder} are both shard {shard.shard}.")
        by_number[shard.shard.number] = shard
    numbers = range(1, shards[0].shard.of + 1)
    if missing := [f"{number}/{len(numbers)}" for number in numbers if number not in by_number]:
        tail = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise InputError(f"There is no shard {', '.join(missing[:3])}{tail}: all parts are needed.")
    return [by_number[number] for number in numbers]


def _load_shard(folder: Path) -> AnswerCache:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name the folder of a shard.")
    stored = load(folder, write=False)
    if stored is None:
        raise InputError(f"{folder} holds no shard: there is no {FILE} in it.")
    if stored.header.shard is None:
        raise InputError(f"{folder} holds a whole audit's answers, not a shard's.")
    if not stored.finished:
        raise InputError(f"Shard {stored.shard} in {folder} is not finished: go on with --resume.")
    return stored


REPORT, REVEALED = "report.json", "revealed.jsonl"


def run_audit(
    request: AuditRequest,
    redactor: Redactor,
    watch: Watcher = no_watcher,
    share: ShareAnswers | None = None,
) -> Audit:
    """Run an audit without a folder, so that neither answers nor a report are kept.

    `share` wraps the engine in one that has answers of other audits of models of the same base.
    """
    pipeline = pipeline_of(request)
    inputs = resolve(request, InputReader())
    return pipeline(
        inputs=inputs,
        fingerprint=pipeline.fingerprint_of(inputs),
        redactor=lambda: redactor,
        watch=watch,
        share=share,
    ).run()


def native_target(target: str | None, template: str, below: Path, tell: Tell) -> str | None:
    """Return the target, or the folder below `below` that another framework's is imported into.

    `tell` gets a line if it is. `template` is the request's, whose default means the framework's.
    """
    if target is None or is_url(target):
        return target
    told: list[str] = []
    folder = foreign_targets.native_folder(
        Path(target), below, told.append, template="" if template == TEMPLATE else template
    )
    for line in told:
        tell(line)
    return str(folder) if told else target


class AuditSession:
    """One audit and its output folder, into which nothing is written before the audit runs.

    The exception is a target of another framework, which is imported into the folder at once.
    Raises UsageError and InputError for a request that cannot be met, and for a folder that holds
    something else.
    """

    def __init__(
        self,
        request: AuditRequest,
        folder: Path | None = None,
        *,
        shard: str | None = None,
        resume: bool = False,
        shards: Sequence[AnswerCache] = (),
        copy: Path | None = None,
        reveal: bool = False,
        redactor: Redactor | None = None,
        reader: InputReader | None = None,
        inputs: Inputs[Any] | None = None,
        pipeline: type[AuditPipeline[Any]] | None = None,
    ) -> None:
        """Check the request and its output folder: `folder`, or a new one below `runs/`.

        `shard` is "i/n", for a part of the questions; `resume` continues the audit in the folder;
        `shards` are finished ones to be merged, in order. `copy` is another file for the report;
        `reveal` writes the leaks in plain text into the folder. The default `redactor` masks with
        the user's key. `reader` has read some of the files already; `inputs` are those of the
        request, if it was resolved before, and `pipeline` runs them in place of
        the one for that kind of request.
        """
        self.shard = Shard.parse(shard) if shard else None
        if self.shard and (copy or reveal):
            raise UsageError("One shard has no report: --json and --reveal go with fedaudit merge.")
        self._told: list[str] = []
        self.reveal = reveal
        self._copy, self._resume, self._shards = copy, resume, shards
        self._pipeline = pipeline or pipeline_of(request)
        if inputs is None:
            target = native_target(
                request.target, request.template, folder or RUNS, self._told.append
            )
            request = replace(request, target=target)
            inputs = resolve(request, reader or InputReader())
        self.inputs = inputs
        self.fingerprint = self._pipeline.fingerprint_of(inputs)
        self.folder = folder or self._default_folder()
        self._check_folder()
        self._redactor = redactor or Redactor(user_key())
        self.document: dict[str, Any]
        """The report as it was written, once the audit is finished."""
        self.notes = list(self._target_notes())
        """What to tell the user before the audit runs."""

    @property
    def request(self) -> AuditRequest:
        """The request, with a target of another framework replaced by the imported one."""
        request: AuditRequest = self.inputs.request
        return request

    @property
    def audited(self) -> AuditTarget:
        """The audited target."""
        return self.inputs.audited

    @classmethod
    def resume(
        cls,
        folder: Path,
        *,
        servers: Sequence[str] = (),
        vllm: VllmOptions | None = None,
        **options: Any,
    ) -> "AuditSession":
        """Return a session that resumes the audit or shard that was stopped in a folder.

        `servers` may be asked again, and `vllm` says how to start vLLM, which the folder does not.
        `options` are those of a session. Raises UsageError if no answer was kept, and InputError
        for a folder of another version.
        """
        request, shard = stored_run(folder, servers)
        request = replace(request, vllm=vllm) if vllm else request
        return cls(request, folder, shard=str(shard) if shard else None, resume=True, **options)

    @classmethod
    def merge(
        cls,
        folders: Sequence[Path],
        folder: Path | None = None,
        *,
        device: str = "auto",
        servers: Sequence[str] = (),
        **options: Any,
    ) -> "AuditSession":
        """Return a session that merges the shards in some folders into one report.

        What no shard keeps is asked on the `device` or of the `servers` that the user names.
        `options` are those of a session. Raises InputError if a shard is missing, duplicated,
        unfinished or of another audit.
        """
        shards = read_shards(folders)
        # On this machine, whatever the shards ran on.
        request = from_table(shards[0].header.request, shards[0].folder, servers)
        request = replace(request, device=device, engine="local")
        return cls(request, folder, shards=shards, **options)

    def run(
        self,
        watching: AbstractContextManager[Watcher] | None = None,
        tell: Tell = no_listener,
    ) -> Audit | None:
        """Ask the questions without answers and write the report; return None for one shard.

        `watching` provides the listener for progress while the model is asked; `tell` is called
        with what a server will be asked. Raises Interrupted if the audit is stopped; the answers
        so far are kept for `resume`.
        """
        busy = f"Another process is auditing into {self.folder}."
        with locked(self.folder, busy), self._open_cache() as kept:
            resumed = "answers of an earlier run" if self._resume else "no earlier answers"
            _log.info("the audit runs in %s, with %s", self.folder, resumed)
            remove_stale_stages(self.folder)
            try:
                audit = self._measure(kept, watching or nullcontext(no_watcher), tell)
            except ShardComplete:
                kept.finish()
                if was_stopped(self.folder):
                    (self.folder / REPORT).unlink()
                return None
            self.document = self._save(audit.report)
            if self.reveal:
                evidence.write_revealed_leaks(audit.revealed, self.folder / REVEALED)
            if not kept.merged:
                kept.remove()
            self._save_copy(self.document)  # if this fails, the audit is finished all the same
        return audit

    def _open_cache(self) -> AbstractContextManager[AnswerCache]:
        if self._shards:
            first = self._shards[0]
            if changed := describe_changes(self.fingerprint.facts, first.header.config):
                raise InputError(f"What was asked of {first.folder} has changed since: {changed}.")
            return closing(merged_cache(self._shards))
        return open_cache(
            self.request, self.fingerprint, self.folder, resume=self._resume, audit_shard=self.shard
        )

    def _measure(
        self, kept: AnswerCache, watching: AbstractContextManager[Watcher], tell: Tell
    ) -> Audit:
        """Run the audit; if it is stopped, leave its answers and a report that says so."""
        start_time = datetime.now(UTC)
        try:
            with watching as watch:
                return self._pipeline(
                    inputs=self.inputs,
                    fingerprint=self.fingerprint,
                    redactor=lambda: self._redactor,
                    watch=watch,
                    kept=kept,
                    tell=tell,
                ).run()
        except ResultError as error:
            hint = "" if kept.merged else " The answers are kept: --resume goes on with them."
            raise type(error)(f"{error}{hint}") from error
        except (KeyboardInterrupt, Interrupted) as error:
            if kept.merged:
                raise Interrupted("Interrupted; the shards are as they were.") from error
            if not (self.folder / REPORT).exists() or was_stopped(self.folder):
                with suppress(FedauditError):  # the disk may be full
                    report = interrupted_report(
                        self.request, self.audited, self.fingerprint, start_time, kept
                    )
                    self._save_copy(self._save(report))
            reason = str(error) if isinstance(error, Interrupted) else "Interrupted."
            raise Interrupted(f"{reason} {resume_hint(kept)}") from error

    def _save(self, report: Report) -> dict[str, Any]:
        make_folder(self.folder)
        return write(report, self.folder / REPORT)

    def _save_copy(self, document: dict[str, Any]) -> None:
        if self._copy is not None:
            make_folder(self._copy.parent)
            save(document, self._copy)

    def _default_folder(self) -> Path:
        suffix = f"-{self.shard.number}-of-{self.shard.of}" if self.shard else ""
        return RUNS / self.request.command / f"{self.fingerprint.run}{suffix}"

    def _check_folder(self) -> None:
        """Refuse a folder that holds another run's report, and files that cannot be written.

        Whether the report of a stopped run is of another run is decided by the cache.
        """
        folder = self.folder
        if folder.is_file():
            raise InputError(f"{folder} is a file; --out needs a folder.")
        path = folder / REPORT
        stopped = (folder / FILE).exists() and was_stopped(folder)
        if path.exists() and not stopped:
            whose = "another run's" if read(path)["run"]["id"] != self.fingerprint.run else ""
            if whose or self.shard:
                raise InputError(
                    f"{folder} holds {whose or 'a finished'} report; choose another --out or remove"
                    " it."
                )
        if (folder / "federation.json").exists():
            raise InputError(f"{folder} is a federation's folder; choose another --out.")
        copy = [self._copy] if self._copy else []
        for file in (path, *copy):
            check_output(file, outputs.REPORT.of(self.request.command))
        check_output(folder / REVEALED, outputs.REVEALED)
        for above in (folder, *(file.parent for file in copy)):
            existing_parent(above)

    def _target_notes(self) -> Iterator[str]:
        """Yield what to tell the user about the audited target."""
        audited = self.audited
        yield from self._told
        where = audited.federation.path if audited.federation else audited.base
        if clients := self.request.participants:
            yield f"Auditing {where}: {', '.join(client.name for client in clients)}."
        elif note := audited.discovery_note:
            yield note
        if audited.deployment:
            yield f"Asking what {audited.deployment} deployed, by key."
