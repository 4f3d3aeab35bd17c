"""Which share of the members' records the model was trained on, as their owner asks it.

With reference federations it is estimated as DUCI does (Tong et al., ICLR 2025), from RMIA's
offline scores; without them there is a lower bound.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from fedaudit.api import Estimate, Measurement
from fedaudit.metrics.privacy import dataset_usage, rmia

from . import reference_models
from .measurements import NO_BASE, VERDICT_SCORE, Comparison, groups, judged_scores, missing, row
from .scored_record import ScoredRecord

METRIC = "usage"


def rows(compared: Comparison) -> Iterator[Measurement]:
    """Yield the bound, and with reference federations the estimate."""
    yield _bound(compared)
    if compared.context.references:
        yield _estimate(compared)


def _bound(compared: Comparison) -> Measurement:
    """Return the least share, of groups of records, that the model was surely trained on."""
    scope = {
        "score": VERDICT_SCORE,
        "source": "tuned",
        **compared.scope,
        "estimator": "lower bound",
    }
    sides = [_group_means(records) for records in (compared.inside, compared.outside)]
    if compared.refusal or not all(sides):
        return missing(METRIC, scope, compared.refusal or NO_BASE)
    claimed, control = sides
    least = dataset_usage.lower_bound(claimed, control) / len(claimed)
    scope |= {"groups": len(claimed), "beside": len(control)}
    return replace(row(METRIC, Estimate(least, least, 1.0), scope), n=len(claimed))


def _group_means(records: Sequence[ScoredRecord]) -> list[float]:
    """Return the mean score of each group of records; nothing where a record has no score."""
    scores = judged_scores(records)
    if scores is None:
        return []
    by_group: dict[str, list[float]] = {}
    for group, score in zip(groups(records), scores, strict=True):
        by_group.setdefault(group, []).append(score)
    return [fmean(values) for values in by_group.values()]


def _estimate(compared: Comparison) -> Measurement:
    """Return DUCI's estimate over the records that a reference federation lacked."""
    scope = {
        "score": "rmia",
        "source": "tuned",
        **compared.scope,
        "estimator": "duci",
        "references": len(compared.context.references),
    }
    if compared.refusal:
        return missing(METRIC, scope, compared.refusal)
    seen = reference_models.observe(compared, rmia.probability)
    try:
        share, n = dataset_usage.estimate(seen)
    except ValueError as error:
        return missing(METRIC, scope, str(error))
    return replace(row(METRIC, share, scope), n=n)
