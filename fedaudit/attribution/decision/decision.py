"""The decision: each client's scores of all rounds as one statistic, and who is flagged by it.

A client's null hypothesis is that it is innocent and that the others are as observed: its Z then
comes from chance, and from marked clients' updates in its estimates.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nextafter

from fedaudit.api.errors import UsageError
from fedaudit.attribution.decision.contamination import ClientMark, Shares
from fedaudit.attribution.decision.null_distribution import NullDistribution, innocent_distributions
from fedaudit.attribution.scores import Scores, empty_rounds, score_differences
from fedaudit.metrics.attribution import stouffer

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


@dataclass(frozen=True, slots=True)
class FlagCounts:
    """How many of the marked and of the innocent clients are flagged."""

    true_positives: int
    positives: int
    false_positives: int
    negatives: int


def count_flags(
    flagged: Mapping[str, Collection[str]], present: Sequence[str], truth: Mapping[str, str]
) -> FlagCounts:
    """Return how many marked and innocent clients took part, and how many of them were flagged.

    `truth` has each client's true mark; `flagged` has the marks that flag each client, where ""
    stands for any. A client that is flagged only by another client's mark is not a true positive.
    """
    positives = [client for client in present if truth.get(client)]
    negatives = [client for client in present if not truth.get(client)]
    return FlagCounts(
        true_positives=sum(
            bool({truth[client], ""} & set(flagged.get(client, ()))) for client in positives
        ),
        positives=len(positives),
        false_positives=sum(client in flagged for client in negatives),
        negatives=len(negatives),
    )
