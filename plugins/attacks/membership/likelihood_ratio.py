"""LiRA (Carlini et al. 2022): how the model stands among those of reference federations.

Online where every record of a comparison was in some of them and not in others; offline where it
was not in some. Both are measured where they can be, on the records of which they can.
"""

from collections.abc import Iterator, Mapping, Sequence

from fedaudit.api import AttackContext, Measurement
from fedaudit.metrics.privacy import likelihood_ratio
from fedaudit.metrics.privacy.likelihood_ratio import FEWEST

from .measurements import missing, roc_rows
from .scored_record import ScoredRecord

SCORE = "lira"
WAYS = {"online": likelihood_ratio.online_scores, "offline": likelihood_ratio.offline_scores}
LACK = {
    "online": (
        f"no records on one side were in {FEWEST} reference federations and out of {FEWEST} others"
    ),
    "offline": f"no records on one side were out of {FEWEST} reference federations",
}
"""Why a way has no numbers."""


def rows(
    case: AttackContext,
    inside: Sequence[ScoredRecord],
    outside: Sequence[ScoredRecord],
    at: Mapping[str, object],
    refusal: str,
) -> Iterator[Measurement]:
    """Yield area, balanced accuracy and rates of both ways; nothing without reference models."""
    if not case.references:
        return
    for way, score in WAYS.items():
        chosen = [
            [one for one in some if _fits(_sides(case, one), way)] for some in (inside, outside)
        ]
        scope = {
            "score": SCORE,
            "source": "tuned",
            **at,
            "members": len(chosen[0]),
            "others": len(chosen[1]),
            "estimator": way,
            "references": len(case.references),
        }
        if reason := refusal or ("" if all(chosen) else LACK[way]):
            yield missing("auc", scope, reason)
            continue
        every = [*chosen[0], *chosen[1]]
        found = score(
            [likelihood_ratio.confidence(one.tuned.log_probability) for one in every],
            [list(map(likelihood_ratio.confidence, one.references)) for one in every],
            [_sides(case, one) for one in every],
        ).tolist()
        yield from roc_rows(found[: len(chosen[0])], found[len(chosen[0]) :], scope)


def _sides(case: AttackContext, one: ScoredRecord) -> list[bool]:
    """Return which of the reference federations had a record."""
    return [one.document.text in reference.texts for reference in case.references]


def _fits(had: Sequence[bool], way: str) -> bool:
    """Tell whether there are enough models on the sides that a way takes."""
    inside = sum(had)
    return len(had) - inside >= FEWEST and (way == "offline" or inside >= FEWEST)
