"""Options of cross-client memorization, for `memorize` and for the variants of a study."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fedaudit.api.plugin import UpTo
from fedaudit.api.records import SamplingParams

MIN_SUFFIX_TOKENS = 20
"""The number of tokens that a text needs after its prefix; shorter texts are left out."""

DecodingMode = Literal["top-k", "top-p", "temperature", "greedy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Sampling of texts, decoding, and comparison; the defaults are the paper's."""

    sample: Annotated[int, UpTo(10_000_000)] = 4000
    """The maximum number of texts per client, whose prefixes and suffixes are used."""
    prefix_length: int = 30
    """The number of a text's tokens that are its prefix."""
    retrieved: Annotated[int, UpTo(10_000_000)] = 10
    """The number of suffixes of each client, most similar first, to compare a continuation with."""
    decoding: DecodingMode = "top-k"
    top_k: Annotated[int, UpTo(10_000_000)] = 40
    top_p: float = 0.8
    temperature: float = 1.0
    new_tokens: int = 256
    """The maximum number of new tokens."""
    prompt: Literal["record", "header"] = "record"
    """What precedes the prefix in a prompt. "record": everything before the input in the training
    text, including the instruction; "header": only what every record begins with, as in the
    published program."""
    all_pairs: bool = False
    """Whether to compare with every sampled suffix instead of the retrieved ones."""
    compat: bool = False
    """Whether to use the published detector's rules, with its defects, and to count sentence pairs
    with p <= 0.5."""
    central: bool = False
    """Whether to measure also the model that the simulation trained centrally on all data."""
    paraphraser: str = ""
    """The plugin that scores paraphrases; without one, the paraphrase stage is off."""
    scoring: Mapping[str, Any] = field(default_factory=dict)
    """The options of the paraphraser."""

    def __post_init__(self) -> None:
        counts = (self.sample, self.prefix_length, self.retrieved, self.new_tokens, self.top_k)
        if min(counts) < 1:
            raise ValueError(
                "sample, prefix_length, retrieved, new_tokens and top_k must be at least 1."
            )
        if not self.temperature > 0:
            raise ValueError('temperature must be above 0; decoding "greedy" takes the likeliest.')
        self.sampling_params()

    @property
    def min_tokens(self) -> int:
        """The minimum number of tokens of a usable text."""
        return self.prefix_length + MIN_SUFFIX_TOKENS

    def sampling_params(self) -> SamplingParams:
        """Return the sampling params; only the option that `decoding` names is used."""
        return {
            "top-k": SamplingParams(top_k=self.top_k),
            "top-p": SamplingParams(top_p=self.top_p),
            "temperature": SamplingParams(temperature=self.temperature),
            "greedy": SamplingParams(temperature=0.0),
        }[self.decoding]

    def scope(self) -> dict[str, object]:
        """Return the fields that go into the scope of every measurement."""
        return {"decoding": self.decoding, "prefix_length": self.prefix_length}

    def categories(self) -> tuple[str, ...]:
        """Return the categories of memorization that are measured."""
        high = ("paraphrase_high",) if self.paraphraser else ()
        low = ("paraphrase_low",) if self.paraphraser and self.compat else ()
        return ("verbatim", "idea", *high, *low)
