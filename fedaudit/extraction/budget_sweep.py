"""Coverage and efficiency against budget and samples, from one run (FedPII, figures 4 and 5)."""

from collections.abc import Iterator

from fedaudit.api.records import Measurement
from fedaudit.api.target_sets import ALL
from fedaudit.extraction.scoring import ExtractionResult, coverage_rows
from fedaudit.metrics.budget_sweep import budget_steps


def rows(extraction: ExtractionResult) -> Iterator[Measurement]:
    """Yield what budgets of 1, 2, 5, 10, ... prefixes find: in total, by label and by samples.

    scope.budget counts prefixes in the order of the attack, scope.samples the samples per prefix.
    Labels without any extracted string have no sweep.
    """
    for budget in budget_steps(extraction.size):
        for name, targets in extraction.target_set.sets().items():
            for samples in (
                budget_steps(extraction.samples) if name == ALL else (extraction.samples,)
            ):
                scope = {"set": name, "budget": budget, "samples": samples}
                yield from coverage_rows(extraction, targets, scope, budget=budget, samples=samples)
        yield from _by_label(extraction, budget)


def _by_label(extraction: ExtractionResult, budget: int) -> Iterator[Measurement]:
    hits = extraction.strings_by_source()
    any_model = hits["tuned"] | hits.get("base", set())
    for label, targets in extraction.target_set.by_label().items():
        if any_model.isdisjoint(targets):
            continue
        scope = {"set": ALL, "label": label, "budget": budget, "samples": extraction.samples}
        for row in coverage_rows(extraction, targets, scope, budget=budget):
            if row.scope["source"] != "control":
                yield row
