"""The null distribution of an innocent client's Z: chance, and marked clients' updates.

The paper takes an innocent client's scores as standard normal and independent. They are neither if
models answer much the same in every round: a key that happens to suit a client's answers suits them
each time. Also, a score is a difference of two z, with up to twice the variance of one. Scores
under null marks repeat and differ in the same way, so they show how far Z may go by chance. They do
not show the effect of other clients' marked documents: see `metrics.attribution.contamination` and,
where the sets are known, `metrics.attribution.known_contamination`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from fedaudit.attribution.decision.contamination import (
    ClientMark,
    Shares,
    client_leak_distributions,
    contamination_hypotheses,
)
from fedaudit.attribution.scores import Scores
from fedaudit.metrics.attribution import stouffer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fedaudit.metrics.attribution.known_contamination import ContaminationHypotheses
    from fedaudit.metrics.attribution.leak_distribution import LeakDistribution
    from fedaudit.metrics.attribution.marked_groups import MarkEvidence


@dataclass(frozen=True)
class NullDistribution:
    """The null distribution of Z, from score differences under null marks, (rounds, null marks).

    Without null marks, Z by chance is taken as standard normal, as in the paper.
    """

    null: "Sequence[Sequence[float]] | npt.NDArray[np.float64]"
    leak_distributions: "Sequence[LeakDistribution | ContaminationHypotheses]" = ()
    """What other clients may add to Z: each is tried, and the one with the largest p counts."""
    without_sets: "Sequence[LeakDistribution]" = ()
    """The same computed without knowledge of the sets, for a second test beside the first."""
    tail_degrees: float = math.inf
    """The degrees of freedom that fit the tails of null marks' Z over all clients."""

    @property
    def marks(self) -> int:
        """The number of null marks."""
        return len(self.null[0]) if len(self.null) else 0

    @property
    def degrees_of_freedom(self) -> float:
        """The degrees of freedom of Student's t for Z by chance; 0 for the standard normal."""
        if not self.marks:
            return 0
        return min(self.marks, self.tail_degrees, stouffer.supported_degrees(self.marks))

    @cached_property
    def spread(self) -> float:
        """The standard deviation of Z by chance, at least 1."""
        return max(1.0, stouffer.null_spread(self.null)) if len(self.null) else 1.0

    @property
    def null_marks_z(self) -> "npt.NDArray[np.float64]":
        """Z of each null mark."""
        import numpy as np

        total = np.asarray(self.null, dtype=np.float64).sum(axis=0)
        return np.asarray(total / math.sqrt(len(self.null)))

    def p_value(self, z: float) -> float:
        """Return how often an innocent client's Z is at least `z`, or an upper bound on that.

        Below what the null marks support, it is no less than with the heaviest tails considered.
        """
        p = self.extrapolated_p_value(z)
        if not self.marks:
            return p
        heaviest = stouffer.null_p_value(z, self.spread, stouffer.HEAVIEST)
        return max(p, min(stouffer.supported_p_value(self.marks), heaviest))

    def extrapolated_p_value(self, z: float) -> float:
        """Return `p_value` without the bound of what the null marks support."""
        if self.leak_distributions:
            p = self._largest_tail(self.leak_distributions, z)
            if self.without_sets:  # the smaller one of two p-values, by Bonferroni
                p = min(1.0, 2 * min(p, self._largest_tail(self.without_sets, z)))
            return p
        if len(self.null):
            return stouffer.null_p_value(z, self.spread, self.degrees_of_freedom)
        return stouffer.p_value(z)

    def _largest_tail(
        self, leaks: "Sequence[LeakDistribution | ContaminationHypotheses]", z: float
    ) -> float:
        return max(
            leak.tail_probability(z / self.spread, self.degrees_of_freedom) for leak in leaks
        )

    def critical_value(self, level: float, threshold: float) -> float:
        """Return what Z must exceed for a p-value of `level`; never less than `floor`."""
        low = self.floor(threshold)
        if self.p_value(low) <= level:
            return low
        high = low + self.spread
        while self.p_value(high) > level:
            high += 2 * (high - low)
        return _crossing(self.p_value, low, high, level)

    def floor(self, threshold: float) -> float:
        """Return `threshold` times the standard deviation of Z by chance, at least `threshold`."""
        return max(threshold, threshold * self.spread)

    def standard(self, scores: Sequence[float]) -> list[float]:
        """Return Z after each round, as the standard normal quantile of the same p-value.

        Only chance is considered, not other clients' marked documents. The tails are those of all
        rounds together, and without the bound of what null marks support.
        """
        running = stouffer.running_z(scores)
        if not len(self.null):
            return running
        upto = (
            NullDistribution(self.null[: count + 1], tail_degrees=self.tail_degrees)
            for count in range(len(running))
        )
        return [
            stouffer.normal_quantile(chance.extrapolated_p_value(z))
            for chance, z in zip(upto, running, strict=True)
        ]


def _crossing(p_value: Callable[[float], float], low: float, high: float, level: float) -> float:
    """Return the point between `low` and `high` at which a falling p-value equals `level`."""
    from scipy.optimize import brentq

    return float(brentq(lambda z: math.log(p_value(z) / level), low, high, xtol=1e-6))


def null_distributions(
    scores: Scores, pairs: Iterable[ClientMark]
) -> dict[ClientMark, NullDistribution]:
    """Return the distribution of each pair's Z by chance alone, from its own null marks.

    The tails are estimated over all the clients named.
    """
    import numpy as np

    before = {
        mark: np.array([r.reference[mark].null for r in scores.rounds], dtype=np.float64)
        for mark in scores.marks
    }
    chances = {}
    for client, mark in pairs:
        indices = [i for i, r in enumerate(scores.rounds) if client in r.clients]
        null = np.array(
            [scores.rounds[i].clients[client][mark].null for i in indices], dtype=np.float64
        )
        chances[client, mark] = NullDistribution(null - before[mark][indices] if null.size else ())
    return _with_tails(chances)


def _with_tails(
    chances: Mapping[ClientMark, NullDistribution],
) -> dict[ClientMark, NullDistribution]:
    """Return the distributions with tails fitted, for each mark, to null marks' Z of all clients.

    A client whose scores are 0 under every null mark, for example because there was nothing to
    test, is no evidence about tails.
    """
    import numpy as np

    standardized: dict[str, list[npt.NDArray[np.float64]]] = {}
    for (_, mark), chance in chances.items():
        if np.any(chance.null):
            standardized.setdefault(mark, []).append(chance.null_marks_z / chance.spread)
    degrees = {
        mark: stouffer.estimate_degrees_of_freedom(np.array(z)) for mark, z in standardized.items()
    }
    return {
        (client, mark): replace(chance, tail_degrees=degrees.get(mark, math.inf))
        for (client, mark), chance in chances.items()
    }


def innocent_distributions(
    scores: Scores,
    z: Mapping[ClientMark, float],
    *,
    up_to: float = 1.0,
    shares: Shares | None = None,
    error: float = 0.0,
) -> dict[ClientMark, NullDistribution]:
    """Return each pair's distribution of Z if its client is innocent, the others as observed.

    Once a pair's p-value exceeds `up_to`, by chance alone or with one of the leak distributions,
    further ones are not computed: they could only raise it. `shares` are the shares of other
    clients in estimates, where the sets are known; then `error` is the chance that the explanation
    of a Z is left out.
    """
    chances = null_distributions(scores, z)
    evidence_by_mark = _shown_marks(scores, z, chances)
    pairs, second = list(z), set[ClientMark]()
    if shares is not None:
        pairs, second = _add_known_leaks(
            chances, scores, z, evidence_by_mark, shares, error=error, up_to=up_to
        )
    from fedaudit.metrics.attribution.contamination import EARLIEST_RESPONSE, TEST_RESPONSES

    before = dict(chances)
    for responses in (EARLIEST_RESPONSE, TEST_RESPONSES) if up_to < 1 else (TEST_RESPONSES,):
        untried = {pair for pair in second if not chances[pair].without_sets}
        pairs = [p for p in pairs if p in untried or chances[p].p_value(z[p]) <= up_to]
        for client in dict.fromkeys(client for client, _ in pairs):
            marks = {mark: evidence_by_mark[mark] for name, mark in pairs if name == client}
            leaks_by_mark = client_leak_distributions(scores, client, marks, responses)
            for mark, leaks in leaks_by_mark.items():
                chance = before[client, mark]
                if (client, mark) in second:
                    chances[client, mark] = replace(chance, without_sets=leaks)
                else:
                    every = (*chance.leak_distributions, *leaks)
                    chances[client, mark] = replace(chance, leak_distributions=every)
    return chances


def _add_known_leaks(
    chances: dict[ClientMark, NullDistribution],
    scores: Scores,
    z: Mapping[ClientMark, float],
    evidence_by_mark: "Mapping[str, Mapping[str, MarkEvidence]]",
    shares: Shares,
    *,
    error: float,
    up_to: float,
) -> tuple[list[ClientMark], set[ClientMark]]:
    """Add what other clients may contribute to Z where the sets are known.

    Return the pairs that must also be tested without the sets, and those among them for which this
    is a second test. If too many clients may be marked to try every group, the right group may be
    missing, so the explanation without the sets must be tried as well. In a single round the sets
    carry so little information that either test may find what the other does not.
    """
    left_open: list[ClientMark] = []
    second: set[ClientMark] = set()
    worth = [pair for pair in z if chances[pair].p_value(z[pair]) <= up_to]
    for mark in dict.fromkeys(mark for _, mark in worth):
        hypotheses = contamination_hypotheses(
            scores, mark, evidence_by_mark[mark], _degrees_of_freedom(chances, mark), shares, error
        )
        for client, leak, complete in hypotheses:
            if (client, mark) in worth:
                chances[client, mark] = replace(chances[client, mark], leak_distributions=(leak,))
                single = complete and evidence_by_mark[mark][client].rounds == 1
                second |= {(client, mark)} if single else set()
                left_open += [(client, mark)] * (single or not complete)
    return left_open, second


def _shown_marks(
    scores: Scores, z: Mapping[ClientMark, float], chances: Mapping[ClientMark, NullDistribution]
) -> "dict[str, dict[str, MarkEvidence]]":
    """Return, by mark, the evidence that each client shows it."""
    from fedaudit.metrics.attribution.marked_groups import MarkEvidence

    evidence_by_mark: dict[str, dict[str, MarkEvidence]] = {mark: {} for _, mark in z}
    for (client, mark), z_value in z.items():
        rounds = sum(client in r.clients for r in scores.rounds)
        evidence_by_mark[mark][client] = MarkEvidence(z_value, chances[client, mark].spread, rounds)
    return evidence_by_mark


def _degrees_of_freedom(
    chances: Mapping[ClientMark, NullDistribution], mark: str
) -> dict[str, float]:
    return {
        client: chance.degrees_of_freedom
        for (client, name), chance in chances.items()
        if name == mark
    }
