"""The rows of a report: exposure by multiplicity, and what chance gives.

Exposure is in bits. Of scope, `times` is how many copies a client was given of each secret (0: the
controls, which nobody was given), `space` among how many secrets each is ranked, itself included,
and `estimator` "exact", where these are all, "sampled", or "extrapolated" from a sample.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fedaudit.api.estimates import Estimate
from fedaudit.api.records import Measurement
from fedaudit.canaries.ranking import ScoredCanary
from fedaudit.metrics.intervals import bootstrap_mean
from fedaudit.metrics.privacy import canary_exposure

KIND, PLUGIN = "exposure", "canary"
TUNED, BASE = "tuned", "base"
FIT_FROM = canary_exposure.FIT_FROM
EXACT, SAMPLED, EXTRAPOLATED = "exact", "sampled", "extrapolated"

Scored = Mapping[str, Sequence[ScoredCanary]]
"""All canaries as each model has them, by scope.source."""


def rows(scored: Scored, *, whole: bool, bits: float, seed: int) -> list[Measurement]:
    """Return the measurements of every model, the base's first, each multiplicity for itself.

    `whole` says whether the references are the whole space, whose size is 2 to the power of `bits`;
    `seed` is that of the bootstrap.
    """
    return [
        row
        for source, some in scored.items()
        for times in sorted({one.canary.times for one in some})
        for row in _rows(scored, source, times, whole=whole, bits=bits, seed=seed)
    ]


def exposure(one: ScoredCanary) -> float:
    """Return a canary's exposure in bits: the log of the share that is at least as likely."""
    return canary_exposure.exact(one.score, (*one.references, one.score))


def is_maximal(one: ScoredCanary) -> bool:
    """Tell whether a canary is likelier than everything that it is ranked among."""
    return one.score > max(one.references)


def chance_exposure(size: int) -> float:
    """Return the mean exposure in bits of a secret whose rank among `size` is drawn uniformly.

    That is log2(n) - log2(n!) / n: 0 for one secret, and less than log2(e) for any number.
    """
    return math.log2(size) - math.lgamma(size + 1) / (size * math.log(2))


def refuted_fits(scored: Iterable[ScoredCanary], level: float) -> int:
    """Return of how many canaries the references are not as the fitted law has them."""
    return sum(canary_exposure.fit_p_value(one.references) <= level for one in scored)


def _rows(
    scored: Scored, source: str, times: int, *, whole: bool, bits: float, seed: int
) -> Iterator[Measurement]:
    some = _of(scored[source], times)
    base = _of(scored[BASE], times) if source == TUNED and BASE in scored else []
    size = len(some[0].references) + 1
    scope: dict[str, object] = {
        "source": source,
        "times": times,
        "space": size,
        "estimator": EXACT if whole else SAMPLED,
    }
    values, before = list(map(exposure, some)), list(map(exposure, base))
    yield _mean(values, before, chance_exposure(size), scope, seed)
    yield Measurement.rate(
        sum(map(is_maximal, some)),
        len(some),
        kind=KIND,
        plugin=PLUGIN,
        metric="maximal_exposure",
        scope=scope,
        chance=1 / size,
        baseline=sum(map(is_maximal, base)) / len(base) if base else None,
    )
    yield Measurement(
        kind=KIND,
        plugin=PLUGIN,
        metric="p_value",
        value=canary_exposure.chance_p_value(values, size),
        n=len(some),
        scope=scope,
    )
    if not whole and size > FIT_FROM:
        fitted = [_extrapolated(one, bits) for one in some]
        fitted_base = [_extrapolated(one, bits) for one in base]
        chance = math.log2(math.e)
        yield _mean(fitted, fitted_base, chance, {**scope, "estimator": EXTRAPOLATED}, seed)


def _of(some: Sequence[ScoredCanary], times: int) -> list[ScoredCanary]:
    return [one for one in some if one.canary.times == times]


def _extrapolated(one: ScoredCanary, bits: float) -> float:
    """Return the exposure by the references' fitted law, which ends at the space's size."""
    return min(canary_exposure.fitted_exposure(one.score, sorted(one.references)), bits)


def _mean(
    values: Sequence[float],
    before: Sequence[float],
    chance: float,
    scope: Mapping[str, object],
    seed: int,
) -> Measurement:
    """Return the row of a mean exposure; of a single secret it has no interval."""
    found: Estimate = bootstrap_mean(values, seed=seed)
    alone = len(values) < 2
    return Measurement(
        kind=KIND,
        plugin=PLUGIN,
        metric="exposure",
        value=found.value,
        low=None if alone else found.low,
        high=None if alone else found.high,
        n=len(values),
        chance=chance,
        baseline=sum(before) / len(before) if before else None,
        scope=scope,
    )
