"""`fedaudit canary measure`, from a file of canaries to a report."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Document, Target
from fedaudit.audit.exposure import findings, measurements
from fedaudit.audit.exposure.canary_copies import CanaryCopies, count_canary_copies
from fedaudit.audit.exposure.measurements import BASE, TUNED, Scored
from fedaudit.audit.exposure.request import ExposureRequest
from fedaudit.audit.inputs import resolution
from fedaudit.audit.inputs.input_file import InputFile
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.inputs.resolution import Inputs
from fedaudit.audit.pipeline import AuditPipeline, AuditResults
from fedaudit.audit.preflight import adapter_effect, prompt_start
from fedaudit.cache.engine import CachingEngine
from fedaudit.canaries import canary_file, ranking
from fedaudit.canaries.canary_file import CanarySet
from fedaudit.extraction.prefixes import PiiOccurrence, first_token_occurrences

LEVEL = 0.01
"""The p value up to which a fitted distribution is rejected."""
NO_COMMITMENT = (
    "No --commitment was given: nobody vouches that the canaries were chosen before training."
)


@dataclass(frozen=True, kw_only=True)
class ExposureInputs(Inputs[ExposureRequest]):
    """The canaries, and how many of them the clients' records hold."""

    canaries: CanarySet
    copies: CanaryCopies


def resolve(request: ExposureRequest, reader: InputReader) -> ExposureInputs:
    """Return the inputs, after every check that needs no model.

    Raises InputError for an invalid canary file or one that does not match the commitment, and for
    records that lack their client's canaries; UsageError for a deployed defence, and for more
    references than there are secrets.
    """
    audited = resolution.resolve_target(request, reader)
    canaries = canary_file.read(request.canaries, reader.read)
    if request.commitment and request.commitment.strip().lower() != canary_file.commitment(
        canaries
    ):
        raise InputError(f"{request.canaries} is not the file that the commitment was made to.")
    if audited.deployment:
        raise UsageError(
            "The federation answers through its clients' deployed defence: name the global "
            "adapter to measure with --round."
        )
    copies = count_canary_copies(audited.federation, canaries, reader)
    if audited.federation:
        copies.check(audited.federation.path)
    remaining = canaries.space.size - len(canaries.canaries)
    if not ranking.is_enumerable(canaries, request.space_limit) and request.references > remaining:
        raise UsageError(f"--references must be {remaining:,} or fewer: there are no more secrets.")
    common = resolution.common_inputs(request, audited, reader, {})
    return ExposureInputs(**common, canaries=canaries, copies=copies)


@dataclass(kw_only=True)
class ExposurePipeline(AuditPipeline[ExposureInputs]):
    """Measures the exposure of every planted secret."""

    def annotate_files(self) -> Sequence[InputFile]:
        """Return the canary file, which needs no annotation."""
        path = self.request.canaries
        digest = self.inputs.digests[path]
        return [InputFile(path=path, documents=self._documents, sha256=digest)]

    @property
    def _canaries(self) -> CanarySet:
        return self.inputs.canaries

    @property
    def _documents(self) -> list[Document]:
        """The sentences that clients were given, each once."""
        heading = self._canaries.heading(self.form)
        every = enumerate(self._canaries.planted)
        return [
            Document(id=str(index), text=heading + canary.sentence, pii=())
            for index, canary in every
        ]

    @property
    def _is_enumerable(self) -> bool:
        return ranking.is_enumerable(self._canaries, self.request.space_limit)

    def config(self) -> dict[str, Any]:
        """Return the settings, and a description of the canaries."""
        canaries = self._canaries
        return {
            **super().config(),
            "commitment": canary_file.commitment(canaries),
            "secrets": canaries.kind,
            "language": canaries.language,
            "space": canaries.space.size,
            "controls": len(canaries.controls),
            "clients": sorted({canary.client for canary in canaries.planted}),
        }

    def measure(self, engine: Engine) -> AuditResults:
        """Score every secret and its references under the tuned model and its base."""
        adapter = self.audited.adapter
        tuned = Target(name=TUNED, adapter=str(adapter) if adapter else None)
        base = Target(name=BASE)
        heading = self._canaries.heading(self.form)
        changed = None
        if adapter:
            changed = adapter_effect.measure(engine, tuned, base, self._documents)
        start = prompt_start.choose_prompt_start(
            engine, tuned, _sentences(engine, self._canaries, heading)
        )
        cached_engine = CachingEngine(engine, self.kept) if self.kept else engine
        slots = ranking.slot_references(
            self._canaries,
            limit=self.request.space_limit,
            count=self.request.references,
            seed=self.request.seed,
        )
        scored = {
            target.name: ranking.score(
                cached_engine,
                target,
                slots,
                begin=engine.prompt_starts[start.chosen.start],
                heading=heading,
                progress=self.watch(f"scoring secrets: {target.name}"),
            )
            for target in (tuned, base)[: 2 if adapter else 1]
        }
        self.finish_asking()
        return AuditResults(
            results=[self._result(scored)],
            effect=adapter_effect.table(changed),
            beginning=start.table(),
            usage={"queries": sum(len(slot.secrets()) for slot in slots)},
        )

    def _result(self, scored: Scored) -> Result:
        listed_findings, revealed = findings.findings(scored[TUNED])
        return Result(
            measurements=tuple(
                measurements.rows(
                    scored,
                    is_exact=self._is_enumerable,
                    bits=math.log2(self._canaries.space.size),
                    seed=self.request.seed,
                )
            ),
            findings=tuple(listed_findings),
            limits=tuple(self._limits(scored)),
            revealed=tuple(revealed),
        )

    def _limits(self, scored: Scored) -> Iterator[str]:
        """Yield the caveats that apply to this audit."""
        if not self.request.commitment:
            yield NO_COMMITMENT
        yield from self.inputs.copies.caveats()
        if not self._canaries.controls:
            yield (
                "There are no controls: nothing shows that secrets nobody planted rank as "
                "chance would have it."
            )
        if BASE not in scored:
            yield "The target has no base to compare with."
        if self._is_enumerable:
            return
        count, size = self.request.references, self._canaries.space.size
        yield (
            f"Each secret is ranked among {count:,} of {size:,}, drawn at random: exposure is "
            f"measured up to {math.log2(count + 1):.1f} bits and extrapolated beyond that."
        )
        given = [c for c in scored[TUNED] if c.canary.times]
        if count >= measurements.FIT_FROM and (refuted := measurements.refuted_fits(given, LEVEL)):
            yield (
                f"Of {len(given):,} planted secrets, the references of {refuted:,} do not follow "
                f"the fitted law (p at most {LEVEL}): do not rely on their extrapolated exposure."
            )

    def caveats(self) -> list[str]:
        """Return the caveats of every audit with canaries."""
        return [
            "Canaries show what training does to secrets of this kind in such sentences, not "
            "which of the real records it gives away."
        ]


def _sentences(engine: Engine, canaries: CanarySet, heading: str) -> list[PiiOccurrence]:
    """Return the texts before the secrets, from which the prompt start is chosen."""
    texts = dict.fromkeys(heading + canary.prefix for canary in canaries.planted)
    return first_token_occurrences(tokens.ids for tokens in engine.tokenize(list(texts)))
