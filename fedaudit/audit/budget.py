"""As much of a plan as a budget of prefixes pays for."""

import random
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from fedaudit.audit.plan import Plan, Question


def limited(plan: Plan, budget: int, *, seed: int, ordered: bool, name: str) -> Plan:
    """Return the part of a plan that asks `budget` prefixes; all of it for 0 or a large budget.

    The first ones where the plan is `ordered`, else prefixes drawn without replacement, each
    occurrence as likely as any other. A note in the `name` of the attack says what became of the
    budget. Raises ValueError for a budget below 0.
    """
    if budget < 0:
        raise ValueError("budget must be at least 0.")
    if not budget or not plan.size:
        return plan
    if budget > plan.size:
        told = f"{name}: the budget of {budget:,} prefixes is larger than the set"
        return replace(plan, notes=(*plan.notes, f"{told}; all {plan.size:,} were asked."))
    drawn: range | list[int] = range(budget)
    if not ordered:
        drawn = sorted(random.Random(f"budget {seed}").sample(range(plan.size), budget))

    def questions() -> Iterator[Question]:
        for before, question in plan.numbered():
            first, last = (bisect_left(drawn, before + n) for n in (0, question.copies))
            if last > first:
                yield replace(question, copies=last - first)
            if last == budget:
                return

    how = "the first" if ordered else "drawn at random,"
    told = f"{name}: {how} {budget:,} of {plan.size:,} prefixes were asked."
    return Plan(size=budget, questions=questions, notes=(*plan.notes, told))
