"""The report's rows on exposure in bits, by multiplicity, with the exposure due to chance.

In scope, `times` is the number of copies of each secret that a client was given (0 for controls,
which nobody was given); `space` is the number of secrets among which each is ranked, including
itself; `estimator` is "exact" if these are all secrets, "sampled", or "extrapolated" from a sample.
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
"""The scored canaries of each model, by scope.source."""


def rows(scored: Scored, *, is_exact: bool, bits: float, seed: int) -> list[Measurement]:
    """Return the measurements of every model in `scored`, separately by multiplicity.

    `is_exact` says whether the references are the whole space, which has 2 ** `bits` secrets.
    `seed` seeds the bootstrap.
    """
    return [
        row
        for source, canaries in scored.items()
        for times in sorted({c.canary.times for c in canaries})
        for row in _rows(scored, source, times, is_exact=is_exact, bits=bits, seed=seed)
    ]


def exposure(canary: ScoredCanary) -> float:
    """Return a canary's exposure in bits, -log2 of the share of secrets at least as likely."""
    return canary_exposure.exact(canary.score, (*canary.references, canary.score))


def is_maximal(canary: ScoredCanary) -> bool:
    """Tell whether a canary is likelier than all its references."""
    return canary.score > max(canary.references)


def chance_exposure(size: int) -> float:
    """Return the mean exposure in bits of a secret whose rank among n = `size` is uniform.

    That is log2(n) - log2(n!) / n, which is 0 for n = 1 and less than log2(e) for any n.
    """
    return math.log2(size) - math.lgamma(size + 1) / (size * math.log(2))


def refuted_fits(scored: Iterable[ScoredCanary], level: float) -> int:
    """Return the number of canaries whose references do not follow the fitted distribution."""
    return sum(canary_exposure.fit_p_value(canary.references) <= level for canary in scored)


def _rows(
    scored: Scored, source: str, times: int, *, is_exact: bool, bits: float, seed: int
) -> Iterator[Measurement]:
    canaries = _filter_times(scored[source], times)
    base = _filter_times(scored[BASE], times) if source == TUNED and BASE in scored else []
    size = len(canaries[0].references) + 1
    scope: dict[str, object] = {
        "source": source,
        "times": times,
        "space": size,
        "estimator": EXACT if is_exact else SAMPLED,
    }
    values, before = list(map(exposure, canaries)), list(map(exposure, base))
    yield _mean(values, before, chance_exposure(size), scope, seed)
    yield Measurement.rate(
        sum(map(is_maximal, canaries)),
        len(canaries),
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
        n=len(canaries),
        scope=scope,
    )
    if not is_exact and size > FIT_FROM:
        fitted = [_extrapolated(canary, bits) for canary in canaries]
        fitted_base = [_extrapolated(canary, bits) for canary in base]
        chance = math.log2(math.e)
        yield _mean(fitted, fitted_base, chance, {**scope, "estimator": EXTRAPOLATED}, seed)


def _filter_times(canaries: Sequence[ScoredCanary], times: int) -> list[ScoredCanary]:
    return [c for c in canaries if c.canary.times == times]


def _extrapolated(canary: ScoredCanary, bits: float) -> float:
    """Return the exposure by the references' fitted distribution, at most `bits`."""
    return min(canary_exposure.fitted_exposure(canary.score, sorted(canary.references)), bits)


def _mean(
    values: Sequence[float],
    before: Sequence[float],
    chance: float,
    scope: Mapping[str, object],
    seed: int,
) -> Measurement:
    """Return the row of a mean exposure; it has no interval for a single secret."""
    estimate: Estimate = bootstrap_mean(values, seed=seed)
    is_single = len(values) < 2
    return Measurement(
        kind=KIND,
        plugin=PLUGIN,
        metric="exposure",
        value=estimate.value,
        low=None if is_single else estimate.low,
        high=None if is_single else estimate.high,
        n=len(values),
        chance=chance,
        baseline=sum(before) / len(before) if before else None,
        scope=scope,
    )
