"""Counterfactual memorization of strings: their chance minus that without the client in training.

Zhang et al. 2023 (arXiv:2112.12938) leave single records out. Here a whole client is left out, and
each chance comes from one training.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fedaudit.api.estimates import Estimate
from fedaudit.api.plugin import Result
from fedaudit.api.records import Finding, Measurement
from fedaudit.api.target_sets import ALL, EXCLUSIVE
from fedaudit.extraction.leak_tests import share_estimate
from fedaudit.extraction.scoring import ExtractionResult
from fedaudit.extraction.targets import TargetSet
from fedaudit.metrics.counterfactual import drawn_chance
from fedaudit.metrics.intervals import difference
from fedaudit.metrics.significance import mcnemar

KIND = "counterfactual"
R = TypeVar("R", bound=Result)
Chances = Mapping[str, Estimate]
NONE = Estimate(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StringChances:
    """The probability that an audit draws each string at least once, for each of the models."""

    plugin: str
    target_set: TargetSet
    without: str
    """The client that the counterfactual model was trained without."""
    tuned: Chances
    counterfactual: Chances
    base: Chances | None
    control: Mapping[str, float] = field(default_factory=dict)
    """By the tuned model, for strings that no member has."""
    sampled: bool = True


def sampled_chances(
    extraction: ExtractionResult, counts: Mapping[str, int], without: str
) -> StringChances:
    """Return the chances estimated from how often each model gave each string.

    `counts` are those of the model trained without the client `without`.
    """
    target_set, drawn = extraction.target_set, extraction.tuned.counts

    def chances(counts: Mapping[str, int]) -> dict[str, Estimate]:
        return {string: drawn_chance(counts.get(string, 0)) for string in target_set.labels}

    return StringChances(
        plugin=extraction.plugin,
        target_set=target_set,
        without=without,
        tuned=chances(drawn),
        counterfactual=chances(counts),
        base=chances(extraction.base.counts) if extraction.base else None,
        control={s: float(drawn[s] > 0) for s in target_set.controls},
    )


def with_counterfactual(result: R, audit: StringChances) -> R:
    """Return a result with the counterfactual's rows and caveats, and its evidence on each finding.

    The order of the findings does not change, so `revealed` still matches it.
    """
    measured = tuple(rows(audit))
    return replace(
        result,
        measurements=(*result.measurements, *measured),
        findings=tuple(_add_evidence(finding, audit) for finding in result.findings),
        limits=(*result.limits, *_limits(audit, measured)),
    )


def rows(audit: StringChances) -> Iterator[Measurement]:
    """Yield the rows for all strings, for those that only the victim has, and for each label."""
    target_set = audit.target_set
    sets: dict[str, Collection[str]] = {
        ALL: target_set.labels.keys(),
        EXCLUSIVE: target_set.exclusive,
    }
    for name, strings in sets.items():
        if strings:
            yield from _rows(audit, sorted(strings), {"set": name})
    for label, strings in target_set.by_label().items():
        yield next(_rows(audit, sorted(strings), {"set": ALL, "label": label}))


def _rows(
    audit: StringChances, strings: Sequence[str], scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield the memorization of some strings, then what it consists of and is compared with."""
    means = {"tuned": _mean(audit, audit.tuned, strings)}
    means[KIND] = _mean(audit, audit.counterfactual, strings)
    memorization = difference(means["tuned"], means[KIND])
    yield _row(audit, "counterfactual_memorization", memorization, len(strings), scope)
    if audit.base is not None:
        means["base"] = _mean(audit, audit.base, strings)
    if audit.control:
        values = [value for _, value in sorted(audit.control.items())]
        means["control"] = share_estimate(values, [""] * len(values))
    for source, mean in means.items():
        n = len(audit.control) if source == "control" else len(strings)
        yield _row(audit, "mean_chance", mean, n, {**scope, "source": source})
    for source in ("base", "control"):
        if source in means:
            gap = difference(means[KIND], means[source])
            yield _row(audit, "control_gap", gap, len(strings), {**scope, "control": source})
    if not audit.sampled:
        return
    # McNemar's exact one-sided test on strings that one model alone gave.
    given = [
        [chances.get(string, NONE).value > 0 for string in strings]
        for chances in (audit.tuned, audit.counterfactual)
    ]
    gained = sum(first and not second for first, second in zip(*given, strict=True))
    lost = sum(second and not first for first, second in zip(*given, strict=True))
    yield Measurement(
        kind=KIND,
        plugin=audit.plugin,
        metric="p_value",
        value=mcnemar(gained, lost),
        n=gained + lost,
        hits=gained,
        scope={**scope, "without": audit.without, "test": KIND},
    )


def _mean(audit: StringChances, chances: Chances, strings: Sequence[str]) -> Estimate:
    """Return the mean chance, with an interval for other strings of the same kind."""
    values = [min(1.0, max(0.0, chances.get(string, NONE).value)) for string in strings]
    groups = [audit.target_set.groups.get(string, "") for string in strings]
    return share_estimate(values, groups)


def _row(
    audit: StringChances, metric: str, mean: Estimate, n: int, outer_scope: Mapping[str, object]
) -> Measurement:
    scope = {**outer_scope, "without": audit.without}
    if not audit.sampled:
        scope["estimator"] = "exact"
    return Measurement.mean(mean, n, kind=KIND, plugin=audit.plugin, metric=metric, scope=scope)


def _add_evidence(finding: Finding, audit: StringChances) -> Finding:
    string = str(finding.evidence.get("text", ""))
    if string not in audit.counterfactual:
        return finding
    memorization = difference(audit.tuned.get(string, NONE), audit.counterfactual[string])
    evidence = {
        "chance_without": audit.counterfactual[string].value,
        "memorization": memorization.value,
        "memorization_low": memorization.low,
        "memorization_high": memorization.high,
    }
    return replace(finding, evidence={**finding.evidence, **evidence})


def _limits(audit: StringChances, measured: Sequence[Measurement]) -> Iterator[str]:
    """Yield caveats that say how far the cheap controls are from the counterfactual."""
    gaps = {
        str(row.scope["control"]): row
        for row in measured
        if row.metric == "control_gap" and row.scope["set"] == ALL
    }
    names = {"base": "the base", "control": "strings that no member has"}
    for source, row in gaps.items():
        value = row.value or 0.0
        over = "less" if value < 0 else "more"
        yield (
            f"{audit.plugin}: the federation without {audit.without} gives the victim's strings "
            f"with a chance that is {abs(value):.3f} {over} than {names[source]} (difference "
            f"{row.low:.3f} to {row.high:.3f}): by so much the cheap control is off."
        )
