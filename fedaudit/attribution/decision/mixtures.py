"""The distribution of other clients' shares in an estimate where the sets are not known."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedaudit.attribution.scores import RoundScores

if TYPE_CHECKING:
    from fedaudit.metrics.attribution.mixture import Mixture


def other_participants(round_scores: RoundScores, client: str) -> list[str]:
    """Return the other participants of a round, in order."""
    return sorted(name for name in round_scores.clients if name != client)


def coefficient_distribution(
    round_scores: RoundScores, client: str, names: Sequence[str], weights: Mapping[str, float]
) -> "Mixture":
    """Return the distribution of the shares of the clients `names` in a client's estimate."""
    from fedaudit.metrics.attribution.mixture import Mixture

    weight = weights.get(client, 1.0)
    return Mixture(
        weights=tuple(weights.get(name, 1.0) / weight for name in names),
        strength=round_scores.strength.get(client, 1.0),
        others=round_scores.others,
        pairs=round_scores.pairs,
        limit=round_scores.limit,
        rule=round_scores.rule(len(names) + 1),
    )
