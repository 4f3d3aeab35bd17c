"""New canaries with coins: beginnings of records, and ends that no model would write."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

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
from fedaudit.data import corpus
from fedaudit.system.names import check_name

FEWEST_WORDS = 100
"""Tokens that an end is drawn from, at least."""
MAX_SUFFIX_TOKENS = 4096
"""Training cuts documents: the profiles read up to 3,072 tokens, and 256 without a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinRequest:
    """Which canaries to make. Raises UsageError for what cannot be made."""

    corpus: Path
    """Records of the client's style: canaries begin as they do."""
    base: str = "fedaudit-nano"
    """The model whose tokens the ends are drawn from."""
    client: str = "c0"
    count: int = 1000
    delta: float = 1e-5
    level: float = 0.05
    positions: tuple[Position, ...] = ("client",)
    estimator: Estimator = "f_dp"
    shares: tuple[float, ...] = (0.75, 0.5)
    score: Literal["loss", "gradient"] = "loss"
    prefix_words: int = 6
    suffix_tokens: int = 32
    template: str = "fed_pii"
    seed: int | None = None
    """Whoever knows it knows the coins; None draws what nobody can guess."""

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
