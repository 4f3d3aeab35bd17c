"""Extraction without sampling noise: for an auditor, who knows the targets, it can be computed.

One walk of each model gives the probability that a continuation of each prefix begins with each
target; what any number of samples finds follows from the probabilities of missing it, which
multiply over prefixes and samples. docs/exact.md has the formulas.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedaudit.api.plugin import AttackContext, Result
from fedaudit.extraction.exact import findings, measurements
from fedaudit.extraction.exact.expected_coverage import string_chances
from fedaudit.extraction.exact.sources import ExactSources
from fedaudit.extraction.exact.walk import WalkResult, walk_prefixes
from fedaudit.extraction.impact import counterfactual, persons
from fedaudit.extraction.leak_tests import LeakTests, SaidStrings, test_leaks
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.sampling import QueryParams, SharedContext
from fedaudit.extraction.targets import TargetSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactResult(Result):
    """A result that knows how likely each string comes out, once or more, with its samples."""

    chances: Mapping[str, tuple[float, float | None]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Of each target, by the tuned model and by the base; None where there is no base."""
    control: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)
    """Of each string of the control, by the tuned model."""


def result(
    plugin: str,
    case: AttackContext,
    plan: QueryPlan,
    truth: TargetSet,
    manner: QueryParams,
    *,
    threshold: float,
    sweeps: bool = True,
) -> Result:
    """Return what `manner.samples` and, with `sweeps`, other numbers of samples find."""
    asked = results(plugin, case, plan, {"": truth}, manner, threshold=threshold, sweeps=sweeps)
    return asked[""]


def results(
    plugin: str,
    case: AttackContext,
    plan: QueryPlan,
    truths: Mapping[str, TargetSet],
    manner: QueryParams,
    *,
    threshold: float,
    sweeps: bool = True,
) -> dict[str, Result]:
    """Return what is found of each of several victims, by name, from one walk of each model.

    What a walk finds of a string depends on no other string, but for rounding. Of a shard's audit
    there is nothing to return, because nobody reports it.
    """
    wanted = truths.values()
    targets = dict.fromkeys(string for truth in wanted for string in truth.labels)
    control = dict.fromkeys(string for truth in wanted for string in sorted(truth.control))
    tuned = walk_prefixes(case, case.tuned, plan, list(targets | control), manner, threshold)
    base = (
        walk_prefixes(case, case.base, plan, list(targets), manner, threshold)
        if case.base
        else None
    )
    other = (
        walk_prefixes(case, case.counterfactual, plan, list(targets), manner, threshold)
        if case.counterfactual
        else None
    )
    if isinstance(case, SharedContext) and case.kept and not case.kept.whole:
        return {name: Result() for name in truths}
    results: dict[str, Result] = {}
    for name, truth in truths.items():
        found = ExactSources(
            plugin=plugin,
            truth=truth,
            tuned=tuned,
            base=base,
            size=plan.size,
            samples=manner.samples,
            threshold=threshold,
            sweeps=sweeps,
        )
        one = _result(found, test_leaks(plugin, case, plan, truth, manner, _said(found)))
        results[name] = _compared(one, found, other, case) if other else one
    return results


def _compared(
    result: ExactResult, found: ExactSources, other: WalkResult, case: AttackContext
) -> ExactResult:
    """Return a result compared with the walk of the model without the victim."""
    strings, n = found.truth.labels, found.samples
    chances = counterfactual.StringChances(
        plugin=found.plugin,
        truth=found.truth,
        without=case.without,
        tuned=string_chances(found.tuned, strings, n),
        counterfactual=string_chances(other, strings, n),
        base=string_chances(found.base, strings, n) if found.base else None,
        control=result.control,
        sampled=False,
        seed=case.seed,
    )
    return counterfactual.compared(result, chances)


def _said(found: ExactSources) -> SaidStrings:
    """Return how likely each model says each string in the audit, the base its targets only."""
    chances = found.chances()
    tuned = {string: one for string, (one, _) in chances.items()} | found.control_chances()
    base = {string: one for string, (_, one) in chances.items() if one is not None}
    return SaidStrings(
        tuned=tuned, base=base if found.base else None, strength=tuned, sampled=False
    )


def _result(found: ExactSources, weighed: LeakTests | None) -> ExactResult:
    return ExactResult(
        measurements=(
            *measurements.rows(found),
            *(weighed.rows if weighed else ()),
            *persons.expected_rows(found),
        ),
        findings=findings.findings(found, weighed),
        limits=findings.exact_caveats(found),
        revealed=findings.revealed_findings(found),
        chances=found.chances(),
        control=found.control_chances(),
    )
