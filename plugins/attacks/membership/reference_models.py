"""LiRA and RMIA: how the model stands among those of reference federations.

Each variant is measured on the records that allow it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from fedaudit.api import AttackContext, Measurement
from fedaudit.metrics.privacy.reference_models import VARIANTS, Observations

from .measurements import missing, roc_rows
from .scored_record import ScoredRecord


def rows(
    context: AttackContext,
    inside: Sequence[ScoredRecord],
    outside: Sequence[ScoredRecord],
    shared_scope: Mapping[str, object],
    refusal: str,
) -> Iterator[Measurement]:
    """Yield area, balanced accuracy and rates by variant; nothing without reference models."""
    if not context.references:
        return
    for variant in VARIANTS:
        seen = observe(context, inside, outside, variant.of_text)
        seen = seen.select(variant.usable(seen.trained))
        others = int(seen.population.sum())
        members = len(seen.population) - others
        scope = {
            "score": variant.score,
            "source": "tuned",
            **shared_scope,
            "members": members,
            "others": others,
            "estimator": variant.estimator,
            "references": len(context.references),
        }
        if reason := refusal or ("" if members and others else variant.missing_reason):
            yield missing("auc", scope, reason)
            continue
        scores = variant.of_records(seen).tolist()
        yield from roc_rows(scores[:members], scores[members:], scope)


def observe(
    context: AttackContext,
    inside: Sequence[ScoredRecord],
    outside: Sequence[ScoredRecord],
    of_text: Callable[[Sequence[float]], float],
) -> Observations:
    """Return what the models say of the members, then of the held-out records."""
    every = [*inside, *outside]
    return Observations.from_rows(
        [of_text(record.tuned.log_probability) for record in every],
        [[of_text(seen) for seen in record.references] for record in every],
        [
            [record.document.text in reference.texts for reference in context.references]
            for record in every
        ],
        [False] * len(inside) + [True] * len(outside),
    )
