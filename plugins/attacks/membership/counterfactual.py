"""Counterfactual memorization of records: what training without their client would have given."""

from collections.abc import Iterator, Sequence

from fedaudit.api import AttackContext, Estimate, Measurement
from fedaudit.metrics.significance import clustered_share

from .scored_record import ScoredRecord

KIND = "counterfactual"


def rows(
    plugin: str,
    case: AttackContext,
    members: Sequence[ScoredRecord],
    others: Sequence[ScoredRecord],
) -> Iterator[Measurement]:
    """Yield the mean memorization of members and of held-out records; nothing without a model.

    Held-out records are a control: nobody trained on them with or without the client.
    """
    if case.counterfactual is None:
        return
    for name, some in (("members", members), ("held-out", others)):
        values = [one.memorization() for one in some]
        groups = [one.document.group or one.document.id for one in some]
        low, high = clustered_share(values, groups, seed=case.seed)
        yield Measurement.mean(
            Estimate(sum(values) / len(values), low, high),
            len(some),
            kind=KIND,
            plugin=plugin,
            metric="counterfactual_memorization",
            scope={"of": name, "unit": "record", "without": case.without},
        )
