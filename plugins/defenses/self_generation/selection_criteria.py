"""Which of the examples that a model made up are worth keeping (FewFedPIT, sections 3.3 and 4.4).

An example is a prompt x with an answer y. L(y | x) is the mean loss of the answer's tokens behind
the prompt, L(y) that of the same tokens without it, both in nats a token.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Method = Literal["ifs", "perplexity", "ifd", "random"]
"""How to choose; see `score`."""


@dataclass(frozen=True, slots=True)
class Losses:
    """What an example's answer costs behind its prompt, and without it, in nats a token."""

    conditional: float
    direct: float


def losses(conditional: Sequence[float], direct: Sequence[float]) -> Losses | None:
    """Return the mean losses of an answer's token log-probabilities, behind its prompt and without.

    Both rows are of the same tokens. None for an answer without any: there is nothing to score.
    """
    if not direct:
        return None
    return Losses(mean_loss(conditional), mean_loss(direct))


def mean_loss(log_probabilities: Sequence[float]) -> float:
    """Return the mean negative log-likelihood of one token or more, in nats a token."""
    return -math.fsum(log_probabilities) / len(log_probabilities)


def instruction_following(losses: Losses) -> float:
    """Return the instruction following score IFS = L(y | x) / L(y), at least 0 (section 3.3).

    Below 1 the prompt helps to foresee the answer. The instruction following difficulty (IFD, Li
    et al. 2023) is the same ratio. Where L(y) is 0 the prompt cannot help: 1, or infinity where it
    harms.
    """
    if losses.direct == 0:
        return 1.0 if losses.conditional == 0 else math.inf
    return losses.conditional / losses.direct


def perplexity(losses: Losses) -> float:
    """Return exp L(y | x), at least 1: how much the answer surprises behind its prompt.

    It is infinite where it is more than a float holds.
    """
    try:
        return math.exp(losses.conditional)
    except OverflowError:
        return math.inf


def score(losses: Losses, method: Method, *, key: str, seed: int) -> float:
    """Return what `method` sorts by; the lowest are kept.

    * ifs: the ratio, so that answers are kept that fit their prompts
    * perplexity: answers are kept that the model finds likely behind their prompts
    * ifd: the ratio's negative, so that the highest is kept: the most difficult prompts, which is
      how its authors choose and what the paper finds worst among noisy examples. The authors drop
      ratios above 1 first; the paper does not say so, and here none is dropped.
    * random: a number in [0, 1) that follows from the seed and the example's `key`
    """
    if method == "random":
        digest = hashlib.sha256(f"selection {seed} {key}".encode()).digest()
        return int.from_bytes(digest[:6]) / 2**48
    if method == "perplexity":
        return perplexity(losses)
    return instruction_following(losses) if method == "ifs" else -instruction_following(losses)


def select_examples(
    example_losses: Sequence[Losses | None],
    count: int,
    method: Method,
    *,
    keys: Sequence[str],
    seed: int,
) -> list[int]:
    """Return the indices of the `count` examples that `method` prefers, the best first.

    `keys` are the examples' contents: they break ties and steer the random choice, so the order of
    the examples does not matter. One without losses is never kept.
    """
    ranked = sorted(
        (score(loss, method, key=key, seed=seed), key, index)
        for index, (loss, key) in enumerate(zip(example_losses, keys, strict=True))
        if loss is not None
    )
    return [index for _, _, index in ranked[:count]]
