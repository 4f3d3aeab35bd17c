"""Extraction computed from exact probabilities, which an auditor can do who knows the targets.

One walk of each model gives the probability that a continuation of each prefix begins with each
target. The probabilities of missing a target multiply over prefixes and samples, which gives the
expected result for any number of samples. docs/exact.md has the formulas.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedaudit.api.plugin import AttackContext, Result
from fedaudit.extraction.exact import findings, measurements
from fedaudit.extraction.exact.expected_coverage import string_chances
from fedaudit.extraction.exact.sources import ExactSources
from fedaudit.extraction.exact.walk import WalkResult, walk_prefixes
from fedaudit.extraction.impact import counterfactual, persons
from fedaudit.extraction.leak_tests import LeakTests, StringProbabilities, run_leak_tests
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.sampling import QueryParams, SharedContext
from fedaudit.extraction.targets import TargetSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactResult(Result):
    """A result with each string's probability to come out at least once in the audit's samples."""

    chances: Mapping[str, tuple[float, float | None]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """For each target, the probability by the tuned model and by the base; None without a base."""
    control: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)
    """For each control string, the probability by the tuned model."""


def estimate_extraction(
    plugin: str,
    context: AttackContext,
    plan: QueryPlan,
    target_set: TargetSet,
    query_params: QueryParams,
    *,
    threshold: float,
    sweeps: bool = True,
) -> Result:
    """Return the expected result for `query_params.samples` samples per prefix.

    With `sweeps`, it includes other numbers of samples.
    """
    by_victim = estimate_victims(
        plugin, context, plan, {"": target_set}, query_params, threshold=threshold, sweeps=sweeps
    )
    return by_victim[""]


def estimate_victims(
    plugin: str,
    context: AttackContext,
    plan: QueryPlan,
    target_sets: Mapping[str, TargetSet],
    query_params: QueryParams,
    *,
    threshold: float,
    sweeps: bool = True,
) -> dict[str, Result]:
    """Return the expected result for each of several victims, by name, from one walk per model.

    A string's probability does not depend on the other strings, except for rounding. In the
    audit of one shard, results are empty, since nobody reports them.
    """
    victims = target_sets.values()
    targets = dict.fromkeys(string for target_set in victims for string in target_set.labels)
    control = dict.fromkeys(
        string for target_set in victims for string in sorted(target_set.controls)
    )
    # A walk sums over all prefixes, and not all count for the attacker's own strings: these are
    # left to the test of what the model has learned.
    known = dict.fromkeys(
        string
        for target_set in victims
        for string in target_set.known.labels
        if string not in target_set.known.owners
    )
    tuned = walk_prefixes(
        context, context.tuned, plan, list(targets | control | known), query_params, threshold
    )
    base = (
        walk_prefixes(context, context.base, plan, list(targets | known), query_params, threshold)
        if context.base
        else None
    )
    counterfactual_walk = (
        walk_prefixes(context, context.counterfactual, plan, list(targets), query_params, threshold)
        if context.counterfactual
        else None
    )
    if isinstance(context, SharedContext) and context.kept and not context.kept.covers_all:
        return {name: Result() for name in target_sets}
    results: dict[str, Result] = {}
    for name, target_set in target_sets.items():
        exact = ExactSources(
            plugin=plugin,
            target_set=target_set,
            tuned=tuned,
            base=base,
            size=plan.size,
            samples=query_params.samples,
            threshold=threshold,
            sweeps=sweeps,
        )
        victim_result = _result(
            exact,
            run_leak_tests(
                plugin, context, plan, target_set, query_params, _string_probabilities(exact)
            ),
        )
        results[name] = (
            _compare_walks(victim_result, exact, counterfactual_walk, context)
            if counterfactual_walk
            else victim_result
        )
    return results


def _compare_walks(
    result: ExactResult,
    exact: ExactSources,
    counterfactual_walk: WalkResult,
    context: AttackContext,
) -> ExactResult:
    """Return a result with the comparison to the model that was trained without the victim."""
    strings, n = exact.target_set.labels, exact.samples
    chances = counterfactual.StringChances(
        plugin=exact.plugin,
        target_set=exact.target_set,
        without=context.without,
        tuned=string_chances(exact.tuned, strings, n),
        counterfactual=string_chances(counterfactual_walk, strings, n),
        base=string_chances(exact.base, strings, n) if exact.base else None,
        control=result.control,
        sampled=False,
        seed=context.seed,
    )
    return counterfactual.with_counterfactual(result, chances)


def _string_probabilities(exact: ExactSources) -> StringProbabilities:
    """Return each string's probability to come out in the audit; for the base, targets only."""
    chances = exact.chances()
    tuned = {string: chance for string, (chance, _) in chances.items()} | exact.control_chances()
    walked = set(exact.tuned.strings)
    strings = [string for string in exact.target_set.known.labels if string in walked]
    known = string_chances(exact.tuned, strings, exact.samples) if strings else {}
    before = string_chances(exact.base, strings, exact.samples) if exact.base and strings else {}
    base = {string: chance for string, (_, chance) in chances.items() if chance is not None}
    return StringProbabilities(
        tuned=tuned,
        base=base if exact.base else None,
        strength=tuned,
        sampled=False,
        known={
            string: chance.value * (1 - (before[string].value if string in before else 0.0))
            for string, chance in known.items()
        },
    )


def _result(exact: ExactSources, leak_tests: LeakTests | None) -> ExactResult:
    return ExactResult(
        measurements=(
            *measurements.rows(exact),
            *(leak_tests.rows if leak_tests else ()),
            *persons.expected_rows(exact),
        ),
        findings=findings.findings(exact, leak_tests),
        limits=findings.exact_caveats(exact),
        revealed=findings.revealed_findings(exact),
        chances=exact.chances(),
        control=exact.control_chances(),
    )
