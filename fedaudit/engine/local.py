"""The engine for a model in this process: CUDA, bfloat16 or CPU."""

import contextlib
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from transformers import PreTrainedModel

from fedaudit.api.engine import (
    GenerationBatch,
    LogProbabilities,
    PrefixProbabilities,
    PrefixProbabilityRequest,
    TokenRows,
    TokenStatistics,
)
from fedaudit.api.errors import BatchTooLargeError, InputError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target, Tokens
from fedaudit.api.templates import PromptTemplate
from fedaudit.engine import flops, hidden_states, memory, scheduler, scoring
from fedaudit.engine.architecture import has_standard_attention
from fedaudit.engine.device import few_threads, is_small
from fedaudit.engine.exact.search import SearchConfig
from fedaudit.engine.exact.token_automaton import AutomatonCache
from fedaudit.engine.generation.cuda_graphs import CudaGraphs
from fedaudit.engine.generation.sequences import SamplingJob
from fedaudit.engine.generation.stopping import StopStrings
from fedaudit.engine.loading import config_alternatives, loader
from fedaudit.engine.loading.prompt_starts import prompt_starts
from fedaudit.engine.lora import adapter, multi
from fedaudit.engine.lora.active import AdapterCache, version
from fedaudit.engine.lora.merge import MergedWeights
from fedaudit.engine.memory import BatchSizeFinder, ended_by_memory, free_memory

if TYPE_CHECKING:
    from peft import PeftModel

T = TypeVar("T")

BASE = Target(name="base")
LOGITS = 2**26
"""The most logits that scoring holds at once on a CPU (256 MB in float32); a GPU may hold more."""
MIN_MERGED_QUESTIONS = 32
"""From this many questions on, which fill a batch, adapters are merged in turn if possible."""


class LocalEngine:
    """Answers probes with one base model and the adapters that targets name.

    The engine takes over the base it is given: adapters are attached to that model itself.
    """

    def __init__(
        self,
        base: loader.LoadedBase,
        *,
        template: PromptTemplate | None = None,
        batch_size: int = 0,
        tokens: int = 0,
    ) -> None:
        on_cpu = base.model.device.type == "cpu"
        self.base = base
        self.model: PreTrainedModel | PeftModel = base.model
        self.rows = batch_size or (512 if on_cpu else memory.rows_on_card(base.model))
        token_capacity = memory.tokens if on_cpu else memory.tokens_on_card
        self.tokens = tokens or token_capacity(base.model)
        self.context_length = base.context_length
        self.prompt_starts = prompt_starts(base.tokenizer, template)
        self.vocabulary_size = int(base.model.config.get_text_config().vocab_size)
        self._attached = AdapterCache()
        self.room = scheduler.Capacity(self.rows, self.tokens, BatchSizeFinder())
        self.reading = scheduler.Capacity(
            self.rows, min(self.tokens, self._logits()), BatchSizeFinder()
        )
        self._limits = scoring.AdaptiveBatchLimits(
            scoring.BatchLimits(self.rows, self.tokens, self._logits())
        )
        self._automata = AutomatonCache(base)
        replays = base.model.device.type == "cuda" and has_standard_attention(base.model)
        self._graphs = CudaGraphs(base.model.device) if replays else None
        self.small = is_small(base.model)
        """Whether the base is small; adapters, attached later, do not count."""
        self.merging = MergedWeights(base.model, small=self.small)

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise without special tokens; offsets count code points."""
        return loader.tokenize(self.base.tokenizer, texts)

    @property
    def end_tokens(self) -> list[int]:
        """The tokens that end a completion."""
        return self.base.end_tokens

    def decode(self, rows: TokenRows) -> list[str]:
        """Return the text of each row of tokens, as completions are decoded."""
        texts: list[str] = self.base.tokenizer.batch_decode(rows, skip_special_tokens=True)
        return texts

    def best_configurations(self, batches: Sequence[TokenRows]) -> list[tuple[str, float]]:
        """Return, for each batch of texts, the base's best other configuration.

        That is the key with another value, and the mean ln p per token with it.
        """
        with few_threads(small=self.small), self.apply_target(BASE):
            model = self.base.model
            return [config_alternatives.best_alternative(model, rows) for rows in batches]

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Continue every prompt; raises InputError for one that does not fit the context."""
        for request in batch.requests:
            self._check_length(len(request.prompt), request.max_new_tokens)
        texts: list[list[str]] = [[""] * request.samples for request in batch.requests]
        done, total = 0, sum(request.samples for request in batch.requests)
        stop = self._stop_strings(batch.stop_strings)
        job = SamplingJob(batch.requests, batch.seed, batch.decoding, self.end_tokens, stop)
        with self.apply_target(target) as model, self._graphs_for(model, target) as graphs:
            for pieces, outputs in scheduler.generate_all(model, job, self.room, graphs):
                decoded = iter(self.decode(outputs))
                for piece in pieces:
                    for sample in range(piece.first, piece.last):
                        texts[piece.index][sample] = next(decoded)
                done += len(outputs)
                progress(done, total)
        return [Completion(tuple(samples)) for samples in texts]

    def answers(
        self,
        targets: Sequence[Target],
        questions: TokenRows,
        *,
        new: int,
        decoding: SamplingParams = SamplingParams(temperature=0),
        progress: Progress = no_progress,
    ) -> list[list[Completion]]:
        """Return every target's answers to every question, with all adapters in one batch.

        If there are enough questions to fill a batch and adapters can be merged, the targets are
        asked in turn instead. If answers are sampled, all targets use the same random numbers.
        """
        for question in questions:
            self._check_length(len(question), new)
        requests = [
            GenerationRequest(prompt=tuple(q), samples=1, max_new_tokens=new) for q in questions
        ]
        completions: list[list[Completion]] = [[Completion(("",))] * len(requests) for _ in targets]
        job = SamplingJob(requests if targets else [], 0, decoding, self.end_tokens)
        done = 0
        with contextlib.closing(self._generate_for_targets(targets, job)) as answered:
            for rows, outputs in answered:
                texts = self.decode(outputs)
                for (target_index, index), text, tokens in zip(rows, texts, outputs, strict=True):
                    completions[target_index][index] = Completion((text,), (tuple(tokens),))
                done += len(rows)
                progress(done // len(targets), len(requests))
        return completions

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Score every sequence; raises InputError for one that does not fit the context."""
        return self._measure(target, sequences, scoring.log_probabilities, progress)

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Measure every token; raises InputError for a sequence that does not fit the context."""
        return self._measure(target, sequences, scoring.token_statistics, progress)

    def _measure(
        self,
        target: Target,
        sequences: TokenRows,
        measure: Callable[[PreTrainedModel, TokenRows], list[T]],
        progress: Progress,
    ) -> list[T]:
        for sequence in sequences:
            self._check_length(len(sequence), 0)
        results: dict[int, T] = {}
        with self.apply_target(target) as model:
            for indices, rows in scheduler.score_all(model, sequences, self.reading, measure):
                results |= zip(indices, rows, strict=True)
                progress(len(results), len(sequences))
        return [results[index] for index in range(len(sequences))]

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence of every group; the common prefix of a group is prefilled once."""
        for group in groups:
            for sequence in group:
                self._check_length(len(sequence), 0)
        scores: list[LogProbabilities] = [[[] for _ in group] for group in groups]
        done, total = 0, sum(map(len, groups))
        begins = scoring.common_prefixes(self.base.model, groups)
        alone = [g for g, begin in enumerate(begins) if not begin]
        singles = [(g, i) for g in alone for i in range(len(groups[g]))]
        rows = [groups[g][i] for g, i in singles]
        plain = self.score(target, rows, progress=lambda n, _: progress(n, total)) if rows else []
        for (g, i), row in zip(singles, plain, strict=True):
            scores[g][i] = row
        done = len(singles)
        with self.apply_target(target) as model:
            for places, results in scheduler.scored_groups(model, groups, begins, self._limits):
                for (g, i), row in zip(places, results, strict=True):
                    scores[g][i] = row
                done += len(places)
                progress(done, total)
        return scores

    def prefix_probabilities(
        self, target: Target, request: PrefixProbabilityRequest, *, progress: Progress = no_progress
    ) -> list[PrefixProbabilities]:
        """Walk all tokenisations of the strings; InputError if the tokens' bytes are not known."""
        for prompt in request.prompts:
            self._check_length(len(prompt), request.max_new_tokens)
        config = SearchConfig(
            automaton=self._automata.get(request.strings),
            max_new_tokens=request.max_new_tokens,
            decoding=request.decoding,
            threshold=request.threshold,
        )
        chances: dict[int, PrefixProbabilities] = {}
        with self.apply_target(target) as model:
            for indices, results in scheduler.search_all(model, request, config, self._limits):
                chances |= zip(indices, results, strict=True)
                progress(len(chances), len(request))
        return [chances[index] for index in range(len(request))]

    def states(self, prompts: TokenRows, vectors: torch.Tensor | None = None) -> torch.Tensor:
        """Return the bare base's last hidden state after each prompt, float32 (prompts, width).

        `vectors` (prompts, width) are input embeddings of one more token, outside the vocabulary.
        """
        for prompt in prompts:
            self._check_length(len(prompt), 0)
        with self.activate(BASE) as model:
            return hidden_states.last_states(model, prompts, vectors, self.room)

    def flops(self, target: Target, sequences: TokenRows) -> int:
        """Return the floating-point operations of one forward pass for each sequence, unbatched."""
        with self.activate(target) as model:
            return sum(
                flops.forward_flops(model, {"input_ids": torch.tensor([list(s)]).to(model.device)})
                for s in sequences
            )

    def _stop_strings(self, strings: Collection[str] | None) -> StopStrings | None:
        """Return stop strings; None if the whole answer counts or the tokens' bytes are unknown."""
        if strings is None:
            return None
        try:
            return StopStrings(strings, self._automata.table)
        except InputError:
            return None

    def _logits(self) -> int:
        """Return the number of tokens whose logits may be in memory at once."""
        vocabulary = int(self.base.model.config.get_text_config().vocab_size)
        return max(1, memory.logits_at_once(self.base.model, LOGITS) // vocabulary)

    def _check_length(self, prompt: int, max_new_tokens: int) -> None:
        if prompt == 0 and max_new_tokens:
            raise InputError("A prompt is empty, and this model has no token that begins a text.")
        if prompt + max_new_tokens > self.context_length:
            raise InputError(
                f"A prompt of {prompt} tokens and {max_new_tokens} new ones is longer than the "
                f"context of {self.base.name}, {self.context_length} tokens."
            )

    def _graphs_for(
        self, model: PreTrainedModel, target: Target
    ) -> AbstractContextManager[CudaGraphs | None]:
        """Return a context that gives the CUDA graphs recorded for a target, or None if unused."""
        if self._graphs is None:
            return contextlib.nullcontext()
        return self._graphs.for_target(model, version(target.adapter) if target.adapter else None)

    @contextlib.contextmanager
    def apply_target(self, target: Target) -> Iterator[PreTrainedModel]:
        """Make the model answer as a target, with the adapter merged (less work) or attached."""
        weights = self.merging.weights(target.adapter) if target.adapter else None
        if weights is None:
            with self.activate(target) as model:
                yield model
            return
        with self.activate(BASE) as model, adapter.swapped_weights(weights):
            yield model

    @contextlib.contextmanager
    def activate(self, target: Target) -> Iterator[PreTrainedModel]:
        """Switch the model to the adapter of a target, or to the bare base."""
        if target.adapter is None:
            off = getattr(self.model, "disable_adapter", contextlib.nullcontext)
            with off(), few_threads(small=self.small):
                yield self.base.model  # PEFT injects its layers into it
            return
        self.model = self._attached.activated(self.model, target.adapter)
        with few_threads(small=self.small):
            yield self.base.model  # PEFT injects its layers into it

    def _generate_for_targets(
        self, targets: Sequence[Target], job: SamplingJob
    ) -> Generator[tuple[list[tuple[int, int]], list[list[int]]], None, None]:
        """Yield the (target, question) indices of answers, and these as token ids.

        Adapters are asked in turn where merging them pays, and where one is more than products B A
        on layers of the base (DoRA, biases, embeddings, experts): PEFT then applies it.
        """
        in_turn = (
            len(job.requests) >= MIN_MERGED_QUESTIONS
            and self.merging.possible
            and all(t.adapter is None or self.merging.merges(t.adapter) for t in targets)
        )
        if not in_turn:
            with self.apply_target(BASE) as model:
                if (adapters := _side_by_side(model, targets)) is not None:
                    for pieces, tokens in scheduler.generate_together(
                        model, job, adapters, self.room
                    ):
                        yield [(t, p.index) for t in range(len(targets)) for p in pieces], tokens
                    return
        for target_index, target in enumerate(targets):
            with self.apply_target(target) as model:
                for pieces, tokens in scheduler.generate_all(model, job, self.room):
                    yield [(target_index, piece.index) for piece in pieces], tokens


def _side_by_side(model: PreTrainedModel, targets: Sequence[Target]) -> multi.MultiLora | None:
    """Return the adapters of all targets; None if one is not plain LoRA on the base's own layers.

    Raises BatchTooLargeError if they do not fit together.
    """
    try:
        with ended_by_memory():
            loras = [adapter.read(Path(t.adapter)) if t.adapter else None for t in targets]
            return multi.MultiLora(model, loras)
    except InputError:  # PEFT may convert it; what is wrong with it, attaching it says
        return None
    free_memory()
    raise BatchTooLargeError(f"{len(targets)} adapters do not fit into memory together.")
