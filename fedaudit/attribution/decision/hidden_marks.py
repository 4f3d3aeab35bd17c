"""How much of a mark clients may hide in each other's estimates, where the sets are unknown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedaudit.attribution.decision.mixtures import coefficient_mixture, other_participants
from fedaudit.attribution.scores import RoundScores

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fedaudit.metrics.attribution.marked_groups import Group


@dataclass(frozen=True, slots=True)
class HiddenMarks:
    """How likely groups of a federation's clients hide how much of a mark that they share."""

    weights: Mapping[str, float]
    found: "dict[tuple[int, Group], npt.NDArray[np.float64]]" = field(default_factory=dict)
    """Of the rounds and groups so far: most clients' Z are explained by the same ones."""

    def factor_probabilities(
        self, round_scores: RoundScores, group: "Group"
    ) -> "npt.NDArray[np.float64]":
        """Return how likely a marked update shows each of HIDING_FACTORS times what the group does.

        Of the members that took part in the round: others hide nothing in it.
        """
        present = tuple(sorted(name for name in group if name in round_scores.clients))
        if (key := (round_scores.round, present)) not in self.found:
            self.found[key] = self._factor_probabilities(round_scores, present)
        return self.found[key]

    def _factor_probabilities(
        self, round_scores: RoundScores, members: "Group"
    ) -> "npt.NDArray[np.float64]":
        import numpy as np

        from fedaudit.metrics.attribution.hidden_marks import factor_probabilities

        contents = [np.ones(1)]
        if len(members) > 1:
            contents = [self._content(round_scores, name, members) for name in members]
        return factor_probabilities(contents, independent=round_scores.rule(len(members)) is None)

    def _content(
        self, round_scores: RoundScores, member: str, members: "Group"
    ) -> "npt.NDArray[np.float64]":
        """Return draws of how much of the members' mark the estimate of one holds, (draws,)."""
        import numpy as np

        names = other_participants(round_scores, member)
        draws = coefficient_mixture(round_scores, member, names, self.weights).draws()
        return np.asarray(1 + draws[:, [name in members for name in names]].sum(axis=1))
