"""What the sequence of global models shows beyond the last one, where a client trained in some."""

from collections.abc import Iterator, Mapping, Sequence

from fedaudit.api import AttackContext, Measurement
from fedaudit.metrics.privacy.round_changes import round_scores

from .measurements import NO_BASE, missing, roc_rows, tested_rows
from .scored_record import ScoredRecord

SCORE = "rounds"


def rows(
    context: AttackContext,
    inside: Sequence[ScoredRecord],
    outside: Sequence[ScoredRecord],
    shared_scope: Mapping[str, object],
    refusal: str,
) -> Iterator[Measurement]:
    """Yield area, rates and p values; nothing for a client that trained in every round.

    Such a client leaves more in the last model than in those before.
    """
    if not context.took_part:
        return
    took_part = list(context.took_part.values())
    scope = {
        "score": SCORE,
        "source": "tuned",
        **shared_scope,
        "rounds": len(took_part),
        "took_part": sum(took_part),
    }
    if reason := refusal or ("" if context.base else NO_BASE):
        yield missing("auc", scope, reason)
        return
    scores = round_scores([record.gains() for record in (*inside, *outside)], took_part)
    members, others = scores[: len(inside)], scores[len(inside) :]
    yield from roc_rows(members, others, scope)
    yield from tested_rows(context, (members, others), (inside, outside), scope)
