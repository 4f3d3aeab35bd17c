"""The decision: each client's scores of all rounds as one statistic, and who is flagged by it.

A client's null hypothesis is that it is innocent and that the others are as observed: its Z then
comes from chance, and from marked clients' updates in its estimates.

The paper takes an innocent client's scores as standard normal and independent. They are neither if
models answer much the same in every round: a key that happens to suit a client's answers suits them
each time. Also, a score is a difference of two z, with up to twice the variance of one. Scores
under null marks repeat and differ in the same way, so they show how far Z may go by chance. They do
not show the effect of other clients' marked documents: see `metrics.attribution.contamination` and,
where the sets are known, `metrics.attribution.known_contamination`.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite, nextafter

import numpy as np
import numpy.typing as npt

from fedaudit.api.errors import UsageError
from fedaudit.attribution.decision.contamination import (
    ClientMark,
    Shares,
    client_leak_distributions,
    contamination_hypotheses,
)
from fedaudit.attribution.scores import Scores, empty_rounds, score_differences
from fedaudit.metrics.attribution import stouffer
from fedaudit.metrics.attribution.contamination import EARLIEST_RESPONSE, TEST_RESPONSES
from fedaudit.metrics.attribution.known_contamination import ContaminationHypotheses
from fedaudit.metrics.attribution.leak_distribution import LeakDistribution
from fedaudit.metrics.attribution.marked_groups import MarkEvidence


@dataclass(frozen=True)
class NullDistribution:
    """The null distribution of Z, from score differences under null marks, (rounds, null marks).

    Without null marks, Z by chance is taken as standard normal, as in the paper.
    """

    null: Sequence[Sequence[float]] | npt.NDArray[np.float64]
    leak_distributions: Sequence[LeakDistribution | ContaminationHypotheses] = ()
    """What other clients may add to Z: each is tried, and the one with the largest p counts."""
    without_sets: Sequence[LeakDistribution] = ()
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
    def null_marks_z(self) -> npt.NDArray[np.float64]:
        """Z of each null mark."""
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
        self, leaks: Sequence[LeakDistribution | ContaminationHypotheses], z: float
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
    test, is not evidence about tails.
    """
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
    evidence_by_mark: Mapping[str, Mapping[str, MarkEvidence]],
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
        degrees_by_client = {
            client: chance.degrees_of_freedom
            for (client, name), chance in chances.items()
            if name == mark
        }
        hypotheses = contamination_hypotheses(
            scores, mark, evidence_by_mark[mark], degrees_by_client, shares, error
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
) -> dict[str, dict[str, MarkEvidence]]:
    """Return, by mark, the evidence that each client shows it."""
    evidence_by_mark: dict[str, dict[str, MarkEvidence]] = {mark: {} for _, mark in z}
    for (client, mark), z_value in z.items():
        rounds = sum(client in r.clients for r in scores.rounds)
        evidence_by_mark[mark][client] = MarkEvidence(z_value, chances[client, mark].spread, rounds)
    return evidence_by_mark


ALPHA = 0.01
"""The chance that any innocent client of a federation is flagged."""
OMITTED_GROUPS_ALPHA_SHARE = 0.1
"""The share of alpha that is spent on leaving out groups of marked clients, if sets are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientVerdict:
    """Whether one client is flagged by one mark, and why."""

    z: float
    chance: NullDistribution
    p_value: float
    """The probability that an innocent client has a Z this high."""
    level: float
    """The level that Holm's procedure compares the p-value with."""
    flagged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDecision:
    """The test of one client for one mark, with its result."""

    client: str
    mark: str
    scores: tuple[float, ...]
    """The score s of each round that the client took part in."""
    rounds: tuple[int, ...]
    z: float
    needed: float
    """What Z must exceed for the client to be flagged."""
    spread: float
    """The standard deviation of Z by chance."""
    nulls: int
    """The number of null marks that Z is compared with; 0 if Z is taken as standard normal."""
    p_value: float
    """The probability that an innocent client has a Z this high."""
    adjusted: float
    """The p-value after Holm, over all clients and marks."""
    published: bool
    """Whether the paper's rule, Z above the threshold, flags it."""
    flagged: bool
    running_z: tuple[float, ...]
    """Z after each of its rounds."""
    settled_round: int | None
    """The round after which testing could have stopped at the stated error; None if none."""
    tail_degrees: float = inf
    """The degrees of freedom of Student's t that fit the tails of null marks' Z; inf for normal."""
    empty_rounds: tuple[int, ...] = ()
    """Rounds with nothing to test: if there are any, the client has no Z and is not flagged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The tests of all clients that took part, for all marks, and the clients that never did."""

    tests: tuple[ClientDecision, ...]
    absent: tuple[str, ...] = ()

    def strongest_test(self, client: str) -> ClientDecision | None:
        """Return the strongest test against a client among those that had something to test."""
        tests = [t for t in self.tests if t.client == client and not t.empty_rounds]
        return max(tests, key=lambda t: (t.flagged, -t.p_value, t.z), default=None)

    @property
    def marks(self) -> dict[str, set[str]]:
        """The marks that each flagged client is flagged by."""
        marks: dict[str, set[str]] = {}
        for test in self.tests:
            if test.flagged:
                marks.setdefault(test.client, set()).add(test.mark)
        return marks

    @property
    def flagged(self) -> dict[str, ClientDecision]:
        """The clients that are decided to have trained on marked documents."""
        tests = {t.client: self.strongest_test(t.client) for t in self.tests}
        return {client: t for client, t in tests.items() if t and t.flagged}


def check_limits(threshold: float, alpha: float) -> None:
    """Raise UsageError unless `threshold` is a number of at least 0 and `alpha` is in 0..0.5."""
    if not (isfinite(threshold) and threshold >= 0):
        raise UsageError(f"The threshold tau must be a finite number from 0 on, not {threshold}.")
    if not 0 < alpha < 0.5:
        raise UsageError(f"The error alpha must lie between 0 and 0.5, not {alpha}.")


def verdicts(
    scores: Scores,
    *,
    threshold: float = stouffer.THRESHOLD,
    alpha: float = ALPHA,
    up_to: float = 1.0,
    shares: Shares | None = None,
    unopened: int = 0,
) -> dict[ClientMark, ClientVerdict]:
    """Return the verdict of `decide` on each client and mark, without the fields for a report.

    Each of the `unopened` marks counts as a test of every client, whatever its result would be.
    p-values above `up_to` (at least `alpha`) are only bounded from below, which is faster and flags
    the same clients.
    """
    check_limits(threshold, alpha)
    pairs = [(client, mark) for client in _present(scores) for mark in scores.marks]
    z = {
        pair: stouffer.stouffer_z(list(score_differences(scores, *pair).values())) for pair in pairs
    }
    further = unopened * len(_present(scores))
    error = alpha * OMITTED_GROUPS_ALPHA_SHARE / max(1, len(pairs) + further)
    chances = innocent_distributions(scores, z, up_to=max(up_to, alpha), shares=shares, error=error)
    p = [chances[pair].p_value(z[pair]) for pair in pairs]
    return {
        pair: ClientVerdict(
            z=z[pair],
            chance=chances[pair],
            p_value=p_value,
            level=level,
            flagged=z[pair] > chances[pair].floor(threshold) and p_value <= level,
        )
        for pair, p_value, level in zip(
            pairs, p, stouffer.holm_levels(p, alpha, further), strict=True
        )
    }


def decide(
    scores: Scores,
    *,
    threshold: float = stouffer.THRESHOLD,
    alpha: float = ALPHA,
    shares: Shares | None = None,
    unopened: int = 0,
) -> Decision:
    """Return the decision: a client is flagged if Holm's adjusted p-value and Z both say so.

    The adjusted p-value must be at most `alpha`; Z must exceed `threshold`, and `threshold` times
    its standard deviation by chance. If p-values are right, the probability that any innocent
    client of a federation is flagged is then at most `alpha`, for any number of clients and marks.
    `alpha` is also the error at which a client's running Z has settled, for all clients and marks
    together, however often one looks. Each of the `unopened` marks, of which nothing is known,
    counts as a test of every client, because an owner with more keys than are shown may have chosen
    among them. Raises ValueError for scores that are not finite, UsageError for what `check_limits`
    refuses.
    """
    by_pair = verdicts(scores, threshold=threshold, alpha=alpha, shares=shares, unopened=unopened)
    further = unopened * len(_present(scores))
    adjusted = stouffer.holm([v.p_value for v in by_pair.values()], further)
    single_level = alpha / max(1, len(by_pair) + further)
    tests = []
    for ((client, mark), verdict), holm in zip(by_pair.items(), adjusted, strict=True):
        by_round, chance = score_differences(scores, client, mark), verdict.chance
        least = chance.critical_value(verdict.level, threshold)
        empty = empty_rounds(scores, client, mark)
        tests.append(
            ClientDecision(
                client=client,
                mark=mark,
                scores=tuple(by_round.values()),
                rounds=tuple(by_round),
                z=verdict.z,
                needed=_needed_z(least, verdict.z, flagged=verdict.flagged),
                spread=chance.spread,
                nulls=chance.marks,
                tail_degrees=chance.tail_degrees,
                p_value=verdict.p_value,
                adjusted=holm,
                published=verdict.z > threshold,
                flagged=verdict.flagged and not empty,
                running_z=tuple(stouffer.running_z(list(by_round.values()))),
                settled_round=_stopping_round(by_round, chance, single_level),
                empty_rounds=empty,
            )
        )
    present = _present(scores)
    return Decision(
        tests=tuple(tests),
        absent=tuple(client for client in scores.clients if client not in present),
    )


def _present(scores: Scores) -> list[str]:
    """Return the clients that took part in any round."""
    return [client for client in scores.clients if any(client in r.clients for r in scores.rounds)]


def _needed_z(least: float, z: float, *, flagged: bool) -> float:
    """Return what Z must exceed: `least`, kept on the side of Z that agrees with `flagged`.

    `least` is found by a numerical search, which may end on the wrong side.
    """
    return min(least, nextafter(z, -inf)) if flagged else max(least, z)


def _stopping_round(
    scores: Mapping[int, float], chance: NullDistribution, alpha: float
) -> int | None:
    count = stouffer.stopping_round(chance.standard(list(scores.values())), alpha)
    return None if count is None else list(scores)[count - 1]


def count_flags(
    flagged: Mapping[str, Collection[str]], present: Sequence[str], truth: Mapping[str, str]
) -> dict[str, tuple[int, int]]:
    """Return how many of the marked ("tpr") and of the innocent ("fpr") clients are flagged.

    Each count comes with the number of such clients among those `present`. `truth` has each
    client's true mark; `flagged` has the marks that flag each client, where "" stands for any. A
    client that is flagged only by another client's mark is not a true positive.
    """
    marked = [client for client in present if truth.get(client)]
    innocent = [client for client in present if not truth.get(client)]
    found = sum(bool({truth[client], ""} & set(flagged.get(client, ()))) for client in marked)
    return {
        "tpr": (found, len(marked)),
        "fpr": (sum(client in flagged for client in innocent), len(innocent)),
    }
