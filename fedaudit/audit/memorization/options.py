"""How cross-client memorization is measured: the options of `memorize` and of a study's variant."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fedaudit.api.records import SamplingParams

MIN_SUFFIX_TOKENS = 20
"""Tokens that a text needs beyond its prefix; shorter ones are left out."""

DecodingMode = Literal["top-k", "top-p", "temperature", "greedy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What is sampled, how it is continued, and what it is compared with (the paper's defaults)."""

    sample: int = 4000
    """Texts of each client whose prefixes are asked and whose suffixes are looked for."""
    prefix_length: int = 30
    """Tokens of a text that the model is given."""
    retrieved: int = 10
    """The suffixes of each client, most like the continuation first, that it is compared with."""
    decoding: DecodingMode = "top-k"
    top_k: int = 40
    top_p: float = 0.8
    temperature: float = 1.0
    new_tokens: int = 256
    """Tokens that the model writes at most."""
    prompt: Literal["record", "header"] = "record"
    """"record": all that stands before the input in the training text goes before the prefix, the
    instruction too; "header": only what every record begins with, as in the published program."""
    all_pairs: bool = False
    """Compare with every sampled suffix in place of the retrieved ones."""
    compat: bool = False
    """Use the published detector's rules, its defects included, and count its p <= 0.5 pairs."""
    central: bool = False
    """Also measure the model that the simulation trained on everybody's data at one place."""
    paraphraser: str = ""
    """The plugin that scores paraphrases; without one that stage is off."""
    scoring: Mapping[str, Any] = field(default_factory=dict)
    """Its options."""

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
        """The tokens that a text must have to be asked with."""
        return self.prefix_length + MIN_SUFFIX_TOKENS

    def sampling_params(self) -> SamplingParams:
        """Return how tokens are drawn; only what the chosen way names is used."""
        return {
            "top-k": SamplingParams(top_k=self.top_k),
            "top-p": SamplingParams(top_p=self.top_p),
            "temperature": SamplingParams(temperature=self.temperature),
            "greedy": SamplingParams(temperature=0.0),
        }[self.decoding]

    def scope(self) -> dict[str, object]:
        """Return what goes into the scope of every measurement."""
        return {"decoding": self.decoding, "prefix_length": self.prefix_length}

    def categories(self) -> tuple[str, ...]:
        """Return the categories of memorization that are looked for."""
        high = ("paraphrase_high",) if self.paraphraser else ()
        low = ("paraphrase_low",) if self.paraphraser and self.compat else ()
        return ("verbatim", "idea", *high, *low)
