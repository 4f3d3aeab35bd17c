"""How much of a mark clients may hide in each other's estimates, where the sets are unknown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedaudit.attribution.decision.mixtures import coefficient_mixture, other_participants
from fedaudit.attribution.scores import RoundScores, Scores

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fedaudit.metrics.attribution.marked_groups import Group


@dataclass(frozen=True, slots=True)
class HiddenMarks:
    """How likely groups of a federation's clients hide how much of a mark that they share."""

    scores: Scores
    found: "dict[Group, npt.NDArray[np.float64]]" = field(default_factory=dict)
    """Of the groups so far: most clients' Z are explained by the same ones."""

    def factor_probabilities(self, group: "Group") -> "npt.NDArray[np.float64]":
        """Return how likely the mark is worth each of FACTORS times what any member shows."""
        if group not in self.found:
            self.found[group] = self._factor_probabilities(group)
        return self.found[group]

    def _factor_probabilities(self, group: "Group") -> "npt.NDArray[np.float64]":
        import numpy as np

        from fedaudit.metrics.attribution.hidden_marks import factor_probabilities

        contents = []
        for member in group:
            rng = np.random.default_rng(0)  # a round's design says nothing about another's
            held = [
                rng.permutation(_content(r, member, group, self.scores.weights))
                for r in self.scores.rounds
                if member in r.clients
            ]
            least = min(map(len, held))
            contents.append(np.mean([drawn[:least] for drawn in held], axis=0))
        independent = all(r.rule(2) is None for r in self.scores.rounds)
        return factor_probabilities(contents, independent=independent)


def _content(
    round_scores: RoundScores, member: str, group: "Group", weights: Mapping[str, float]
) -> "npt.NDArray[np.float64]":
    """Return draws of how much of a group's mark a member's estimate holds, (draws,)."""
    import numpy as np

    names = other_participants(round_scores, member)
    draws = coefficient_mixture(round_scores, member, names, weights).draws()
    return np.asarray(1 + draws[:, [name in group for name in names]].sum(axis=1))
