"""Counterfactual memorization of records: what training without their client would have given."""

from collections.abc import Iterator, Sequence

from fedaudit.api import AttackContext, Estimate, Measurement
from fedaudit.metrics.significance import clustered_share

from .scored_record import ScoredRecord

KIND = "counterfactual"


def rows(
    plugin: str,
    context: AttackContext,
    members: Sequence[ScoredRecord],
    nonmembers: Sequence[ScoredRecord],
) -> Iterator[Measurement]:
    """Yield the mean memorization of members and of held-out records; nothing without a model.

    Held-out records are a control: nobody trained on them with or without the client.
    """
    if context.counterfactual is None:
        return
    for name, records in (("members", members), ("held-out", nonmembers)):
        values = [record.memorization() for record in records]
        groups = [record.document.group or record.document.id for record in records]
        low, high = clustered_share(values, groups, seed=context.seed)
        yield Measurement.mean(
            Estimate(sum(values) / len(values), low, high),
            len(records),
            kind=KIND,
            plugin=plugin,
            metric="counterfactual_memorization",
            scope={"of": name, "unit": "record", "without": context.without},
        )
