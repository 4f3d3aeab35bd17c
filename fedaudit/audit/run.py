"""From a request to a report: the steps that all commands that attack a model share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fedaudit.api.engine import Engine
from fedaudit.api.plugin import Result
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Measurement
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit import access, evidence, preflight
from fedaudit.audit.fingerprint import RunFingerprint, compute_fingerprint
from fedaudit.audit.input_files import InputFile
from fedaudit.audit.inputs import Inputs
from fedaudit.audit.records import annotated, label_rows
from fedaudit.audit.target import AuditTarget
from fedaudit.cache.answers import AnswerCache, ShardComplete, UnfinishedBatch
from fedaudit.cache.engine import CachingEngine
from fedaudit.engine import environment, factory
from fedaudit.federation.folder import unchecked_caveats

if TYPE_CHECKING:
    from fedaudit.engine.factory import AnyEngine
    from fedaudit.report.document import Report
    from fedaudit.report.redaction import Redactor

InputsT = TypeVar("InputsT", bound=Inputs[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A finished audit: its report, and the plain text that only --reveal may write."""

    report: "Report"
    revealed: tuple[Mapping[str, str], ...]
    audited: AuditTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResults:
    """The masked results of an audit's attacks, and what was measured before them."""

    results: Sequence[Result]
    effect: Mapping[str, Any]
    """The measured effect of the adapter."""
    beginning: Mapping[str, Any] | None
    """How prompts begin."""
    usage: Mapping[str, int | None]
    """How much of the budget the attacks used."""


Watcher = Callable[[str], Progress]
Tell = Callable[[str], None]
ShareAnswers = Callable[[Engine], Engine]


def no_watcher(_title: str) -> Progress:
    """Ignore progress."""
    return no_progress


def no_listener(_line: str) -> None:
    """Ignore messages."""


@dataclass(kw_only=True)
class AuditPipeline(ABC, Generic[InputsT]):
    """One run of an audit; subclasses define what a request resolves to, and its measurements."""

    inputs: InputsT
    fingerprint: RunFingerprint
    redactor: "Callable[[], Redactor]"
    watch: Watcher = no_watcher
    kept: AnswerCache | None = None
    """The cache with the answers of earlier runs, to which this run adds its own."""
    share: ShareAnswers | None = None
    """Returns an engine that asks nothing again which another audit has asked of the same model."""
    tell: Tell = no_listener
    """Called with what the user should know before a server is asked."""
    annotated_files: dict[Path, InputFile] = field(default_factory=dict)
    """The files that a detector has read, by path, for all steps of an audit."""

    @staticmethod
    def fingerprint_of(inputs: Any) -> RunFingerprint:
        """Return the fingerprint that identifies the run."""
        return compute_fingerprint(inputs)

    @abstractmethod
    def annotate_files(self) -> Sequence[InputFile]:
        """Annotate the documents that need it; return the files that the report names."""

    @abstractmethod
    def measure(self, engine: Engine) -> AuditResults:
        """Query the model, call `finish_asking`, and return results with personal data masked."""

    @abstractmethod
    def caveats(self) -> Sequence[str]:
        """Return caveats about the inputs, which follow those of the attacks."""

    def annotated(self, file: InputFile) -> InputFile:
        """Return a file with every document annotated, each file once in all steps."""
        if file.path not in self.annotated_files:
            self.annotated_files[file.path] = annotated(file, self.request)
        return self.annotated_files[file.path]

    def sections(self, measurements: Sequence[Measurement]) -> Mapping[str, Any]:
        """Return the sections that this kind of audit adds to its report."""
        return {}

    def models(self) -> Mapping[Path, str]:
        """Return the fingerprints of the models that were read besides the audited one."""
        return self.inputs.models

    def config(self) -> dict[str, Any]:
        """Return the settings as the report holds them."""
        return {**self.fingerprint.settings, "round": self.audited.round}

    @property
    def request(self) -> Any:
        """The request, as it was resolved."""
        return self.inputs.request

    @property
    def audited(self) -> AuditTarget:
        """The audited target."""
        return self.inputs.audited

    @property
    def form(self) -> PromptTemplate:
        """The prompt template of the documents."""
        return self.inputs.form

    def cached(self, engine: Engine) -> Engine:
        """Return the engine, behind the cache if this run has one."""
        return CachingEngine(engine, self.kept) if self.kept else engine

    def finish_asking(self) -> None:
        """Declare that everything was asked; raises ShardComplete if this is a single shard."""
        if self.kept and not self.kept.covers_all:
            raise ShardComplete

    def run(self) -> Audit:
        """Run the audit: cheap checks first, then the model is loaded, then the attacks run."""
        from fedaudit.report.run_header import build_report

        start_time = datetime.now(UTC)
        files, origin = self.annotate_files(), self.audited.origin_caveats(self.form)
        for caveat in origin:
            self.tell(caveat)
        answers = self._ask()
        measured, base_sha256 = answers.measured, answers.base_sha256
        rows = [row for result in measured.results for row in result.measurements]
        rows += preflight.instrument_rows(measured.effect)
        rows += label_rows(files, self.request, rows)
        results, audited = measured.results, self.audited
        findings = [finding for result in results for finding in result.findings]
        report = build_report(
            command=self.request.command,
            name=self.fingerprint.run,
            config=self.config(),
            started=start_time,
            **_resumption_facts(self.kept),
            base=audited.base,
            adapter=audited.adapter_name,
            sha256=self.fingerprint.adapter_sha256 or base_sha256,
            base_sha256=base_sha256,
            effect=measured.effect,
            beginning=measured.beginning,
            endpoint=answers.endpoint,
            update_of=audited.update_of,
            models=self.models(),
            usage={**measured.usage, **answers.usage},
            environment=environment.describe(self.request.device),
            data=[file.row() for file in files],
            seeds={self.request.purpose: self.request.seed},
            measurements=rows,
            findings=evidence.mask_findings(findings, self.redactor),
            limits=[
                *(limit for result in results for limit in result.limits),
                *unchecked_caveats(audited.federation),
                *audited.update_caveats,
                *audited.adapter_caveats,
                *origin,
                *self.caveats(),
                *answers.caveats,
            ],
            **self.sections(rows),
        )
        revealed = tuple(leak for result in results for leak in result.revealed)
        return Audit(report=report, revealed=revealed, audited=audited)

    def load_engine(self) -> "tuple[AnyEngine, str]":
        """Return the engine for the audited model, and the fingerprint of its base."""
        return access.load_engine(self.audited, self.form, self.request, self.kept)

    def _sharing(self, engine: Engine) -> Engine:
        """Return an engine that shares answers with other audits.

        A deployed defence shares none: they depend on the client whose keys are used.
        """
        return engine if self.share is None or self.audited.deployment else self.share(engine)

    def _ask(self) -> "MeasuredModel":
        """Ask the model all questions, in this process or behind a server."""
        served = self.audited.served
        if served is None:
            if note := factory.startup_note(self.request.engine):
                self.tell(note)
            engine, sha256 = self.load_engine()
            measured = self.measure(self._sharing(engine))
            caveats = tuple(factory.finish(engine))
            return MeasuredModel(measured=measured, base_sha256=sha256, caveats=caveats)
        from fedaudit.engine.remote.connection import RemoteConnection

        dry, kept = copy(self), self.kept
        dry.kept, dry.watch = None, no_watcher
        with closing(RemoteConnection(served, self.form)) as connection:
            # What it would cost is told, and checked against the budget, before anything is sent.
            dry.measure(connection.dry_run())
            self.tell(connection.estimate.describe())
            served_engine = connection.open(
                UnfinishedBatch(kept), kept.record_fact if kept else None
            )
            measured = self.measure(served_engine)
            served_engine.finish()
        return MeasuredModel(
            measured=measured,
            endpoint=connection.table(),
            caveats=tuple(served_engine.caveats()),
            usage={"tokens": connection.spending.tokens},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredModel:
    """The results of asking a model, and the report's facts about the server, if one was asked."""

    measured: AuditResults
    base_sha256: str | None = None
    endpoint: Mapping[str, Any] | None = None
    caveats: tuple[str, ...] = ()
    usage: Mapping[str, int | None] = field(default_factory=dict)


def _resumption_facts(kept: AnswerCache | None) -> dict[str, Any]:
    """Return what a report states about the earlier runs that this one resumes."""
    if kept is None:
        return {}
    facts = {"resumed_from": kept.resumed, "earlier": kept.earlier_seconds}
    if not kept.merged:
        return facts
    shards = [{"shard": part.shard, "device": part.device} for part in kept.parts]
    return {**facts, "shards": shards}
