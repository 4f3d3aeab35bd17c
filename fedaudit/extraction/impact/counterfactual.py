"""Counterfactual memorization of strings: how much likelier they come out than without the client.

Zhang et al. 2023 (arXiv:2112.12938): the chance with a record in training less that without it.
Here a whole client is left out, and both chances are of one training each.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fedaudit.api.estimates import Estimate
from fedaudit.api.plugin import Result
from fedaudit.api.records import Finding, Measurement
from fedaudit.extraction.leak_tests import share_estimate
from fedaudit.extraction.targets import ALL, EXCLUSIVE, TargetSet
from fedaudit.metrics.counterfactual import difference, drawn_chance
from fedaudit.metrics.significance import mcnemar

KIND = "counterfactual"
R = TypeVar("R", bound=Result)
Chances = Mapping[str, Estimate]
NONE = Estimate(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StringChances:
    """How likely an audit draws each string once or more, from each of the models."""

    plugin: str
    truth: TargetSet
    without: str
    """The client that the counterfactual model was trained without."""
    tuned: Chances
    counterfactual: Chances
    base: Chances | None
    control: Mapping[str, float] = field(default_factory=dict)
    """By the tuned model, of strings that nobody has."""
    sampled: bool = True
    seed: int = 0

    def memorization(self, string: str) -> Estimate:
        """Return a string's chance with the client less that without it."""
        own, other = self.tuned.get(string, NONE), self.counterfactual.get(string, NONE)
        return difference(own, other)


def drawn_chances(counts: Mapping[str, int], strings: Iterable[str]) -> dict[str, Estimate]:
    """Return the chance of each string from how often an audit drew it."""
    return {string: drawn_chance(counts.get(string, 0)) for string in strings}


def compared(result: R, found: StringChances) -> R:
    """Return a result with the rows of the counterfactual, and what it says of each finding.

    Findings and their plain text (`revealed`) stand in one order.
    """
    strings = [str(finding.evidence.get("text", "")) for finding in result.findings]
    told = [_told(one, found, s) for one, s in zip(result.findings, strings, strict=True)]
    return replace(
        result,
        measurements=(*result.measurements, *rows(found)),
        findings=tuple(told),
        limits=(*result.limits, *_limits(found)),
    )


def rows(found: StringChances) -> Iterator[Measurement]:
    """Yield the mean over all strings, over those that only the victim has, and by label."""
    truth = found.truth
    sets: dict[str, Collection[str]] = {ALL: truth.labels.keys(), EXCLUSIVE: truth.exclusive}
    for name, strings in sets.items():
        if strings:
            yield from _rows(found, sorted(strings), {"set": name})
    for label, strings in truth.by_label().items():
        yield _memorized(found, sorted(strings), {"set": ALL, "label": label})


def _rows(
    found: StringChances, strings: Sequence[str], at: Mapping[str, object]
) -> Iterator[Measurement]:
    yield _memorized(found, strings, at)
    means = {"tuned": _mean(found, found.tuned, strings)}
    means[KIND] = _mean(found, found.counterfactual, strings)
    if found.base is not None:
        means["base"] = _mean(found, found.base, strings)
    if found.control:
        values = [value for _, value in sorted(found.control.items())]
        means["control"] = share_estimate(values, [""] * len(values), found.seed)
    for source, mean in means.items():
        n = len(found.control) if source == "control" else len(strings)
        yield _row(found, "mean_chance", mean, n, {**at, "source": source})
    for source in ("base", "control"):
        if source in means:
            gap = difference(means[KIND], means[source])
            yield _row(found, "control_gap", gap, len(strings), {**at, "control": source})
    if found.sampled:
        yield _mcnemar(found, strings, at)


def _memorized(
    found: StringChances, strings: Sequence[str], at: Mapping[str, object]
) -> Measurement:
    own, other = (_mean(found, some, strings) for some in (found.tuned, found.counterfactual))
    return _row(found, "counterfactual_memorization", difference(own, other), len(strings), at)


def _mcnemar(found: StringChances, strings: Sequence[str], at: Mapping[str, object]) -> Measurement:
    """Return the p value of strings that one model alone gave (McNemar, exact, one-sided)."""
    gained = sum(_has(found.tuned, s) and not _has(found.counterfactual, s) for s in strings)
    lost = sum(_has(found.counterfactual, s) and not _has(found.tuned, s) for s in strings)
    return Measurement(
        kind=KIND,
        plugin=found.plugin,
        metric="p_value",
        value=mcnemar(gained, lost),
        n=gained + lost,
        hits=gained,
        scope={**at, "without": found.without, "test": KIND},
    )


def _has(chances: Chances, string: str) -> bool:
    return chances.get(string, NONE).value > 0


def _mean(found: StringChances, chances: Chances, strings: Sequence[str]) -> Estimate:
    """Return the mean chance, with what other strings of their kind would give."""
    values = [min(1.0, max(0.0, chances.get(string, NONE).value)) for string in strings]
    groups = [found.truth.groups.get(string, "") for string in strings]
    return share_estimate(values, groups, found.seed)


def _row(
    found: StringChances, metric: str, mean: Estimate, n: int, at: Mapping[str, object]
) -> Measurement:
    scope = {**at, "without": found.without}
    if not found.sampled:
        scope["estimator"] = "exact"
    return Measurement.mean(mean, n, kind=KIND, plugin=found.plugin, metric=metric, scope=scope)


def _told(finding: Finding, found: StringChances, string: str) -> Finding:
    """Return a finding with what the counterfactual says of its string."""
    if string not in found.counterfactual:
        return finding
    own = found.memorization(string)
    evidence = {
        "chance_without": found.counterfactual[string].value,
        "memorization": own.value,
        "memorization_low": own.low,
        "memorization_high": own.high,
    }
    return replace(finding, evidence={**finding.evidence, **evidence})


def _limits(found: StringChances) -> Iterator[str]:
    """Yield by how much the cheap controls and the counterfactual differ, in words."""
    gaps = {
        str(row.scope["control"]): row
        for row in rows(found)
        if row.metric == "control_gap" and row.scope["set"] == ALL
    }
    names = {"base": "the base", "control": "strings that nobody has"}
    for source, row in gaps.items():
        value = row.value or 0.0
        over = "less" if value < 0 else "more"
        yield (
            f"{found.plugin}: the federation without {found.without} gives the victim's strings "
            f"with a chance that is {abs(value):.3f} {over} than {names[source]} (difference "
            f"{row.low:.3f} to {row.high:.3f}): by so much the cheap control is off."
        )
