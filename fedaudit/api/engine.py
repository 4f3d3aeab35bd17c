"""What an engine is: it continues prompts, scores texts and computes exact probabilities."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target, Tokens

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch
    from peft import PeftModel
    from transformers import PreTrainedModel

TokenRows = Sequence[Sequence[int]]
"""Texts as token ids."""
LogProbabilities = list[list[float]]
"""The natural-log probability of every token but the first, of each of some texts."""

E = TypeVar("E", bound="Engine")


@dataclass(frozen=True, slots=True)
class TokenStatistics:
    """What a model says of every token of one text but the first, in order."""

    log_probability: Sequence[float]
    """The natural-log probability of the token."""
    mean: Sequence[float]
    """That of a token drawn there by the model, on average: minus the entropy; empty if unknown."""
    deviation: Sequence[float]
    """The standard deviation of the same; empty likewise."""
    first: Sequence[bool]
    """Whether no other token is more likely there; empty if unknown."""

    def __len__(self) -> int:
        return len(self.log_probability)


@dataclass(frozen=True, slots=True)
class GenerationBatch:
    """Prompts that are continued in the same way; hashable, whatever sequences it is made of."""

    requests: Sequence[GenerationRequest]
    _: KW_ONLY
    seed: int
    decoding: SamplingParams = SamplingParams()
    stop_strings: Collection[str] | None = None
    """Where given, only which of these a continuation begins with counts, leading white space
    aside: what is behind may be missing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "requests", tuple(self.requests))
        if self.stop_strings is not None:
            object.__setattr__(self, "stop_strings", tuple(self.stop_strings))

    def __len__(self) -> int:
        return len(self.requests)

    def select(self, indices: Sequence[int]) -> Self:
        """Return the same with some of the prompts."""
        return replace(self, requests=[self.requests[index] for index in indices])


@dataclass(frozen=True, slots=True)
class PrefixProbabilityRequest:
    """Prompts, and strings that their continuations may begin with; hashable likewise."""

    prompts: TokenRows
    strings: Sequence[str]
    _: KW_ONLY
    max_new_tokens: int
    """The length of a continuation; white space that leads it does not count."""
    decoding: SamplingParams = SamplingParams()
    threshold: float = 4e-3
    """Branches less likely than this, or a lower one of the engine's own, may be given up."""
    trials: Sequence[int] = ()
    """How often each prompt is drawn from what is given up; empty means never."""
    seed: int = 0
    """Of these draws."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompts", tuple(map(tuple, self.prompts)))
        object.__setattr__(self, "strings", tuple(self.strings))
        object.__setattr__(self, "trials", tuple(self.trials))

    def __len__(self) -> int:
        return len(self.prompts)

    def select(self, indices: Sequence[int]) -> Self:
        """Return the same with some of the prompts."""
        return replace(
            self,
            prompts=[self.prompts[index] for index in indices],
            trials=[self.trials[index] for index in indices] if self.trials else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefixProbabilities:
    """How likely a continuation of one prompt begins with each of some strings, from 0 to 1."""

    least: "npt.NDArray[np.float64]"
    """(strings,) What was followed to the end."""
    most: "npt.NDArray[np.float64]"
    """(strings,) The same and all that was given up on the way there."""
    drawn: "npt.NDArray[np.int64]"
    """(strings,) Draws from what was given up that completed the string: a Poisson number, whose
    mean is the trials times what `least` lacks of the probability."""
    rows: int = 0
    """How many rows the model read for it."""


class Engine(Protocol):
    """Answers questions about a model; no answer depends on batch size, order or other questions.

    Raises InputError for a prompt or text that does not fit the context.
    """

    @property
    def context_length(self) -> int:
        """The most tokens a prompt and its continuation may have together."""

    @property
    def prompt_starts(self) -> Mapping[str, tuple[int, ...]]:
        """Ways a prompt may begin, by name: "bare", "bos", "template" (if the model has them).

        "text" is how the tokenizer begins a text, where that is not with "bos": ask `text_start`.
        """

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise without adding special tokens; offsets are code points."""

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Continue every prompt."""

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Return, for each sequence, the natural-log probability of every token but the first."""

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence as `score` does, to rounding; reads what a group shares once."""

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Return, for each sequence, how every token but the first stands among all others."""

    def prefix_probabilities(
        self, target: Target, request: PrefixProbabilityRequest, *, progress: Progress = no_progress
    ) -> list[PrefixProbabilities]:
        """Return for each prompt the probability that a continuation begins with each string.

        Raises InputError where the engine cannot.
        """


class MultiTargetEngine(Engine, Protocol):
    """An engine that can let several targets answer the same questions together."""

    def answers(
        self,
        targets: Sequence[Target],
        questions: TokenRows,
        *,
        new: int,
        decoding: SamplingParams = SamplingParams(temperature=0),
        progress: Progress = no_progress,
    ) -> list[list[Completion]]:
        """Let every target answer every question once, in `new` tokens at most.

        Where answers are drawn, all targets draw with the same random numbers.
        """


class LoadedModel(Protocol):
    """A base model of `transformers` in memory, and its tokenizer."""

    @property
    def name(self) -> str:
        """What the user calls it."""

    @property
    def model(self) -> "PreTrainedModel":
        """The model itself."""

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""


class ModelEngine(MultiTargetEngine, Protocol):
    """An engine whose model is in this process: what a defence or a watermark may work on."""

    rows: int
    """The most sequences that go through the model at once."""
    tokens: int
    """The most tokens that go through the model at once."""

    @property
    def base(self) -> LoadedModel:
        """The base model."""

    @property
    def model(self) -> "PreTrainedModel | PeftModel":
        """The base model, inside PEFT's once a target had an adapter."""

    def states(self, prompts: TokenRows, vectors: "torch.Tensor | None" = None) -> "torch.Tensor":
        """Return the bare base's last hidden state after each prompt, float32 (prompts, width).

        `vectors` (prompts, width) are embeddings of one more token, which no vocabulary has.
        """

    def flops(self, target: Target, sequences: TokenRows) -> int:
        """Return the floating-point operations of reading every sequence once, one by one."""


class EngineWrapper:
    """An engine that answers as another one does, except in what a subclass overrides."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def context_length(self) -> int:
        """The most tokens a prompt and its continuation may have together."""
        return self.engine.context_length

    @property
    def prompt_starts(self) -> Mapping[str, tuple[int, ...]]:
        """Ways a prompt may begin, by name."""
        return self.engine.prompt_starts

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise as the engine does."""
        return self.engine.tokenize(texts)

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Continue every prompt."""
        return self.engine.generate(target, batch, progress=progress)

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Score every sequence."""
        return self.engine.score(target, sequences, progress=progress)

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence of every group."""
        return self.engine.score_groups(target, groups, progress=progress)

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Return how every token of every sequence stands among all others."""
        return self.engine.token_statistics(target, sequences, progress=progress)

    def prefix_probabilities(
        self, target: Target, request: PrefixProbabilityRequest, *, progress: Progress = no_progress
    ) -> list[PrefixProbabilities]:
        """Return how likely each prompt goes on with each string."""
        return self.engine.prefix_probabilities(target, request, progress=progress)

    def for_follow_ups(self) -> Engine:
        """Return the engine for questions that arise from this engine's answers."""
        return self


def follow_up_engine(engine: Engine) -> Engine:
    """Return the engine for questions that arise from the answers of `engine`.

    In one shard of an audit most answers are empty, and the other shards have them. Only the shard
    that has an answer knows what to ask next, so it asks that itself, whichever shard the tokens of
    the question belong to.
    """
    return engine.for_follow_ups() if isinstance(engine, EngineWrapper) else engine


def unwrap_engine(engine: Engine, kind: type[E]) -> E | None:
    """Return the first engine of a kind among `engine` and those that it wraps; None without."""
    while not isinstance(engine, kind):
        if not isinstance(engine, EngineWrapper):
            return None
        engine = engine.engine
    return engine


def text_start(engine: Engine) -> tuple[int, ...]:
    """Return what stands before the first word of a text in training, as its tokenizer has it.

    Often one BOS token. A tokenizer may have one and begin no text with it.
    """
    starts = engine.prompt_starts
    return tuple(starts.get("text", starts.get("bos", ())))
