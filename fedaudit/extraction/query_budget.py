"""Limiting a plan to a budget of prefixes."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf

from fedaudit.extraction.query_plan import Query, QueryPlan
from fedaudit.metrics.budget_sweep import BudgetCurve


@dataclass(frozen=True, slots=True)
class ScatteredQuery(Query):
    """A query whose equal prefixes are not consecutive in the plan's order."""

    at: tuple[int, ...] = ()
    """The positions of the prefixes in the plan's order, counted from 0, ascending."""

    def budget_curve(self, target: str, draw: int, samples: int) -> BudgetCurve:
        """Return how many prefixes are needed to find a target that came in draw number `draw`.

        With n samples each, the prefix at `at[k]` has the draws from k n to (k + 1) n - 1.
        """
        curve = BudgetCurve(samples)
        copies = (draw // n for n in range(1, samples + 1))
        curve.needed[target] = [self.at[k] + 1 if k < len(self.at) else inf for k in copies]
        return curve


def limit_plan(plan: QueryPlan, budget: int, *, seed: int, ordered: bool, name: str) -> QueryPlan:
    """Return the part of a plan that asks `budget` prefixes; all of it for 0 or a large budget.

    If `ordered`, these are the first prefixes of the plan, else occurrences drawn uniformly without
    replacement, in the order of the draw, so that a smaller budget has the first prefixes of a
    larger one. A note under the `name` of the attack says how many prefixes were asked.
    Raises ValueError for a budget below 0.
    """
    if budget < 0:
        raise ValueError("budget must be at least 0.")
    if not budget or not plan.size:
        return plan
    how = "the first" if ordered else "drawn at random,"
    note = f"{name}: {how} {budget:,} of {plan.size:,} prefixes were asked."
    if budget > plan.size:
        note = f"{name}: the budget of {budget:,} prefixes is larger than the set; all"
        note = f"{note} {plan.size:,} were asked."
    size = min(budget, plan.size)
    queries = _first(plan, size) if ordered else _random_prefixes(plan, size, seed)
    return QueryPlan(size=size, queries=queries, notes=(*plan.notes, note))


def _first(plan: QueryPlan, budget: int) -> Callable[[], Iterator[Query]]:
    def queries() -> Iterator[Query]:
        for before, query in plan.numbered():
            if before >= budget:
                return
            yield replace(query, copies=min(query.copies, budget - before))

    return queries


def _random_prefixes(plan: QueryPlan, budget: int, seed: int) -> Callable[[], Iterator[Query]]:
    """Return the queries of the first `budget` prefixes after a shuffle of all prefixes."""
    # The whole order is drawn, whatever the budget, so that budgets nest.
    order = random.Random(f"budget {seed}").sample(range(plan.size), plan.size)
    places = {prefix: position for position, prefix in enumerate(order[:budget])}

    def queries() -> Iterator[Query]:
        for before, query in plan.numbered():
            prefixes = range(before, before + query.copies)
            if positions := tuple(sorted(places[p] for p in prefixes if p in places)):
                yield ScatteredQuery(
                    query.prompt, len(positions), query.kinds, positions, leads=query.leads
                )

    return queries
