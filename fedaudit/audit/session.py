"""An audit and its folder: running, resuming, sharding and merging it.

AuditSession(request, Path("part1"), shard="1/2").run()
AuditSession.resume(Path("part1")).run()
AuditSession.merge([Path("part1"), Path("part2")], Path("whole")).run()
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedaudit.api.errors import FedauditError, InputError, Interrupted, ResultError, UsageError
from fedaudit.audit import evidence, merge
from fedaudit.audit import resume as resumption
from fedaudit.audit.attack_pipeline import AttackPipeline
from fedaudit.audit.cross_client import CrossClientPipeline
from fedaudit.audit.endpoint import Tell
from fedaudit.audit.epsilon.pipeline import EpsilonPipeline
from fedaudit.audit.epsilon.request import EpsilonRequest
from fedaudit.audit.exposure.pipeline import ExposurePipeline
from fedaudit.audit.exposure.request import ExposureRequest
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.inputs.resolution import Inputs
from fedaudit.audit.memorization.pipeline import MemorizationPipeline
from fedaudit.audit.memorization.request import MemorizationRequest
from fedaudit.audit.pipeline import Audit, AuditPipeline, Watcher, no_listener, no_watcher
from fedaudit.audit.request import (
    TEMPLATE,
    AuditRequest,
    CrossClientRequest,
    ExtractionRequest,
    InferenceRequest,
)
from fedaudit.audit.resolve import resolve
from fedaudit.audit.target import RUNS, AuditTarget
from fedaudit.cache.answers import FILE, AnswerCache, Shard, ShardComplete
from fedaudit.conversion import foreign_targets
from fedaudit.engine.remote.options import is_url
from fedaudit.engine.vllm.options import VllmOptions
from fedaudit.report.document import Report, read, write
from fedaudit.report.redaction import Redactor, user_key
from fedaudit.system import outputs
from fedaudit.system.files import existing_parent, make_folder
from fedaudit.system.locks import locked
from fedaudit.system.outputs import check_output
from fedaudit.system.staging import remove_stale_stages

REPORT, REVEALED = "report.json", "revealed.jsonl"
PIPELINES: Mapping[type[AuditRequest], type[AuditPipeline[Any]]] = {
    ExtractionRequest: AttackPipeline,
    InferenceRequest: AttackPipeline,
    CrossClientRequest: CrossClientPipeline,
    MemorizationRequest: MemorizationPipeline,
    ExposureRequest: ExposurePipeline,
    EpsilonRequest: EpsilonPipeline,
}


def run_audit(request: AuditRequest, redactor: Redactor, watch: Watcher = no_watcher) -> Audit:
    """Run an audit without a folder, so that neither answers nor a report are kept."""
    pipeline = PIPELINES[type(request)]
    inputs = resolve(request, InputReader())
    return pipeline(
        inputs=inputs,
        fingerprint=pipeline.fingerprint_of(inputs),
        redactor=lambda: redactor,
        watch=watch,
    ).run()


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
        request, if it was resolved before, and `pipeline` is needed for a kind of request that is
        not in PIPELINES.
        """
        self.shard = Shard.parse(shard) if shard else None
        if self.shard and (copy or reveal):
            raise UsageError("One shard has no report: --json and --reveal go with fedaudit merge.")
        self._told: list[str] = []
        self.reveal = reveal
        self._copy, self._resume, self._shards = copy, resume, shards
        self._pipeline = pipeline or PIPELINES[type(request)]
        if inputs is None:
            request = self._import_foreign_target(request, folder or RUNS)
            inputs = resolve(request, reader or InputReader())
        self.inputs = inputs
        self.fingerprint = self._pipeline.fingerprint_of(inputs)
        self.folder = folder or self._default_folder()
        self._check_folder()
        self._redactor = redactor or Redactor(user_key())
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
        request, shard = resumption.stored_run(folder, servers)
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
        shards = merge.read_shards(folders)
        request = merge.merged_request(shards, device, servers)
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
            remove_stale_stages(self.folder)
            try:
                audit = self._measure(kept, watching or nullcontext(no_watcher), tell)
            except ShardComplete:
                kept.finish()
                if resumption.was_stopped(self.folder):
                    (self.folder / REPORT).unlink()
                return None
            self._save(audit.report)
            if self.reveal:
                evidence.write_revealed_leaks(audit.revealed, self.folder / REVEALED)
            if not kept.merged:
                kept.remove()
            self._save_copy(audit.report)  # if this fails, the audit is finished all the same
        return audit

    def _import_foreign_target(self, request: AuditRequest, below: Path) -> AuditRequest:
        """Return the request, after importing its target if that is of another framework."""
        if request.target is None or is_url(request.target):
            return request
        template = "" if request.template == TEMPLATE else request.template
        folder = foreign_targets.native_folder(
            Path(request.target), below, self._told.append, template=template
        )
        return replace(request, target=str(folder)) if self._told else request

    def _open_cache(self) -> AbstractContextManager[AnswerCache]:
        if self._shards:
            return closing(merge.merged_answers(self.fingerprint, self._shards))
        return resumption.open_cache(
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
            if not (self.folder / REPORT).exists() or resumption.was_stopped(self.folder):
                with suppress(FedauditError):  # the disk may be full
                    report = resumption.interrupted_report(
                        self.request, self.audited, self.fingerprint, start_time, kept
                    )
                    self._save(report)
                    self._save_copy(report)
            raise Interrupted(f"{_reason(error)} {resumption.resume_hint(kept)}") from error

    def _save(self, report: Report) -> None:
        make_folder(self.folder)
        write(report, self.folder / REPORT)

    def _save_copy(self, report: Report) -> None:
        if self._copy is not None:
            make_folder(self._copy.parent)
            write(report, self._copy)

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
        stopped = (folder / FILE).exists() and resumption.was_stopped(folder)
        if path.exists() and not stopped and read(path)["run"]["id"] != self.fingerprint.run:
            raise InputError(
                f"{folder} holds another run's report; choose another --out or remove it."
            )
        if (folder / "federation.json").exists():
            raise InputError(f"{folder} is a federation's folder; choose another --out.")
        copy = [self._copy] if self._copy else []
        for file in (path, *copy):
            check_output(file, outputs.REPORT)
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


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, Interrupted) else "Interrupted."
