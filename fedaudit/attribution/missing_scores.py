"""Rounds and estimates without scores, as limits of a report."""

from collections.abc import Sequence
from itertools import pairwise

from fedaudit.attribution.scores import Scores

MOST_NAMED = 20
"""Clients that a limit names one by one."""


def caveats(scores: Scores) -> list[str]:
    """Return limits that tell a reader which rounds and single estimates have no scores."""
    return [*_rounds(scores), *_estimates(scores)]


def _rounds(scores: Scores) -> list[str]:
    """Return a limit if rounds between the scored ones have no scores."""
    numbers = [0, *sorted(r.round for r in scores.rounds if r.round > 0)]
    gaps = [(low + 1, high - 1) for low, high in pairwise(numbers) if high - low > 1]
    shown = [str(low) if low == high else f"{low} to {high}" for low, high in gaps]
    return [f"rounds without scores: {', '.join(shown)}"] if shown else []


def _estimates(scores: Scores) -> list[str]:
    """Return a limit that names the clients without an estimate in some of the scored rounds."""
    absent = {
        client: [r.round for r in scores.rounds if client not in r.clients]
        for client in scores.clients
    }
    partly = {c: rounds for c, rounds in absent.items() if 0 < len(rounds) < len(scores.rounds)}
    if not partly:
        return []
    listing = [f"{client} in {_ranges(rounds)}" for client, rounds in partly.items()]
    more = f"; and of {len(listing) - MOST_NAMED} more" if len(listing) > MOST_NAMED else ""
    return [
        "rounds without an estimate of a client, which took no part in them or was left out: "
        f"{'; '.join(listing[:MOST_NAMED])}{more}"
    ]


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as "1, 3 to 5"."""
    groups: list[list[int]] = []
    for number in sorted(numbers):
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(f"{g[0]} to {g[-1]}" if len(g) > 1 else str(g[0]) for g in groups)
