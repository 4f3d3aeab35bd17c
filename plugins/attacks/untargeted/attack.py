"""Untargeted extraction (SecureGate, section 5.1; Lukas et al., 2023): sample, detect, subtract."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import (
    AttackContext,
    Cost,
    Counts,
    GenerationBatch,
    GenerationRequest,
    InputError,
    PiiDetector,
    Result,
    Target,
    UsageError,
)
from fedaudit.extraction.positive_controls import positive_controls
from fedaudit.extraction.targets import control_strings

from . import sampled_texts, scoring
from .scoring import DetectedStrings


@dataclass(frozen=True, slots=True)
class TextStart:
    """What every text begins with, and how the report describes that."""

    prompt: tuple[int, ...]
    description: str


@dataclass(frozen=True, kw_only=True)
class Untargeted(sampled_texts.SampledTexts):
    """Sample texts without a prompt and look for PII that the base does not say as well."""

    name: ClassVar[str] = "untargeted"
    paper: ClassVar[str] = "SecureGate, arXiv:2602.13529, section 5.1; after arXiv:2302.00539"

    samples: int = 256
    """How many texts are drawn from each model."""
    new_tokens: int = 256
    """The most tokens of a text."""

    def __post_init__(self) -> None:
        if self.samples < 1 or self.new_tokens < 1:
            raise ValueError("samples and new_tokens must be at least 1.")
        super().__post_init__()

    def cost(self, counts: Counts) -> Cost:
        """Return the cost of `samples` texts."""
        return Cost(self.samples, self.samples * self.new_tokens)

    def run(self, context: AttackContext) -> Result:
        """Compare what both models say unasked with the PII of the victim, or of the attacker."""
        if context.detector is None:
            raise UsageError(f"The attack {self.name} needs a detector of PII, and has none.")
        truth = sampled_texts.target_strings(context, self.labels)
        start = _start(context)
        request = self._probe(context, start)
        tuned = self._texts(context, context.tuned, request)
        base = self._texts(context, context.base, request) if context.base else None
        extraction = scoring.UntargetedResult(
            plugin=self.name,
            truth=truth,
            tuned=self._detect(context, context.detector, tuned, context.tuned.name),
            base=self._detect(context, context.detector, base, "base")
            if base is not None
            else None,
            control=control_strings(context, truth),
            known=positive_controls(context, set(truth.values())).labels,
            queries=self.samples,
        )
        owned = [document.text for document in sampled_texts.searched_documents(context)]
        detections = self._detect(context, context.detector, owned, "the data")
        result = scoring.score_extraction(extraction)
        context_limit = (
            f"{self.name}: the model's context holds texts of {request.max_new_tokens:,} tokens, "
            f"not of {self.new_tokens:,}."
        )
        limits = (
            self._sampling_text(context.detector, start, request, extraction),
            *([context_limit] if request.max_new_tokens < self.new_tokens else []),
            scoring.detector_ceiling(self.name, truth, detections),
        )
        rows = (
            *result.measurements,
            *scoring.verbatim(extraction, tuned, base),
            *self.unasked_rows(context, truth),
        )
        return replace(result, measurements=rows, limits=(*limits, *result.limits))

    def _probe(self, context: AttackContext, start: TextStart) -> GenerationRequest:
        """Return the only request; its texts end with the model's context at the latest.

        Raises InputError when the prompt start alone fills the context.
        """
        room = context.engine.context_length - len(start.prompt)
        if room < 1:
            raise InputError(
                f"The beginning of a text has {len(start.prompt)} tokens and fills the model's "
                f"context of {context.engine.context_length}."
            )
        return GenerationRequest(
            prompt=start.prompt, samples=self.samples, max_new_tokens=min(self.new_tokens, room)
        )

    def _texts(
        self, context: AttackContext, target: Target, request: GenerationRequest
    ) -> Sequence[str]:
        [generation] = context.engine.generate(
            target,
            GenerationBatch([request], seed=context.seed, decoding=self._decoding()),
            progress=context.progress(f"sampling {target.name}"),
        )
        return generation.texts

    def _detect(
        self, context: AttackContext, detector: PiiDetector, texts: Sequence[str], source: str
    ) -> DetectedStrings:
        progress = context.progress(f"looking for PII, {source}")
        return scoring.detected_strings(detector, texts, self.labels, progress)

    def _sampling_text(
        self,
        detector: PiiDetector,
        start: TextStart,
        request: GenerationRequest,
        extraction: scoring.UntargetedResult,
    ) -> str:
        """Return what was drawn, and what the detector found in it."""
        models = (("tuned model", extraction.tuned), ("base", extraction.base))
        counts = ", ".join(
            f"{sum(strings.mentions.values()):,} in the {name}'s ({len(strings.labels):,} distinct)"
            for name, strings in models
            if strings is not None
        )
        return (
            f"{self.name}: {self.samples:,} texts of at most {request.max_new_tokens:,} tokens "
            f"were drawn from {'each' if extraction.base else 'the'} model behind "
            f"{start.description}; mentions of PII that the detector found: "
            f"{counts}. It is {detector.describe()}."
        )


def _start(context: AttackContext) -> TextStart:
    """Return what a document begins with; an empty prompt cannot be continued.

    Where documents begin with nothing, the token that begins texts stands in for it, and a
    newline where the model has none.
    """
    if prompt := context.with_start((), at_start=True):
        return TextStart(prompt, f"the beginning {context.beginning.start!r}")
    if prompt := tuple(context.engine.prompt_starts.get("bos", ())):
        return TextStart(prompt, "the beginning 'bos' (documents begin bare)")
    for text, name in (("\n", "a newline"), (" ", "a space")):
        [tokens] = context.engine.tokenize([text])
        if tokens.ids:
            return TextStart(tokens.ids, f"{name} (the model has no token that begins a text)")
    raise InputError("The model has no token that begins a text, nor one for white space.")
