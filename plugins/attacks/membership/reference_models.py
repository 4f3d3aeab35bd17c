"""LiRA and RMIA: how the model stands among those of reference federations.

Each variant is measured on the records that allow it.
"""

from collections.abc import Callable, Iterator, Sequence

from fedaudit.api import Measurement
from fedaudit.metrics.privacy.reference_models import VARIANTS, Observations

from .measurements import Comparison, missing, roc_rows


def rows(compared: Comparison) -> Iterator[Measurement]:
    """Yield area, balanced accuracy and rates by variant; nothing without reference models."""
    context = compared.context
    if not context.references:
        return
    for variant in VARIANTS:
        seen = observe(compared, variant.of_text)
        seen = seen.select(variant.usable(seen.trained))
        others = int(seen.population.sum())
        members = len(seen.population) - others
        scope = {
            "score": variant.score,
            "source": "tuned",
            **compared.scope,
            "members": members,
            "others": others,
            "estimator": variant.estimator,
            "references": len(context.references),
        }
        if reason := compared.refusal or ("" if members and others else variant.missing_reason):
            yield missing("auc", scope, reason)
            continue
        scores = variant.of_records(seen).tolist()
        yield from roc_rows(scores[:members], scores[members:], scope, unread=compared.unread)


def observe(compared: Comparison, of_text: Callable[[Sequence[float]], float]) -> Observations:
    """Return what the models say of the members, then of the held-out records."""
    every = [*compared.inside, *compared.outside]
    return Observations.from_rows(
        [of_text(record.tuned.log_probability) for record in every],
        [[of_text(seen) for seen in record.references] for record in every],
        [
            [record.document.text in reference.texts for reference in compared.context.references]
            for record in every
        ],
        [False] * len(compared.inside) + [True] * len(compared.outside),
    )
