"""Tests whether extracted strings came from training."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Measurement, Severity
from fedaudit.api.target_sets import BEYOND_REACH, EXCLUSIVE, UNASKED
from fedaudit.extraction.base_likelihood import (
    base_probabilities,
    behind_word,
    log_likelihoods,
    missed_target_probabilities,
)
from fedaudit.extraction.learned import learned_rows
from fedaudit.extraction.positive_controls import KNOWN
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.sampling import QueryParams, SharedContext
from fedaudit.extraction.sampling_noise import AnswerCounts, with_sampling_noise
from fedaudit.extraction.significance import LeakEvidence
from fedaudit.extraction.targets import TargetSet, drop_substrings
from fedaudit.metrics.intervals import Estimate, wilson
from fedaudit.metrics.significance import false_discovery_rates, grouped_share

EFFECTIVE_CONTROLS = "effective_controls"
"""The metric for the number of evenly spread controls that would be as informative."""
MATERIAL = 0.01
"""A string that an audit with this many samples finds with at least this probability is a leak."""
HIGH_SEVERITY_P, MEDIUM_SEVERITY_P = 0.01, 0.05
"""Of the leaks that are high, or medium, at most this share is due to chance on average."""
NEW, LOST = "tuned-not-base", "base-not-tuned"


@dataclass(frozen=True, kw_only=True)
class StringProbabilities:
    """The probability that each model says each string in an audit: 1 or 0 if sampled."""

    tuned: Mapping[str, float]
    base: Mapping[str, float] | None
    strength: Mapping[str, float]
    """How many answers of the tuned model give each string, or the probability of one."""
    sampled: bool = True
    counts: AnswerCounts | None = None
    """How many answers gave each string; None if that does not depend on the sampling seed."""
    known: Mapping[str, float] = field(default_factory=dict)
    """For each positive control, the probability that the tuned model says it and the base does
    not, behind prompts of other records."""


@dataclass(frozen=True, kw_only=True)
class LeakTests:
    """The tests of the judged targets as rows of a report, and how sure each leak is."""

    rows: tuple[Measurement, ...]
    p: Mapping[str, float]
    """For each extracted string, a bound on the probability that it was said by chance."""
    false_discovery: Mapping[str, float]
    """These probabilities adjusted for all strings that were looked for."""
    base: bool
    """Whether the audit has a base to compare with."""

    def severity(self, string: str, other_members: int = 0) -> Severity:
        """Return how severe a leak is: low if other members have it or chance explains it."""
        p = 1.0 if other_members else self.false_discovery.get(string, 1.0)
        if p <= HIGH_SEVERITY_P and self.base:
            return "high"
        return "medium" if p <= MEDIUM_SEVERITY_P else "low"


def run_leak_tests(
    plugin: str,
    context: AttackContext,
    plan: QueryPlan,
    target_set: TargetSet,
    query_params: QueryParams,
    probabilities: StringProbabilities,
) -> LeakTests | None:
    """Return the tests of the extracted strings; None for a shard, which has no own result."""
    if isinstance(context, SharedContext) and context.kept and not context.kept.covers_all:
        return None
    reach = _reachable(context, target_set.alone, query_params.new_tokens)
    # A target too long for any answer must not displace targets that are parts of it.
    targets = {string: target_set.labels[string] for string in sorted(drop_substrings(reach))}
    base = probabilities.base or {}
    gained = {s: value * (1 - base.get(s, 0.0)) for s, value in probabilities.tuned.items()}
    leaks = sorted(s for s, value in gained.items() if value >= MATERIAL and s in target_set.labels)
    leak_labels = {string: target_set.labels[string] for string in leaks}
    evidence = LeakEvidence(
        targets=targets,
        controls=target_set.controls,
        gained=gained,
        strength=probabilities.strength,
        # Needed even if nothing was extracted: it decides what the test could have shown.
        likelihood=log_likelihoods(
            context, plan, {**targets, **target_set.controls, **leak_labels}
        ),
        base_chance=_base_chances(context, plan, query_params, probabilities, leaks, targets),
        outputs=plan.size * query_params.samples,
        seed=context.seed,
        uplift=control_uplift(probabilities, target_set.controls),
        sampled=probabilities.sampled,
        donors=target_set.donors,
    )
    known = known_counts(
        context, target_set.known.labels, query_params.new_tokens, probabilities.known
    )
    rows = (
        *_rows(plugin, evidence, probabilities, target_set),
        *_beyond(plugin, target_set, reach),
        *_shared_rows(plugin, target_set, leaks),
        *known_rows(plugin, known, set(targets.values()), sampled=probabilities.sampled),
        *learned_rows(plugin, context, target_set, target_set.exclusive),
    )
    p = {string: evidence.string_p_value(string, label) for string, label in leak_labels.items()}
    return LeakTests(
        rows=rows,
        p=p,
        false_discovery=false_discovery_rates(p, len(target_set.labels)),
        base=probabilities.base is not None,
    )


def _base_chances(
    context: AttackContext,
    plan: QueryPlan,
    query_params: QueryParams,
    probabilities: StringProbabilities,
    leaks: Collection[str],
    targets: Mapping[str, str],
) -> dict[str, float]:
    """Return the probability under the base of each leak and of each target that was not found.

    If the audit itself computed the probability, or the base's answers are greedy and so always
    the same, the larger of the two values counts.
    """
    if probabilities.base is None:
        return dict.fromkeys({*leaks, *targets}, 0.0)
    missed_targets = {string: label for string, label in targets.items() if string not in leaks}
    chances = missed_target_probabilities(context, plan, missed_targets, query_params)
    chances |= base_probabilities(context, plan, sorted(leaks), query_params)
    if probabilities.sampled and query_params.decoding.temperature:
        return chances
    return {
        string: max(chance, probabilities.base.get(string, 0.0))
        for string, chance in chances.items()
    }


def control_uplift(
    probabilities: StringProbabilities, controls: Mapping[str, str]
) -> dict[str, float]:
    """Return, by label, how many times as many controls the tuned model says as its base.

    One is added to both counts, and one standard error to the logarithm of their ratio.
    """
    uplift = {}
    for label in set(controls.values()):
        tuned, base = (
            1 + sum(said.get(s, 0.0) for s, kind in controls.items() if kind == label)
            for said in (probabilities.tuned, probabilities.base or {})
        )
        uplift[label] = tuned / base * math.exp(math.sqrt(1 / tuned + 1 / base))
    return uplift


def _reachable(context: AttackContext, strings: Collection[str], new_tokens: int) -> frozenset[str]:
    """Return the strings that fit into an answer, each tokenised with a space before it."""
    ordered = sorted(strings)
    tokens = context.engine.tokenize([behind_word(string) for string in ordered])
    return frozenset(
        string for string, t in zip(ordered, tokens, strict=True) if len(t.ids) <= new_tokens
    )


def _beyond(plugin: str, target_set: TargetSet, reach: Collection[str]) -> Iterator[Measurement]:
    """Yield how many of the victim's own strings exceed an answer, in total and by label."""
    if not target_set.exclusive:
        return
    missed = Counter(target_set.labels[string] for string in target_set.exclusive.difference(reach))
    labels = missed + Counter(target_set.labels[string] for string in drop_substrings(reach))
    yield skipped_targets_row(plugin, missed.total(), labels.total(), {"set": BEYOND_REACH})
    for label, count in sorted(missed.items()):
        scope = {"set": BEYOND_REACH, "label": label}
        yield skipped_targets_row(plugin, count, labels[label], scope)


def _shared_rows(
    plugin: str, target_set: TargetSet, leaks: Collection[str]
) -> Iterator[Measurement]:
    """Yield how many targets other members have, each and together, and how many of them leaked.

    They are not judged, because the file of a member says that they are not the victim's alone.
    """
    shared = target_set.shared
    every = frozenset[str]().union(*shared.values())
    for scope, strings in (({}, every), *(({"member": name}, shared[name]) for name in shared)):
        if strings:
            yield Measurement(
                kind="extraction",
                plugin=plugin,
                metric="shared_targets",
                value=float(len(strings)),
                n=len(target_set.labels),
                hits=len(strings.intersection(leaks)),
                scope={"source": NEW, **scope},
            )


def known_counts(
    context: AttackContext, labels: Mapping[str, str], new_tokens: int, said: Mapping[str, float]
) -> dict[str, tuple[float, int]]:
    """Return by label how many positive controls came out, and how many there are.

    As with targets, only strings count for which an answer has room, and of strings that are part
    of each other the longest. `said` holds the probability that each of them comes out.
    """
    values: dict[str, list[float]] = defaultdict(list)
    for string in sorted(drop_substrings(_reachable(context, sorted(said), new_tokens))):
        values[labels[string]].append(said[string])
    return {label: (sum(row), len(row)) for label, row in values.items()}


def known_rows(
    plugin: str,
    counts: Mapping[str, tuple[float, int]],
    kinds: Collection[str],
    *,
    sampled: bool = True,
) -> Iterator[Measurement]:
    """Yield how many positive controls came out: in total, and of each of `kinds`."""
    total = sum(hits for hits, _ in counts.values()), sum(n for _, n in counts.values())
    by_kind = {kind: counts[kind] for kind in sorted({*counts} & {*kinds})}
    for label, (hits, n) in ({"": total, **by_kind} if counts else {}).items():
        scope = {"source": KNOWN, "set": EXCLUSIVE} | ({"label": label} if label else {})
        if not sampled:
            scope["estimator"] = "exact"
        yield Measurement.mean(
            wilson(hits, n),
            n,
            kind="extraction",
            plugin=plugin,
            metric="coverage",
            scope=scope,
            hits=int(hits) if sampled else None,
        )


def skipped_targets_row(
    plugin: str, count: int, n: int, scope: Mapping[str, object], kind: str = "extraction"
) -> Measurement:
    """Return the row that says how many of `n` strings were not looked for."""
    return Measurement(
        kind=kind, plugin=plugin, metric="targets", value=float(count), n=n, scope=scope
    )


def unasked_rows(
    plugin: str,
    pairs: Iterable[tuple[str, str]],
    asked: Collection[str],
    kind: str = "extraction",
) -> tuple[Measurement, ...]:
    """Return how many strings of each label an attack's options leave out.

    `pairs` are all strings that could be looked for with their labels, `asked` those that are. A
    verdict counts the others as targets that the attack could not see.
    """
    left_out = {(string.strip(), label) for string, label in pairs}
    counts = Counter(label for string, label in left_out if string and string not in asked)
    return tuple(
        skipped_targets_row(plugin, count, count, {"set": UNASKED, "label": label}, kind)
        for label, count in sorted(counts.items())
    )


def _rows(
    plugin: str, evidence: LeakEvidence, probabilities: StringProbabilities, target_set: TargetSet
) -> Iterator[Measurement]:
    """Yield coverage of the judged targets, in total and by label, and the tests' p values."""
    scope: dict[str, object] = {"set": EXCLUSIVE}
    if not probabilities.sampled:
        scope["estimator"] = "exact"
    if not evidence.targets:  # shared strings are not a substitute
        why = "the victim has nothing that no other member has as well"
        if target_set.exclusive:
            why = "what only the victim has is longer than an answer"
        scope = {"source": NEW, **scope}
        yield Measurement.missing(
            why, kind="extraction", plugin=plugin, metric="coverage", scope=scope
        )
        return
    labels = ("", *sorted(set(evidence.targets.values())))
    yield from _coverage_rows(plugin, evidence, probabilities, target_set.groups, labels, scope)
    if probabilities.base is not None:
        yield from _test_rows(plugin, evidence, labels, scope)


def _coverage_rows(
    plugin: str,
    evidence: LeakEvidence,
    probabilities: StringProbabilities,
    groups: Mapping[str, str],
    labels: Sequence[str],
    common_scope: Mapping[str, object],
) -> Iterator[Measurement]:
    """Yield coverage of all judged targets for each source; for NEW and controls also by label."""
    tuned, base, counts = probabilities.tuned, probabilities.base, probabilities.counts
    sources: dict[str, Callable[[str], float]] = {"tuned": lambda s: tuned.get(s, 0.0)}
    if base is not None:
        sources["base"] = lambda s: base.get(s, 0.0)
        sources[NEW] = lambda s: evidence.gained.get(s, 0.0)
        sources[LOST] = lambda s: base.get(s, 0.0) * (1 - tuned.get(s, 0.0))
    if evidence.controls:
        sources["control"] = lambda s: evidence.gained.get(s, 0.0)
    for label in labels:
        scope = {**common_scope, "label": label} if label else common_scope
        for source, value in sources.items():
            is_control = source == "control"
            pool = evidence.controls if is_control else evidence.targets
            strings = sorted(s for s, kind in pool.items() if label in ("", kind))
            if not strings or (label and source not in (NEW, "control")):
                continue
            values = [value(string) for string in strings]
            own_groups = ["" if is_control else groups.get(string, "") for string in strings]
            noise = counts.variance(source, strings) if counts else 0.0
            yield Measurement.mean(
                share_estimate(values, own_groups, noise),
                len(values),
                kind="extraction",
                plugin=plugin,
                metric="coverage",
                scope={"source": source, **scope},
                hits=int(sum(values)) if evidence.sampled else None,
            )


def _test_rows(
    plugin: str, evidence: LeakEvidence, labels: Sequence[str], scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield the coverage by chance, the effective controls and the p values of the tests."""

    def row(metric: str, value: float, n: int, source: str, **more: str) -> Measurement:
        row_scope = {"source": source, **scope, **{k: v for k, v in more.items() if v}}
        return Measurement(
            kind="extraction", plugin=plugin, metric=metric, value=value, n=n, scope=row_scope
        )

    for label in labels:
        of_kind = [
            evidence.chances[s] for s, kind in evidence.targets.items() if label in ("", kind)
        ]
        yield row("chance", sum(of_kind) / len(of_kind), len(of_kind), "base", label=label)
    controls = Counter(evidence.controls.values())
    for label in ("", *sorted(controls)) if controls else ():
        effective, count = evidence.effective_controls(label), controls[label] or controls.total()
        yield row(EFFECTIVE_CONTROLS, float(effective), count, "control", label=label)
    matched, targets = evidence.matched, len(evidence.targets)
    yield row("p_value", evidence.leak_p_value(), matched, NEW, test="leak")
    yield row("p_value", evidence.any_string_p_value(), targets, NEW, test="string")
    yield row("p_value", evidence.control_p_value(), matched, NEW, test="control")
    yield row("p_value", evidence.base_p_value(), targets, NEW, test="base")


def share_estimate(
    values: Collection[float], groups: Collection[str], noise: float = 0.0
) -> Estimate:
    """Return a share with its interval, clustered by groups if every string has one.

    If nothing or everything is found, groups carry no information: the interval is then Wilson's.
    `noise` is the variance of the number found over sampling seeds (`sampling_noise`); for nothing
    Wilson's bound is wide enough.
    """
    total, n = sum(values), len(values)
    if not total:
        return wilson(total, n)
    if not all(groups) or total == n:
        return with_sampling_noise(wilson(total, n), n, noise)
    return with_sampling_noise(grouped_share(list(values), list(groups)), n, noise)
