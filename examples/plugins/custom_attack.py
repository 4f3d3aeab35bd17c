"""An attack with a kind of its own: `fedaudit audit RUN --attack pairs`."""

from dataclasses import dataclass
from typing import ClassVar

from custom_kind import Order

from fedaudit.api import Attack, AttackContext, Cost, Counts, Kind, Measurement, Result, hookimpl


@dataclass(frozen=True, kw_only=True)
class Pairs(Attack):
    """Ask whether records are likelier in the order of their file than the other way round."""

    name: ClassVar[str] = "pairs"
    paper: ClassVar[str] = "Oren et al. 2023, arXiv:2310.17623"
    kinds: ClassVar[tuple[type[Kind], ...]] = (Order,)

    between: str = "\n"
    """What stands between two records."""

    def cost(self, counts: Counts) -> Cost:
        """Return the cost of scoring two orders of every pair."""
        return Cost(scored=2 * (counts.tried // 2))

    def run(self, context: AttackContext) -> Result:
        """Compare both orders of every two neighbours, under the tuned model and its base."""
        texts = [document.text for document in context.attacked_documents]
        pairs = list(zip(texts[::2], texts[1::2], strict=False))
        orders = [self.between.join(order) for pair in pairs for order in (pair, pair[::-1])]
        tokens = [tokens.ids for tokens in context.engine.tokenize(orders)]
        targets = {"tuned": context.tuned, "base": context.base}
        rows = []
        for source, target in targets.items():
            if target is not None:
                sums = [sum(scores) for scores in context.engine.score(target, tokens)]
                row = Measurement.rate(
                    sum(own > other for own, other in zip(sums[::2], sums[1::2], strict=True)),
                    len(pairs),
                    kind="order",
                    plugin=self.name,
                    metric="order_rate",
                    scope={"source": source},
                    chance=0.5,
                    reason="there are fewer than two records",
                )
                rows.append(row)
        return Result(measurements=tuple(rows))


@hookimpl
def fedaudit_attacks() -> list[type[Attack]]:
    """Return our attack."""
    return [Pairs]
