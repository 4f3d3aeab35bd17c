"""The report's rows on epsilon: the highest possible bound, the bounds, and both controls.

In scope, `source` is "tuned" for the audited federation, "noiseless" for the one trained without
noise, or "shuffled" for coins tossed anew. `judged` says whether the verdict rests on the row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from fedaudit.api.records import Measurement
from fedaudit.canaries import coin_file
from fedaudit.canaries.coin_file import CoinSet
from fedaudit.metrics.privacy import epsilon_audit
from fedaudit.metrics.privacy.epsilon_bounds import ClaimTest
from fedaudit.metrics.privacy.roc import auc

KIND, PLUGIN = "epsilon", "dp_audit"
TUNED, NOISELESS, SHUFFLED = "tuned", "noiseless", "shuffled"
DRAWS = 19
"""How often coins are tossed anew; the median of the bounds must be 0."""
UNIT, NEIGHBOURS = "one document of one client", "add or remove one"
PUBLIC = "the number of records and every setting of the training"
HYPOTHESES = {
    "f_dp": "the Gaussian mechanism of the claimed epsilon and delta",
    "one_run": "any mechanism of the claimed epsilon and delta",
}
Scores = Mapping[str, Sequence[float]]
"""The scores of the canaries, by the attacker's position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedClaim:
    """A claim, and the scores of the canaries, by scope.source and position."""

    coins: CoinSet
    epsilon: float
    scores: Mapping[str, Scores] = field(default_factory=dict)
    seed: int = 0

    @property
    def level(self) -> float:
        """The significance level of one position; all positions together have the file's level."""
        return self.coins.level / len(self.coins.positions)


def rows(claim: AuditedClaim) -> Iterator[Measurement]:
    """Yield the highest possible bounds, then the bounds of every source, position and test."""
    for estimator, test in epsilon_audit.ESTIMATORS.items():
        yield _row(claim, "epsilon_cap", cap(claim, test), _scope(claim, estimator))
    for source, scores in claim.scores.items():
        for position, values in scores.items():
            yield from _of_position(claim, source, position, values)


def cap(claim: AuditedClaim, test: ClaimTest) -> float:
    """Return the highest bound that so many canaries can prove, if every guess is right."""
    coins = claim.coins
    return epsilon_audit.highest_bound(
        len(coins.canaries), shares=coins.shares, delta=coins.delta, level=claim.level, test=test
    )


def _of_position(
    claim: AuditedClaim, source: str, position: str, values: Sequence[float]
) -> Iterator[Measurement]:
    coins = claim.coins
    for estimator, test in epsilon_audit.ESTIMATORS.items():
        scope = {**_scope(claim, estimator), "source": source, "position": position}
        bound = epsilon_audit.bound(
            values,
            coins.coins,
            shares=coins.shares,
            delta=coins.delta,
            level=claim.level,
            test=test,
        )
        guesses = {"guesses": bound.guesses.guessed, "correct": bound.guesses.correct}
        yield _row(claim, "epsilon_low", bound.value, {**scope, **guesses})
        if source == TUNED:
            tossed = epsilon_audit.shuffled_bounds(
                values, coins.coins, shares=coins.shares, delta=coins.delta, level=claim.level,
                test=test, seed=claim.seed, draws=DRAWS,
            )  # fmt: skip
            anew = {**scope, "source": SHUFFLED, "draws": DRAWS}
            yield _row(claim, "epsilon_low", median(tossed), anew)
    groups = [[v for v, coin in zip(values, coins.coins, strict=True) if coin == side]
            for side in (True, False)]  # fmt: skip
    yield Measurement.mean(
        auc(*groups),
        len(values),
        kind=KIND,
        plugin=PLUGIN,
        metric="auc",
        scope={"source": source, "position": position, "client": coins.client},
        chance=0.5,
    )


def _scope(claim: AuditedClaim, estimator: str) -> dict[str, object]:
    """Return the scope of a bound: the claim's unit and neighbours, the test and its rule."""
    coins = claim.coins
    shares = " or ".join(f"{share:g}" for share in coins.shares)
    return {
        "client": coins.client,
        "delta": coins.delta,
        "p": claim.level,
        "estimator": estimator,
        "hypothesis": HYPOTHESES[estimator],
        "judged": estimator == coins.estimator,
        "unit": UNIT,
        "neighbouring": NEIGHBOURS,
        "public": PUBLIC,
        "canaries": len(coins.canaries),
        "rule": f"the {shares} of the canaries with the highest and lowest scores",
        "commitment": coin_file.commitment(coins),
    }


def _row(
    claim: AuditedClaim, metric: str, value: float, scope: Mapping[str, object]
) -> Measurement:
    return Measurement(
        kind=KIND,
        plugin=PLUGIN,
        metric=metric,
        value=value,
        n=len(claim.coins.canaries),
        baseline=claim.epsilon,
        scope=scope,
    )
