"""A teacher writes texts whose tokens lean towards green ones.

transformers' own `generate` runs the model; the token is drawn here, by a logits processor that
leaves only the drawn one possible. So the randomness of a text belongs to the text, whatever else
is in its batch, and torch's global generator is not touched.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedaudit.api import ModelEngine, Progress, SamplingParams, no_progress

from . import textseal
from .detection import Detector
from .schemes import SCHEMES, green_mask, is_green

if TYPE_CHECKING:
    import torch

LOGITS = 2**24
"""The most logits that one step holds (128 MB in float64)."""


@dataclass(frozen=True, slots=True)
class WritingJob:
    """A text to be written behind a prompt."""

    prompt: tuple[int, ...]
    shortest: int
    """New tokens before which the text does not end."""
    longest: int
    key: int
    """The 64-bit key of its randomness."""


@dataclass(frozen=True, kw_only=True)
class WritingConfig:
    """How a watermark's tokens are drawn."""

    detector: Detector
    delta: float
    decoding: SamplingParams
    ends: tuple[int, ...] = ()
    """Tokens that end a text."""
    banned: tuple[int, ...] = ()
    """Tokens that are not text."""


class WatermarkLogitsProcessor:
    """The logits processor of one batch: bias, draw, and force what was drawn."""

    def __init__(self, config: WritingConfig, jobs: Sequence[WritingJob], width: int) -> None:
        self.config, self.jobs, self.width = config, jobs, width
        self.keys = [job.key for job in jobs]
        self._tokens: torch.Tensor | None = None

    def __call__(self, input_ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        """Return scores (rows, vocabulary) under which only the drawn tokens are possible."""
        import torch

        from fedaudit.engine.generation.sampler import uniforms

        step = input_ids.shape[1] - self.width
        logits = self._mask_forbidden(scores.float(), step)
        uniform = uniforms(self.keys, [0] * len(self.keys), step)
        tokens = self._sample(logits, self.bias(input_ids, logits), uniform)
        over = torch.tensor([step >= job.longest for job in self.jobs], device=scores.device)
        tokens = tokens.masked_fill(over, self.config.ends[0] if self.config.ends else 0)
        return torch.full_like(scores, -torch.inf).scatter(1, tokens[:, None], 0.0)

    def bias(self, input_ids: "torch.Tensor", logits: "torch.Tensor") -> "torch.Tensor":
        """Return delta where a token is green and 0 elsewhere, (rows, vocabulary).

        A row with fewer tokens than a window has no green ones: its padding is not text.
        """
        import torch

        detector = self.config.detector
        rule = SCHEMES[detector.scheme]
        before = rule.before(detector.width or rule.width)
        step = input_ids.shape[1] - self.width
        if input_ids.shape[1] < before:
            return torch.zeros_like(logits)
        green = self._green(input_ids[:, input_ids.shape[1] - before :], logits)
        ready = [len(job.prompt) + step >= before for job in self.jobs]
        green &= torch.tensor(ready, device=logits.device)[:, None]
        return green * self.config.delta

    def _mask_forbidden(self, logits: "torch.Tensor", step: int) -> "torch.Tensor":
        """Rule out what is not text, and the end where it would come too early."""
        import torch

        logits = logits.clone()
        logits[:, list(self.config.banned)] = -torch.inf
        early = [row for row, job in enumerate(self.jobs) if step < job.shortest]
        for end in self.config.ends:
            logits[early, end] = -torch.inf
        return logits

    def _sample(self, logits: "torch.Tensor", bias: "torch.Tensor", uniform: Any) -> "torch.Tensor":
        """Draw as the scheme's own program does.

        KGW adds delta to the raw logits; textseal to what temperature and top-p have left, so that
        its strength does not depend on the temperature and no token comes back that top-p took out.
        """
        from fedaudit.engine.generation.sampler import draw, probabilities

        decoding = self.config.decoding
        if SCHEMES[self.config.detector.scheme].uses_vocabulary_size:
            return draw(logits + bias, uniform, decoding)
        return draw(probabilities(logits, decoding).log() + bias, uniform, SamplingParams())

    def _green(self, windows: "torch.Tensor", logits: "torch.Tensor") -> "torch.Tensor":
        import torch

        detector, rule = self.config.detector, SCHEMES[self.config.detector.scheme]
        if not rule.uses_vocabulary_size:
            if self._tokens is None:
                every = torch.arange(logits.shape[-1], device=logits.device)
                self._tokens = textseal.token_part(every)
            totals = textseal.window_part(windows, detector.key)[:, None] + self._tokens
            return torch.as_tensor(textseal.finalize_hash(totals) < textseal.limit(detector.gamma))
        settings: dict[str, Any] = {
            "vocabulary": detector.vocabulary,
            "gamma": detector.gamma,
            "key": detector.key,
        }
        green = torch.zeros_like(logits, dtype=torch.bool)
        if rule.self_seeded:
            best = logits.topk(min(rule.candidates, logits.shape[-1])).indices
            best_green = is_green(detector.scheme, windows.cpu()[:, None], best.cpu(), **settings)
            return green.scatter(1, best, torch.as_tensor(best_green, device=logits.device))
        mask = green_mask(detector.scheme, windows.cpu().numpy(), **settings)
        green[:, : detector.vocabulary] = torch.as_tensor(mask, device=logits.device)
        return green


def write(
    teacher: ModelEngine,
    jobs: Sequence[WritingJob],
    config: WritingConfig,
    *,
    progress: Progress = no_progress,
) -> list[list[int]]:
    """Return the new tokens of every job, without the end.

    The base writes, without any adapter. The texts depend on batch size and order only as far as
    the rounding of the model's own arithmetic does.
    """
    written: list[list[int]] = [[] for _ in jobs]
    off = getattr(teacher.model, "disable_adapter", nullcontext)
    done = 0
    with off():
        for batch in _batches(teacher, jobs):
            chosen = [jobs[index] for index in batch]
            for index, tokens in zip(
                batch, _continue_texts(teacher.base, chosen, config), strict=True
            ):
                written[index] = tokens
            done += len(batch)
            progress(done, len(jobs))
    return written


def _batches(teacher: ModelEngine, jobs: Sequence[WritingJob]) -> Iterator[list[int]]:
    """Yield indices of jobs of one padded prompt length and about the same new tokens."""
    from fedaudit.engine.architecture import padding_step
    from fedaudit.engine.batching import by_length, padded_length

    step = padding_step(teacher.base.model)
    at_once = LOGITS // int(teacher.base.model.config.get_text_config().vocab_size)
    for bucket in by_length([len(job.prompt) for job in jobs], sys.maxsize, step):
        bucket.sort(key=lambda index: -jobs[index].longest)
        most = padded_length(len(jobs[bucket[0]].prompt)) + jobs[bucket[0]].longest
        rows = max(1, min(teacher.rows, teacher.tokens // most, at_once))
        for start in range(0, len(bucket), rows):
            yield bucket[start : start + rows]


def _continue_texts(
    base: Any, jobs: Sequence[WritingJob], config: WritingConfig
) -> list[list[int]]:
    import torch
    from transformers import GenerationConfig, LogitsProcessorList

    from fedaudit.engine.architecture import left_padded, padding_step
    from fedaudit.engine.batching import padded_length

    width = padded_length(len(jobs[0].prompt), padding_step(base.model))
    ids, mask = left_padded([job.prompt for job in jobs], width, base.model.device)
    # What is said here holds, whatever the model's own generation_config advises.
    generation = GenerationConfig(
        do_sample=False,
        num_beams=1,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        max_new_tokens=max(job.longest for job in jobs),
        eos_token_id=list(config.ends) or None,
        pad_token_id=config.ends[0] if config.ends else 0,
    )
    with torch.inference_mode():
        output_ids = base.model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=generation,
            logits_processor=LogitsProcessorList([WatermarkLogitsProcessor(config, jobs, width)]),
        )
    rows = output_ids[:, width:].tolist()
    return [
        _cut_at_end(row[: job.longest], config.ends) for row, job in zip(rows, jobs, strict=True)
    ]


def _cut_at_end(tokens: list[int], end_tokens: Sequence[int]) -> list[int]:
    last = next((i for i, token in enumerate(tokens) if token in end_tokens), len(tokens))
    return tokens[:last]
