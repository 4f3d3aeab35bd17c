"""Extraction computed from exact probabilities, which an auditor can do who knows the targets.

One walk of each model gives the probability that a continuation of each prefix begins with each
target. The probabilities of missing a target multiply over prefixes and samples, which gives the
expected result for any number of samples. docs/exact.md has the formulas.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.records import Finding, Severity
from fedaudit.api.target_sets import ALL
from fedaudit.extraction.exact import measurements
from fedaudit.extraction.exact.expected_coverage import log_missed, string_chances
from fedaudit.extraction.exact.measurements import PROBABILITIES
from fedaudit.extraction.exact.sources import ExactSources
from fedaudit.extraction.exact.walk import WalkResult, walk_prefixes
from fedaudit.extraction.impact import counterfactual, persons
from fedaudit.extraction.leak_tests import MATERIAL, LeakTests, StringProbabilities, run_leak_tests
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.sampling import QueryParams, SharedContext
from fedaudit.extraction.targets import TargetSet
from fedaudit.metrics.expected import samples_needed

Revealed = tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """A target that may come out in the audit's samples."""

    string: str
    position: int
    """Its index in the tuned model's walk."""
    chance: float
    low: float
    high: float
    """95 % bounds for the chance, which cover the walk's draws."""
    followed: float
    base: float | None

    @property
    def is_of_base(self) -> bool:
        """Tell whether the base gives it too, with a probability of MATERIAL or more."""
        return self.base is not None and self.base >= MATERIAL


def findings(exact: ExactSources, leak_tests: LeakTests | None = None) -> tuple[Finding, ...]:
    """Return a finding for each target with a probability of MATERIAL or more to come out.

    Its severity says how certain it is that training caused it, and is at most medium if the
    probability is below 0.5. The evidence holds the plain string under "text", which the report
    masks.
    """
    return tuple(
        _finding(exact, leak_tests, name, target) for name, target in _numbered_targets(exact)
    )


def revealed_findings(exact: ExactSources) -> Revealed:
    """Return the plain text of the findings, by id."""
    labels = exact.target_set.labels
    return tuple(
        {"id": name, "label": labels[target.string], "text": target.string}
        for name, target in _numbered_targets(exact)
    )


def _numbered_targets(exact: ExactSources) -> list[tuple[str, _Target]]:
    """Return (finding id, target) of every target found, the likeliest first.

    Targets that the base gives too come last.
    """
    log_least = exact.tuned.log_least
    order = sorted(
        _find_targets(exact),
        key=lambda t: (t.is_of_base, -t.chance, float(log_least[t.position]), t.string),
    )
    return [(f"{exact.plugin}-{number:04d}", target) for number, target in enumerate(order, 1)]


def _find_targets(exact: ExactSources) -> Iterator[_Target]:
    sources = exact.sets()[ALL]
    chances = sources.chances(exact.samples)
    tuned, base = chances["tuned"], chances.get("base")
    low, high = tuned.bounds()
    places = sources.places("tuned")
    for index, string in enumerate(sources.strings("tuned")):
        if tuned.value[index] >= MATERIAL:
            yield _Target(
                string=string,
                position=int(places[index]),
                chance=float(tuned.value[index]),
                low=float(low[index]),
                high=float(high[index]),
                followed=float(tuned.least[index]),
                base=float(base.value[index]) if base else None,
            )


def _severity(exact: ExactSources, leak_tests: LeakTests | None, target: _Target) -> Severity:
    string = target.string
    severity = (
        leak_tests.severity(string, exact.target_set.members.get(string, 0))
        if leak_tests
        else "low"
    )
    return "medium" if severity == "high" and target.chance < 0.5 else severity


def _finding(
    exact: ExactSources, leak_tests: LeakTests | None, name: str, target: _Target
) -> Finding:
    walked, index = exact.tuned, target.position
    log_miss = float(log_missed(walked, exact.samples)[index])
    likeliest = walked.likeliest.get(index, ())
    needed = {
        f"samples_for_{100 * p:.0f}_percent": samples_needed(log_miss, p) for p in PROBABILITIES
    }
    return Finding(
        id=name,
        severity=_severity(exact, leak_tests, target),
        label=exact.target_set.labels[target.string],
        measurement=f"{exact.plugin} coverage",
        evidence={
            "text": target.string,
            "probability": target.chance,
            "probability_low": target.low,
            "probability_high": target.high,
            "probability_of_base": target.base,
            "p_value": leak_tests.p.get(target.string) if leak_tests else None,
            "other_members": exact.target_set.members.get(target.string, 0),
            "followed": target.followed,
            "drawn": int(walked.drawn[index]),
            "trials": walked.draws * exact.size,
            "prefixes": int(walked.prefixes[index]),
            "likeliest": [[number, chance] for chance, number in likeliest],
            **({"prompt": likeliest[0][1]} if likeliest else {}),
            **needed,
        },
    )


def exact_caveats(exact: ExactSources) -> tuple[str, ...]:
    """Return caveats: which part of the numbers rests on draws, and what else limits them."""
    labels = exact.target_set.labels
    chance = exact.sets()[ALL].chances(exact.samples)["tuned"]
    low, expected, high = chance.total()
    followed, most = float(chance.least.sum()), float(chance.most.sum())
    caveats = [
        f"{exact.plugin}: {len(labels)} victim-exclusive strings; "
        f"{len(labels) - len(exact.target_set.disjoint)} of them are left out of the "
        "prefix-disjoint set.",
        f"{exact.plugin}: probabilities were computed, from {exact.tuned.rows:.1f} model rows a "
        f"prefix; branches below {exact.threshold:g}, less with every byte spelt, were drawn from. "
        f"With {exact.samples:,} samples {expected:.2f} targets are expected ({low:.2f} to "
        f"{high:.2f} with 95 %), {followed:.2f} of them by what was followed; at most {most:.2f} "
        "if all that was given up had spelt them.",
    ]
    if exact.base is None:
        caveats.append("The target has no base to compare with: what the base knew is not removed.")
    return tuple(caveats)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactResult(Result):
    """A result with each string's probability to come out at least once in the audit's samples."""

    chances: Mapping[str, tuple[float, float | None]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """For each target, the probability by the tuned model and by the base; None without a base."""
    control: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)
    """For each control string, the probability by the tuned model."""


def estimate_victims(
    plugin: str,
    context: AttackContext,
    plan: QueryPlan,
    target_sets: Mapping[str, TargetSet],
    query_params: QueryParams,
    *,
    threshold: float,
    sweeps: bool,
) -> dict[str, Result]:
    """Return the expected result for each of several victims, by name, from one walk per model.

    It is for `query_params.samples` samples per prefix; with `sweeps`, also for other numbers.
    A string's probability does not depend on the other strings, except for rounding. In the
    audit of one shard, results are empty, since no one reports them.
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
        findings=findings(exact, leak_tests),
        limits=exact_caveats(exact),
        revealed=revealed_findings(exact),
        chances=exact.chances(),
        control=exact.control_chances(),
    )
