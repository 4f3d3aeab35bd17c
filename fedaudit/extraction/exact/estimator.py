"""Extraction computed from exact probabilities, which an auditor can do who knows the targets.

One walk of each model gives the probability that a continuation of each prefix begins with each
target. The probabilities of missing a target multiply over prefixes and samples, which gives the
expected result for any number of samples. docs/exact.md has the formulas.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.records import Finding, Target
from fedaudit.api.target_sets import ALL
from fedaudit.extraction.exact import measurements
from fedaudit.extraction.exact.expected_coverage import log_missed, string_chances
from fedaudit.extraction.exact.measurements import PROBABILITIES
from fedaudit.extraction.exact.sources import ExactSources
from fedaudit.extraction.exact.walk import WalkedPrefixes, walk_prefixes
from fedaudit.extraction.findings import numbered, revealed
from fedaudit.extraction.impact import counterfactual, persons
from fedaudit.extraction.leak_tests import MATERIAL, LeakTests, StringProbabilities, run_leak_tests
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.sampling import QueryParams, SharedContext
from fedaudit.extraction.scoring import NO_BASE
from fedaudit.extraction.targets import TargetSet
from fedaudit.metrics.expected import samples_needed


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

    The likeliest come first, and last those that the base gives too. The severity says how certain
    it is that training caused it, and is at most medium if the probability is below 0.5. The
    evidence holds the plain string under "text", which the report masks.
    """
    log_least = exact.tuned.log_least
    order = sorted(
        _find_targets(exact),
        key=lambda t: (t.is_of_base, -t.chance, float(log_least[t.position]), t.string),
    )
    return tuple(
        _finding(exact, leak_tests, name, target) for name, target in numbered(exact.plugin, order)
    )


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


def _finding(
    exact: ExactSources, leak_tests: LeakTests | None, name: str, target: _Target
) -> Finding:
    walked, index, string = exact.tuned, target.position, target.string
    log_miss = float(log_missed(walked, exact.samples)[index])
    likeliest = walked.likeliest.get(index, ())
    needed = {
        f"samples_for_{100 * p:.0f}_percent": samples_needed(log_miss, p) for p in PROBABILITIES
    }
    members = exact.target_set.members.get(string, 0)
    severity = leak_tests.severity(string, members) if leak_tests else "low"
    return Finding(
        id=name,
        severity="medium" if severity == "high" and target.chance < 0.5 else severity,
        label=exact.target_set.labels[string],
        measurement=f"{exact.plugin} coverage",
        evidence={
            "text": string,
            "probability": target.chance,
            "probability_low": target.low,
            "probability_high": target.high,
            "probability_of_base": target.base,
            "p_value": leak_tests.p.get(string) if leak_tests else None,
            "other_members": members,
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
        f"{exact.plugin}: probabilities were computed, from {exact.tuned.rows_per_query:.1f} model "
        f"rows a prefix; branches below {exact.threshold:g}, less with every byte spelt, were "
        "drawn from. "
        f"With {exact.samples:,} samples {expected:.2f} targets are expected ({low:.2f} to "
        f"{high:.2f} with 95 %), {followed:.2f} of them by what was followed; at most {most:.2f} "
        "if all that was given up had spelt them.",
    ]
    if exact.base is None:
        caveats.append(NO_BASE)
    return tuple(caveats)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactResult(Result):
    """A result with each string's probability to come out at least once in the audit's samples."""

    chances: Mapping[str, tuple[float, float | None]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """For each target, the probability by the tuned model and by the base; None without a base."""


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

    def walk(target: Target, strings: Collection[str]) -> WalkedPrefixes:
        return walk_prefixes(context, target, plan, list(strings), query_params, threshold)

    tuned = walk(context.tuned, targets | control | known)
    base = walk(context.base, targets | known) if context.base else None
    without = walk(context.counterfactual, targets) if context.counterfactual else None
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
        results[name] = _result(exact, context, plan, query_params, without)
    return results


def _result(
    exact: ExactSources,
    context: AttackContext,
    plan: QueryPlan,
    query_params: QueryParams,
    without: WalkedPrefixes | None,
) -> ExactResult:
    """Return a victim's result; `without` is the walk of the model trained without it."""
    target_set, n = exact.target_set, exact.samples
    chances = exact.sets()[ALL].by_string(n)
    tuned, base, control = chances["tuned"], chances.get("base"), chances.get("control", {})
    said = tuned | control
    probabilities = StringProbabilities(
        tuned=said, base=base, strength=said, sampled=False, known=_known_chances(exact)
    )
    leak_tests = run_leak_tests(
        exact.plugin, context, plan, target_set, query_params, probabilities
    )
    leaks = findings(exact, leak_tests)
    result = ExactResult(
        measurements=(
            *measurements.rows(exact),
            *(leak_tests.rows if leak_tests else ()),
            *persons.expected_rows(exact),
        ),
        findings=leaks,
        limits=exact_caveats(exact),
        revealed=revealed(leaks),
        chances={string: (p, base[string] if base else None) for string, p in tuned.items()},
    )
    if without is None:
        return result
    strings = target_set.labels
    audit = counterfactual.StringChances(
        plugin=exact.plugin,
        target_set=target_set,
        without=context.without,
        tuned=string_chances(exact.tuned, strings, n),
        counterfactual=string_chances(without, strings, n),
        base=string_chances(exact.base, strings, n) if exact.base else None,
        control=control,
        sampled=False,
    )
    return counterfactual.with_counterfactual(result, audit)


def _known_chances(exact: ExactSources) -> dict[str, float]:
    """Return the probability that the tuned model says a positive control and the base does not."""
    walked = set(exact.tuned.strings)
    strings = [string for string in exact.target_set.known.labels if string in walked]
    if not strings:
        return {}
    tuned = string_chances(exact.tuned, strings, exact.samples)
    base = string_chances(exact.base, strings, exact.samples) if exact.base else {}
    return {
        string: chance.value * (1 - (base[string].value if string in base else 0.0))
        for string, chance in tuned.items()
    }
