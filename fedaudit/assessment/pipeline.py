"""All steps of an audit on one loaded model, with one journal and one report."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Measurement
from fedaudit.assessment.attribution_step import AttributedFile, attribute
from fedaudit.assessment.coverage import coverage
from fedaudit.assessment.request import AssessmentRequest
from fedaudit.attribution import pipeline as attribution
from fedaudit.audit import access
from fedaudit.audit.fingerprint import RunFingerprint, compute_fingerprint, run_id
from fedaudit.audit.inputs.files import InputFile
from fedaudit.audit.pipeline import AuditPipeline, AuditResults
from fedaudit.audit.session import PIPELINES
from fedaudit.audit.target import AuditTarget


def check(request: AssessmentRequest) -> AuditTarget:
    """Return what the first step audits, after every check that needs no model."""
    if request.attribution:
        attribution.check(request.attribution)
    targets = [PIPELINES[type(step)].check(step) for step in request.steps.values()]
    return targets[0]


def fingerprint(request: AssessmentRequest, audited: AuditTarget) -> RunFingerprint:
    """Return what an audit is known by: the fingerprints of its steps, and what judges them."""
    steps = {
        name: compute_fingerprint(step, PIPELINES[type(step)].check(step))
        for name, step in request.steps.items()
    }
    judged = {"policy": request.policy.table(), "context": request.context.table()}
    facts = {
        f"{name}.{key}": value for name, one in steps.items() for key, value in one.facts.items()
    }
    return RunFingerprint(
        run=run_id({**{name: one.run for name, one in steps.items()}, **judged}),
        settings={
            "steps": {name: one.settings for name, one in steps.items()},
            "attribution": request.attribution is not None,
            "left_out": dict(request.left_out),
            "quick": request.quick,
            **judged,
        },
        facts={**facts, "policy": str(judged["policy"])},
        adapter_sha256=access.fingerprint(audited),
    )


@dataclass(kw_only=True)
class AssessmentPipeline(AuditPipeline[AssessmentRequest]):
    """Every step of an audit in turn; what one of them cannot do stops no other."""

    check = staticmethod(check)
    fingerprint_of = staticmethod(fingerprint)
    _steps: dict[str, AuditPipeline[Any]] = field(init=False)
    _files: list[InputFile] = field(init=False)
    _failed: dict[str, str] = field(init=False, default_factory=dict)

    def read_inputs(self) -> Sequence[InputFile]:
        """Read the documents of every step; return each file once."""
        self._steps = {name: self._step(name) for name in self.request.steps}
        every = [file for step in self._steps.values() for file in step.read_inputs()]
        self._files = list({file.path.resolve(): file for file in every}.values())
        return self._files

    def _step(self, name: str) -> AuditPipeline[Any]:
        step = self.request.steps[name]
        pipeline = PIPELINES[type(step)]
        audited = pipeline.check(step)
        return pipeline(
            request=step,
            audited=audited,
            fingerprint=self.fingerprint,
            redactor=self.redactor,
            watch=lambda title: self.watch(f"{name}: {title}"),
            journal=self.journal,
        )

    def measure(self, engine: Engine) -> AuditResults:
        """Measure step by step; raises the first InputError where no step at all could be made."""
        done: dict[str, AuditResults] = {}
        refused: list[InputError] = []
        missing: list[Result] = []
        for name, step in self._steps.items():
            try:
                done[name] = step.measure(engine)
            except InputError as error:
                refused.append(error)
                self._failed[name] = str(error)
                missing.append(Result(measurements=(missing_row(name, str(error)),)))
        if not done:
            raise refused[0]
        spent = Counter[str]()
        for one in done.values():
            spent.update({key: value for key, value in one.spent.items() if value is not None})
        first = next(iter(done.values()))
        results = [result for one in done.values() for result in one.results]
        return AuditResults(
            results=list(_distinct([*results, *missing, *self._attributed()])),
            effect=first.effect,
            beginning=first.beginning,
            spent={"queries": spent["queries"]},
        )

    def _attributed(self) -> Iterator[Result]:
        """Yield what an attribution found; its file goes among those that the report names."""
        if self.request.attribution is None:
            return
        try:
            result, rows = attribute(self.request.attribution, self.watch)
        except InputError as error:
            self._failed["attribution"] = str(error)
            return
        path = attribution.check(self.request.attribution).path
        self._files += [
            AttributedFile(path=path, documents=(), annotation=None, said=row) for row in rows
        ]
        yield result

    def caveats(self) -> list[str]:
        """Return what the steps' inputs leave open, each once, and which steps failed."""
        told = dict.fromkeys(line for step in self._steps.values() for line in step.caveats())
        return [*told, *(f"{name}: not run: {why}" for name, why in self._failed.items())]

    def sections(self, measurements: Sequence[Measurement]) -> Mapping[str, Any]:
        """Return policy, context and coverage."""
        request = self.request
        federation = self.audited.federation
        updates = federation is not None and any(one.clients for one in federation.manifest.rounds)
        left_out = {**request.left_out, **self._failed}
        return {
            "policy": request.policy,
            "context": request.context.table(),
            "coverage": coverage(measurements, left_out, request.context, updates=updates),
        }


MISSING: Mapping[str, tuple[str, str, str, Mapping[str, object]]] = {
    "extraction": ("extraction", "extract", "coverage", {}),
    "pairs": ("extraction", "contextual", "coverage", {"attacker": "all", "victim": "all"}),
    "inference": ("probability", "ranking", "inference_accuracy", {}),
    "memorization": ("memorization", "memorize", "mr_inter", {"category": "all"}),
    "canaries": ("exposure", "canary", "maximal_exposure", {}),
}
"""The kind, plugin, metric and scope of what a step would have been judged by."""


def missing_row(step: str, why: str) -> Measurement:
    """Return the row of what a step could not measure: without it the audit is no pass."""
    kind, plugin, metric, scope = MISSING[step]
    source = "tuned-not-base" if kind == "extraction" else "tuned"
    return Measurement.missing(
        why, kind=kind, plugin=plugin, metric=metric, scope={**scope, "source": source}
    )


def _distinct(results: Sequence[Result]) -> Iterator[Result]:
    """Yield results whose findings have ids that no other has: a second one gets a number."""
    seen = Counter[str]()
    for result in results:
        names = {}
        for one in result.findings:
            seen[one.id] += 1
            names[one.id] = one.id if seen[one.id] == 1 else f"{one.id}-{seen[one.id]}"
        yield replace(
            result,
            findings=tuple(replace(one, id=names[one.id]) for one in result.findings),
            revealed=tuple(
                {**leak, "id": names.get(leak["id"], leak["id"])} for leak in result.revealed
            ),
        )
