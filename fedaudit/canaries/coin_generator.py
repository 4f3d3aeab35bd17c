"""New canaries with coins: beginnings of records, and ends that no model would write."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import template
from fedaudit.canaries.coin_file import (
    MAX_COINS,
    MIN_COINS,
    SCORERS,
    CoinCanary,
    CoinSet,
    Estimator,
    Position,
)
from fedaudit.system.names import check_name

FEWEST_WORDS = 100
"""Tokens that an end is drawn from, at least."""
MAX_SUFFIX_TOKENS = 4096
"""Training cuts documents: the profiles read up to 3,072 tokens, and 256 without a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinRequest:
    """Which canaries to make. Raises UsageError for what cannot be made."""

    corpus: Annotated[
        Path, Option("--corpus", help="Records in the style of the client's, as JSONL.")
    ]
    client: Annotated[
        str, Option("--client", help="The client whose records the canaries are planted in.")
    ] = "c0"
    base: Annotated[
        str, Option("--base", help="The model whose tokens the canaries' endings are drawn from.")
    ] = "fedaudit-nano"
    count: Annotated[int, Option("--count", help="Canaries, in and out.", max=1_000_000)] = 1000
    delta: Annotated[float, Option("--delta", help="The claim's delta, 1e-5 at most.")] = 1e-5
    level: Annotated[
        float, Option("--level", help="The largest chance that a true claim is refuted.")
    ] = 0.05
    positions: tuple[Position, ...] = ("client",)
    estimator: Estimator = "f_dp"
    shares: tuple[float, ...] = (0.75, 0.5)
    score: Literal["loss", "gradient"] = "loss"
    prefix_words: Annotated[
        int,
        Option(
            "--prefix-words", help="Words of a record that a canary begins with.", min=1, max=10_000
        ),
    ] = 6
    suffix_tokens: Annotated[
        int,
        Option("--suffix-tokens", help="Random words that a canary ends with.", min=1, max=10_000),
    ] = 32
    seed: Annotated[
        int | None, Option("--seed", help="Makes the coins repeatable for anybody who knows it.")
    ] = None
    template: str = "fed_pii"

    def __post_init__(self) -> None:
        if not MIN_COINS <= self.count <= MAX_COINS:
            raise UsageError(f"--count must be {MIN_COINS} to {MAX_COINS:,}.")
        if self.prefix_words < 1 or self.suffix_tokens < 1:
            raise UsageError("A canary needs a word of prefix and a token of suffix at least.")
        if self.suffix_tokens > MAX_SUFFIX_TOKENS:
            raise UsageError(
                f"--suffix-tokens must be {MAX_SUFFIX_TOKENS:,} or fewer: training cuts documents "
                "to max_length tokens."
            )


def make(request: CoinRequest, vocabulary: Sequence[str]) -> CoinSet:
    """Return new canaries, none of which the corpus holds, with fair independent coins.

    `vocabulary` has the text of every token. Raises InputError for a corpus that has no text to
    begin with, and for a vocabulary with too few words.
    """
    from fedaudit.data import corpus

    check_name(request.client, Path("--client"), "the client")
    rng = random.SystemRandom() if request.seed is None else random.Random(f"coins {request.seed}")
    texts = [document.text for document in corpus.read(request.corpus, template(request.template))]
    starts = [" ".join(words) for text in texts if (words := text.split()[: request.prefix_words])]
    if not starts:
        raise InputError(f"{request.corpus} holds no text that a canary could begin with.")
    words = whole_words(vocabulary)
    if len(words) < FEWEST_WORDS:
        raise InputError(
            f"{request.base} has {len(words)} tokens that are whole words; {FEWEST_WORDS} are "
            "needed."
        )
    corpus_texts, canaries = set(texts), dict[str, CoinCanary]()
    while len(canaries) < request.count:
        suffix = "".join(rng.choice(words) for _ in range(request.suffix_tokens))
        canary = CoinCanary(
            prefix=rng.choice(starts), suffix=suffix, included=bool(rng.getrandbits(1))
        )
        if canary.text not in corpus_texts:
            canaries[canary.text] = canary
    try:
        return CoinSet(
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            salt=f"{rng.getrandbits(256):064x}",
            client=request.client,
            delta=request.delta,
            level=request.level,
            positions=request.positions,
            estimator=request.estimator,
            shares=request.shares,
            scorer=SCORERS[request.score],
            canaries=tuple(canaries.values()),
        )
    except ValueError as error:
        raise UsageError(f"dp make: {error}.") from None


def whole_words(vocabulary: Sequence[str]) -> list[str]:
    """Return the tokens that are a space and at least two letters, each once.

    Regular tokens: of new ones, or of parts of characters, a LoRA adapter would learn nothing.
    """
    words = {t for t in vocabulary if t[:1] == " " and t[1:].isalpha() and len(t) > 2}
    return sorted(words)
