"""One attacker against several victims: each model is asked once, each victim is scored."""

from collections.abc import Mapping

from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.records import Target
from fedaudit.extraction import sampling, scoring
from fedaudit.extraction.exact import estimator
from fedaudit.extraction.leak_tests import run_leak_tests
from fedaudit.extraction.matcher import TargetMatcher
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.scoring import ExtractionResult, HitCounter
from fedaudit.extraction.targets import TargetSet


def attack_victims(
    attack: PrefixAttack,
    context: AttackContext,
    plan: QueryPlan,
    target_sets: Mapping[str, TargetSet],
    matcher: TargetMatcher,
) -> tuple[dict[str, Result], tuple[str, ...]]:
    """Ask both models all queries of the plan once; return each victim's result, and notes.

    An empty plan gives no results, not even zeros. `matcher` holds the strings that are looked for
    in answers: those of these victims and perhaps of others.
    """
    if not plan.size:
        return {}, plan.notes
    context, extra_notes = attack.prepare(context)
    notes = (*plan.notes, *extra_notes)
    if attack.estimator == "sample":
        results = _sample_results(attack, context, plan, target_sets, matcher)
    else:
        results = estimator.estimate_victims(
            attack.name,
            context,
            plan,
            target_sets,
            attack.query_params,
            threshold=attack.threshold,
            sweeps=False,
        )
    return {
        victim: attack.describe_prompts(result, context, plan) for victim, result in results.items()
    }, notes


def _sample_results(
    attack: PrefixAttack,
    context: AttackContext,
    plan: QueryPlan,
    target_sets: Mapping[str, TargetSet],
    matcher: TargetMatcher,
) -> dict[str, Result]:
    tuned = _count_hits(attack, context, context.tuned, plan, target_sets, matcher)
    base = (
        _count_hits(attack, context, context.base, plan, target_sets, matcher)
        if context.base
        else {}
    )
    results: dict[str, Result] = {}
    for victim, target_set in target_sets.items():
        extraction = ExtractionResult(
            plugin=attack.name,
            target_set=target_set,
            tuned=tuned[victim],
            base=base.get(victim),
            size=plan.size,
            samples=attack.samples,
            greedy=not attack.temperature,
        )
        leak_tests = run_leak_tests(
            attack.name,
            context,
            plan,
            target_set,
            attack.query_params,
            extraction.string_probabilities(),
        )
        results[victim] = scoring.score_extraction(extraction, leak_tests)
    return results


def _count_hits(
    attack: PrefixAttack,
    context: AttackContext,
    target: Target,
    plan: QueryPlan,
    target_sets: Mapping[str, TargetSet],
    matcher: TargetMatcher,
) -> dict[str, HitCounter]:
    counters = {
        victim: HitCounter(target_set, attack.samples) for victim, target_set in target_sets.items()
    }
    for answer in sampling.ask_plan(context, target, plan, attack.query_params, matcher):
        for counter in counters.values():
            counter.update((answer,))
    return counters
