"""Checks that files of estimates and of scores share: clients, rounds, weights, masks."""

import math
from collections.abc import Collection, Mapping, Sequence

from fedaudit.api.errors import InputError

LARGEST_DIMENSION = 2**63
"""Numbers in an update; no model has as many."""
LARGEST_ROUND = 10**9
LARGEST_RATIO = 1e12
"""The most that a client's weight may be over the mean, and the mean over it: what is beyond is
lost in rounding."""


Hashes = Mapping[int, Mapping[str, str]]
"""A SHA-256 for each client, by round."""


def check_clients(clients: Sequence[str], where: str) -> None:
    """Raise InputError where a federation has a client twice."""
    if len(set(clients)) < len(clients):
        raise InputError(f"{where} has a client twice.")


def check_round_numbers(numbers: Sequence[int], where: str) -> None:
    """Raise InputError unless the numbers are distinct round numbers from 1 on."""
    if repeated := sorted({n for n in numbers if numbers.count(n) > 1}):
        raise InputError(f"{where} has round {repeated[0]} twice.")
    if numbers and min(numbers) < 1:
        raise InputError(f"{where} has a round {min(numbers)}; the first one is 1.")
    if numbers and max(numbers) > LARGEST_ROUND:
        raise InputError(f"{where} has a round beyond {LARGEST_ROUND:,}.")


def check_federation_rounds(numbers: Sequence[int], rounds: int, where: str) -> None:
    """Raise InputError unless a federation of `rounds` rounds has the rounds `numbers`."""
    if not max(numbers, default=0) <= rounds <= LARGEST_ROUND:
        raise InputError(
            f"{where} does not say how many rounds the federation has (federation_rounds)."
        )


def check_copied_rounds(hashes: Hashes, where: str, what: str) -> None:
    """Raise InputError where two rounds have the same hashes; an empty round has none."""
    rounds: dict[frozenset[tuple[str, str]], int] = {}
    for number, sent in hashes.items():
        if not sent:
            continue
        first = rounds.setdefault(frozenset(sent.items()), number)
        if first != number:
            raise InputError(
                f"{where}: round {number} has {what} of round {first}, number for number: a copy "
                f"would count as evidence again. Put in what round {number} was, or leave it out."
            )


def check_masks(masks: Collection[float], where: str) -> None:
    """Raise InputError for impossible masks, since the report bounds the leakage by them."""
    if not all(isinstance(x, int | float) and 0 < x < math.inf for x in masks):
        raise InputError(f"{where} has no strength of its clients' masks.")


def check_update(
    shares: Mapping[str, float], clients: Sequence[str], dimension: int, where: str
) -> None:
    """Raise InputError unless clients' weights are positive and `dimension` is a possible size.

    `dimension` counts the numbers in an update. Without `shares` all clients have the same weight.
    """
    if any(not share > 0 for share in shares.values()) or (shares and set(clients) - set(shares)):
        raise InputError(f"{where}: its clients' weights must be positive, one for each.")
    if not all(1 / LARGEST_RATIO <= share <= LARGEST_RATIO for share in shares.values()):
        raise InputError(
            f"{where}: a client's weight is more than {LARGEST_RATIO:,.0f} times the mean, or less "
            "than the mean by as much."
        )
    if not 0 <= dimension <= LARGEST_DIMENSION:
        raise InputError(f"{where}: the dimension of an update is not from 0 to 2^63.")
