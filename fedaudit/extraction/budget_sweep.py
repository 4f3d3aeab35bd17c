"""Coverage and efficiency against budget and samples, from one run (FedPII, figures 4 and 5)."""

from collections.abc import Iterator

from fedaudit.api.records import Measurement
from fedaudit.api.target_sets import ALL
from fedaudit.extraction.scoring import ExtractionResult, rates
from fedaudit.metrics.budget_sweep import budget_steps


def rows(tally: ExtractionResult) -> Iterator[Measurement]:
    """Yield what budgets of 1, 2, 5, 10, ... prefixes find: in all, by label, by samples.

    scope.budget counts prefixes in the order of the attack, scope.samples the times that each is
    asked. Labels of which nothing came out at all have no sweep.
    """
    for budget in budget_steps(tally.size):
        for name, targets in tally.target_set.sets().items():
            for samples in budget_steps(tally.samples) if name == ALL else (tally.samples,):
                scope = {"set": name, "budget": budget, "samples": samples}
                yield from rates(tally, targets, scope, budget=budget, samples=samples)
        yield from _by_label(tally, budget)


def _by_label(tally: ExtractionResult, budget: int) -> Iterator[Measurement]:
    hits = tally.extracted()
    any_model = hits["tuned"] | hits.get("base", set())
    for label, targets in tally.target_set.by_label().items():
        if any_model.isdisjoint(targets):
            continue
        scope = {"set": ALL, "label": label, "budget": budget, "samples": tally.samples}
        for row in rates(tally, targets, scope, budget=budget):
            if row.scope["source"] != "control":
                yield row
