"""LiRA (Carlini et al. 2022): how the model stands among those of reference federations.

The online variant needs records that some of them had and others had not; the offline variant
needs only the latter. Each is measured on the records that allow it.
"""

from collections.abc import Iterator, Mapping, Sequence

from fedaudit.api import AttackContext, Measurement
from fedaudit.metrics.privacy import likelihood_ratio
from fedaudit.metrics.privacy.likelihood_ratio import FEWEST

from .measurements import missing, roc_rows
from .scored_record import ScoredRecord

SCORE = "lira"
VARIANTS = {"online": likelihood_ratio.online_scores, "offline": likelihood_ratio.offline_scores}
MISSING_REASONS = {
    "online": (
        f"no records on one side were in {FEWEST} reference federations and out of {FEWEST} others"
    ),
    "offline": f"no records on one side were out of {FEWEST} reference federations",
}
"""Why a variant has no numbers."""


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
    for variant, score in VARIANTS.items():
        chosen = [
            [r for r in records if _has_enough_models(_sides(context, r), variant)]
            for records in (inside, outside)
        ]
        scope = {
            "score": SCORE,
            "source": "tuned",
            **shared_scope,
            "members": len(chosen[0]),
            "others": len(chosen[1]),
            "estimator": variant,
            "references": len(context.references),
        }
        if reason := refusal or ("" if all(chosen) else MISSING_REASONS[variant]):
            yield missing("auc", scope, reason)
            continue
        every = [*chosen[0], *chosen[1]]
        scores = score(
            [likelihood_ratio.confidence(record.tuned.log_probability) for record in every],
            [list(map(likelihood_ratio.confidence, record.references)) for record in every],
            [_sides(context, record) for record in every],
        ).tolist()
        yield from roc_rows(scores[: len(chosen[0])], scores[len(chosen[0]) :], scope)


def _sides(context: AttackContext, record: ScoredRecord) -> list[bool]:
    """Return for each reference federation whether it had a record."""
    return [record.document.text in reference.texts for reference in context.references]


def _has_enough_models(had: Sequence[bool], variant: str) -> bool:
    """Return whether enough models are on the sides that a variant needs."""
    inside = sum(had)
    return len(had) - inside >= FEWEST and (variant == "offline" or inside >= FEWEST)
