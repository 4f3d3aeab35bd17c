"""All steps of an audit on one loaded model, with one cache of answers and one report."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Measurement
from fedaudit.attribution import pipeline
from fedaudit.attribution.request import ResolvedRequest
from fedaudit.audit import preflight
from fedaudit.audit.access import with_scope
from fedaudit.audit.coverage import coverage
from fedaudit.audit.fingerprint import RunFingerprint, compute_fingerprint
from fedaudit.audit.input_files import InputFile
from fedaudit.audit.inputs import Inputs
from fedaudit.audit.plan import OF_FEDERATION, kind_of_step, no_attribution_reason
from fedaudit.audit.request import AssessmentRequest, attacks_with
from fedaudit.audit.resolve import pipeline_of
from fedaudit.audit.run import AuditPipeline, AuditResults
from fedaudit.report.checklist.leaks import OTHER_CLIENTS, OTHER_VICTIMS
from fedaudit.report.run_header import run_id

if TYPE_CHECKING:
    from fedaudit.audit.run import Watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedFile(InputFile):
    """A file that an attribution read, as its own report names it."""

    said: dict[str, Any]

    def row(self) -> dict[str, Any]:
        """Return the report's row for this file."""
        return self.said


def attribute(
    resolved: ResolvedRequest, watch: "Watcher"
) -> tuple[Result, list[AttributedFile], dict[Path, str]]:
    """Return what the attribution found, the files that it read, and the rounds' fingerprints.

    The attribution is recomputed in every run, since the cache keeps none of its results.
    """
    report = pipeline.run(resolved, watch)
    result = Result(
        measurements=tuple(report.measurements),
        findings=tuple(report.findings),
        limits=tuple(report.limits),
    )
    files = [
        AttributedFile(path=resolved.path, documents=(), sha256=row["sha256"], said=dict(row))
        for row in report.data
    ]
    models = {Path(row["path"]): row["sha256"] for row in report.target.get("models", ())}
    return result, files, models


@dataclass(frozen=True, kw_only=True)
class AssessmentInputs(Inputs[AssessmentRequest]):
    """The inputs of every step, by name, and of the attribution."""

    steps: Mapping[str, Inputs[Any]]
    attribution: ResolvedRequest | None = None


def assessment_inputs(
    request: AssessmentRequest,
    steps: Mapping[str, Inputs[Any]],
    attribution: ResolvedRequest | None = None,
) -> AssessmentInputs:
    """Return the inputs of an audit whose steps are resolved; the first step names the target."""
    first = next(iter(steps.values()))
    return AssessmentInputs(
        request=request,
        audited=first.audited,
        form=first.form,
        adapter_sha256=first.adapter_sha256,
        digests={path: digest for step in steps.values() for path, digest in step.digests.items()},
        facts={},
        steps=steps,
        attribution=attribution,
        models={path: digest for step in steps.values() for path, digest in step.models.items()},
    )


def fingerprint(inputs: AssessmentInputs) -> RunFingerprint:
    """Return the fingerprint of an audit: those of its steps, its policy and its context."""
    request = inputs.request
    steps = {name: compute_fingerprint(step) for name, step in inputs.steps.items()}
    criteria = {"policy": request.policy.table(), "context": request.context.table()}
    facts = {
        f"{name}.{key}": value for name, step in steps.items() for key, value in step.facts.items()
    }
    return RunFingerprint(
        run=run_id({**{name: step.run for name, step in steps.items()}, **criteria}),
        settings={
            "steps": {name: step.settings for name, step in steps.items()},
            "attribution": inputs.attribution is not None,
            "left_out": dict(request.left_out),
            "quick": request.quick,
            **criteria,
        },
        facts={**facts, "policy": str(criteria["policy"])},
        adapter_sha256=inputs.adapter_sha256,
    )


@dataclass(kw_only=True)
class AssessmentPipeline(AuditPipeline[AssessmentInputs]):
    """Every step of an audit in turn; a step that fails stops no other."""

    fingerprint_of = staticmethod(fingerprint)
    _steps: dict[str, AuditPipeline[Any]] = field(init=False)
    _files: list[InputFile] = field(init=False)
    _failed: dict[str, str] = field(init=False, default_factory=dict)
    _attributed: dict[Path, str] = field(init=False, default_factory=dict)

    def models(self) -> Mapping[Path, str]:
        """Return the fingerprints of all steps' other models, and of the rounds attributed."""
        return {**self.inputs.models, **self._attributed}

    def annotate_files(self) -> Sequence[InputFile]:
        """Annotate the documents of every step; return each file once."""
        self._steps = {name: self._step(name) for name in self.inputs.steps}
        every = [file for step in self._steps.values() for file in step.annotate_files()]
        self._files = list({file.path.resolve(): file for file in every}.values())
        return self._files

    def _step(self, name: str) -> AuditPipeline[Any]:
        inputs = self.inputs.steps[name]
        return pipeline_of(inputs.request)(
            inputs=inputs,
            fingerprint=self.fingerprint,
            redactor=self.redactor,
            watch=lambda title: self.watch(f"{name}: {title}"),
            kept=self.kept,
            annotated_files=self.annotated_files,
        )

    def measure(self, engine: Engine) -> AuditResults:
        """Measure step by step; raises the first InputError where no step at all could run."""
        done: dict[str, AuditResults] = {}
        refused: list[InputError] = []
        missing: list[Result] = []
        for name, step in self._steps.items():
            try:
                done[name] = step.measure(engine)
            except InputError as error:
                refused.append(error)
                self._failed[name] = str(error)
                victim = {"victim": v} if (v := self.request.victims.get(name)) else {}
                row = missing_row(kind_of_step(name), str(error))
                missing.append(with_scope(Result(measurements=(row,)), victim))
        if not done:
            raise refused[0]
        totals = Counter[str]()
        for outcome in done.values():
            totals.update({key: value for key, value in outcome.usage.items() if value is not None})
        first, *others = done.values()
        rows = [row for outcome in others for row in preflight.instrument_rows(outcome.effect)]
        missing.append(Result(measurements=tuple(rows)))
        if why := self.request.left_out.get(OTHER_VICTIMS):
            missing.append(Result(measurements=(missing_row(OTHER_VICTIMS, why),)))
        return AuditResults(
            results=list(_distinct([*self._of_victims(done), *missing, *self._attribute()])),
            effect=first.effect,
            beginning=first.beginning,
            usage={"queries": totals["queries"]},
        )

    def _of_victims(self, done: Mapping[str, AuditResults]) -> Iterator[Result]:
        """Yield all results; where several victims are looked for in turn, with the victim."""
        of_federation = {*attacks_with(*OF_FEDERATION)}
        limits: list[tuple[str, str]] = []
        for name, outcome in done.items():
            for result in outcome.results:
                whole = of_federation & {row.plugin for row in result.measurements}
                victim = "" if whole else self.request.victims.get(name, "")
                limits += ((limit, victim) for limit in result.limits)
                yield with_scope(replace(result, limits=()), {"victim": victim} if victim else {})
        yield Result(limits=tuple(name_victims(limits)))

    def _attribute(self) -> Iterator[Result]:
        """Yield the result of an attribution; its files join those that the report names."""
        if self.inputs.attribution is None:
            if why := no_attribution_reason(self.request.left_out):
                self._failed["attribution"] = why
                yield Result(measurements=(missing_row("attribution", why),))
            return
        try:
            result, files, models = attribute(self.inputs.attribution, self.watch)
        except InputError as error:
            self._failed["attribution"] = str(error)
            yield Result(measurements=(missing_row("attribution", str(error)),))
            return
        self._files += files
        self._attributed |= models
        yield result

    def caveats(self) -> list[str]:
        """Return the caveats of the steps, each once, and the steps that failed."""
        victims = self.request.victims
        caveats = name_victims(
            (line, victims.get(name, ""))
            for name, step in self._steps.items()
            for line in step.caveats()
        )
        failed = (f"{name}: not run: {why}" for name, why in self._failed.items())
        left_out = self.request.left_out
        unsearched = [
            f"Nothing was looked for: {why}." for why in [left_out.get(OTHER_CLIENTS)] if why
        ]
        return [*caveats, *self.audited.unaudited_model_caveats, *failed, *unsearched]

    def sections(self, measurements: Sequence[Measurement]) -> Mapping[str, Any]:
        """Return policy, context and coverage."""
        request = self.request
        updates = self.audited.federation is not None
        failed = {kind_of_step(name): why for name, why in self._failed.items()}
        left_out = {**request.left_out, **failed}
        return {
            "policy": request.policy,
            "context": request.context.table(),
            "coverage": coverage(
                measurements,
                left_out,
                request.context,
                updates=updates,
                audits_update=bool(self.audited.update_of),
            ),
        }


def name_victims(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines, each once, with the victim that one is of, unless it holds of all of them.

    Each line is given with its victim, which is empty where the line is of no single one.
    """
    victims: dict[str, dict[str, None]] = {}
    for line, victim in lines:
        victims.setdefault(line, {})[victim] = None
    every = {victim for of_line in victims.values() for victim in of_line} - {""}
    return [
        f"victim {victim}: {line}" if victim else line
        for line, of_line in victims.items()
        for victim in ([""] if "" in of_line or of_line.keys() == every else of_line)
    ]


MISSING: Mapping[str, tuple[str, str, str, Mapping[str, object]]] = {
    "extraction": ("extraction", "extract", "coverage", {}),
    OTHER_VICTIMS: ("extraction", "extract", "coverage", {"victim": "all"}),
    "pairs": ("extraction", "contextual", "coverage", {"attacker": "all", "victim": "all"}),
    "inference": ("probability", "ranking", "inference_accuracy", {}),
    "memorization": ("memorization", "memorize", "mr_inter", {"category": "all"}),
    "canaries": ("exposure", "canary", "maximal_exposure", {}),
    "attribution": ("attribution", "fed_attr", "stouffer_z", {}),
}
"""The kind, plugin, metric and scope of the row that decides a step's judgement."""


def missing_row(step: str, why: str) -> Measurement:
    """Return the row for a measurement that a step could not make; it prevents a pass."""
    kind, plugin, metric, scope = MISSING[step]
    source = "tuned-not-base" if kind == "extraction" else "tuned"
    return Measurement.missing(
        why, kind=kind, plugin=plugin, metric=metric, scope={**scope, "source": source}
    )


def _distinct(results: Sequence[Result]) -> Iterator[Result]:
    """Yield results with unique ids of findings: a repeated id gets a number."""
    counts = Counter[str]()
    for result in results:
        names = {}
        for finding in result.findings:
            counts[finding.id] += 1
            names[finding.id] = (
                finding.id if counts[finding.id] == 1 else f"{finding.id}-{counts[finding.id]}"
            )
        yield replace(
            result,
            findings=tuple(replace(finding, id=names[finding.id]) for finding in result.findings),
            revealed=tuple(
                {**leak, "id": names.get(leak["id"], leak["id"])} for leak in result.revealed
            ),
        )
