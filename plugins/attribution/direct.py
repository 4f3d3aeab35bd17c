"""Direct scoring (FedAttr, appendix F.4): every client's plaintext update, nothing subtracted.

    Z_i = (1 / sqrt(T_i)) * sum_t F(global_t + update_i,t)

over the T_i rounds that client i took part in, for every mark. What the global model already
carries counts against everybody who goes on from it: FedAttr finds 57 % of the innocent flagged.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import AttributionContext, AttributionResult, Attributor, ClientScore

from . import plaintext


@dataclass(frozen=True)
class Direct(Attributor):
    """Score every client's own update, without subtracting what the global model carries."""

    name: ClassVar[str] = "direct"

    def attribute(self, context: AttributionContext) -> AttributionResult:
        """Return each client's Z for the mark that speaks most against it."""
        scores = self._scores(context)
        return AttributionResult(
            clients=tuple(
                suspicion(client, scores[client], context.threshold) for client in scores
            ),
            limits=(
                plaintext.limit(self.name),
                f"{self.name}: what the global model carried before a round is not subtracted, so "
                "that later rounds raise everybody's score.",
            ),
        )

    def _scores(self, context: AttributionContext) -> dict[str, dict[str, list[float]]]:
        """Return the z of every round by client and mark; a round's adapters are asked together."""
        rounds = plaintext.readable_rounds(context.rounds, self.name)
        by_client: dict[str, dict[str, list[float]]] = {
            client: defaultdict(list) for client in plaintext.clients(context.rounds)
        }
        progress = context.progress("scoring clients' updates")
        for done, (record, read) in enumerate(rounds, start=1):
            folders = [context.write(record.start, read(client)) for client in record.participants]
            scored = context.measure(folders) if folders else []
            for client, scores in zip(record.participants, scored, strict=True):
                for mark, score in scores.items():
                    by_client[client][mark].append(score.z)
            progress(done, len(context.rounds))
        return by_client


def suspicion(client: str, scores: Mapping[str, Sequence[float]], threshold: float) -> ClientScore:
    """Return a client's largest Z over the marks, and the p-value of that mark alone."""
    from fedaudit.metrics.attribution.stouffer import p_value, stouffer_z

    if not scores:  # no one issued a mark
        return ClientScore(client=client, flagged=False)
    totals = {mark: stouffer_z(scores[mark]) for mark in sorted(scores)}
    mark = max(totals, key=lambda name: totals[name])
    z = totals[mark]
    return ClientScore(client=client, flagged=z > threshold, z=z, p_value=p_value(z), mark=mark)
