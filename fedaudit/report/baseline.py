"""What an audit shows that an earlier one, the baseline, did not: what a release is gated by.

A leak is new if the baseline asked the same questions and has no leak with the same attack, kind
and mask; an audit with other settings does not pass. A judged number is worse if the one-sided test
of its difference is significant after Holm correction over all numbers; the test takes the
confidence interval of the difference (`estimates.difference`) as normal. A judgement is new if it
fails now and did not in the baseline. Failures that the baseline already has do not fail the gate.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fedaudit.api.errors import InputError
from fedaudit.api.estimates import Estimate, difference
from fedaudit.report.checklist.leaks import CAME_OUT, disclosure_modes
from fedaudit.report.comparison import (
    LeakChange,
    changed_settings,
    comparison_notes,
    estimate_of,
    finding_identity,
    leak_changes,
    policy_difference,
    records_difference,
    row_key,
    seeds_differ,
)
from fedaudit.report.number_format import format_value
from fedaudit.report.query import Row, is_sweep
from fedaudit.report.tables.assessment import judged_name, shown_name
from fedaudit.report.verdict import attribution
from fedaudit.report.verdict.criteria import DEFAULT
from fedaudit.report.verdict.extraction import ANSWERS, NEW
from fedaudit.report.verdict.recheck import judged_rows, judgements, recheck, stated_policy

SIZES = {
    "coverage": "looked for targets:",
    "extraction_recall": "looked for targets:",
    ANSWERS: "drew answers:",
}
"""Metrics of extraction whose `n` is the number of targets or answers, and the words for it."""

Status = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """A judged number in both reports."""

    name: str
    plugin: str
    metric: str
    scope: Mapping[str, object]
    before: float
    now: float
    difference: Estimate
    """The number now minus the number before, with a 95 % interval."""
    p: float
    """The one-sided p value: how often chance alone makes the number at least this much worse."""
    adjusted: float
    """The p value after Holm correction over all judged numbers."""
    seen: float
    """The increase from which on it would be significant if this were the only number tested."""
    worse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineComparison:
    """An audit against its baseline, and whether it passes the gate."""

    status: Status
    reasons: Sequence[str]
    leaks: Sequence[LeakChange]
    numbers: Sequence[MetricChange]
    notes: Sequence[str]


def check_comparable(report: Row, name: str, refusal: str) -> Row:
    """Return a report that a baseline can be compared with, or that can be one.

    Raises InputError, which begins with the report's `name` or with `refusal`, unless its audit has
    finished and its verdict follows from its measurements.
    """
    if report["status"] != "success":
        raise InputError(f"{name} is of an audit that did not end: --resume it first.")
    checked = recheck(report)
    if not checked.holds:
        raise InputError(f"{refusal} {checked.message}")
    return report


def compare_with_baseline(baseline: Row, report: Row) -> BaselineComparison:
    """Return which leaks and failures are new in `report`, which disappeared and which stayed."""
    leaks = leak_changes(_verified_evidence(baseline), _verified_evidence(report))
    numbers = _numbers(baseline, report)
    # If masks differ, a new leak may be an old one under another key; and other questions find
    # other strings in the same model.
    new = [] if _unlike_masks(leaks) or _asked_otherwise(baseline, report) else leaks
    failing = [*_new_leaks(new), *_failures(numbers, baseline, report)]
    doubts = list(_doubts(leaks, baseline, report))
    status: Status = "fail" if failing else "inconclusive" if doubts else "pass"
    same = "Nothing is new, and nothing has got worse beyond what chance explains."
    return BaselineComparison(
        status=status,
        reasons=[*failing, *doubts] or [same],
        leaks=leaks,
        numbers=numbers,
        notes=[note for note in comparison_notes(baseline, report) if note not in doubts],
    )


def _verified_evidence(report: Row) -> dict[tuple[str, str], set[str]]:
    """Return the identities of verified leaks that came out of the model, by attack and kind."""
    evidence: dict[tuple[str, str], set[str]] = {}
    for finding, mode in zip(report["findings"], disclosure_modes(report), strict=True):
        if mode == CAME_OUT and finding["severity"] != "unverified":
            key = (finding["measurement"], finding["label"])
            evidence.setdefault(key, set()).add("\n".join(finding_identity(finding)))
    return evidence


def _numbers(baseline: Row, report: Row) -> list[MetricChange]:
    """Return every judged number that both reports have with an interval; higher is worse."""
    from scipy.special import ndtri

    from fedaudit.metrics.attribution.stouffer import holm

    estimates = {row_key(row): estimate_of(row) for row in baseline["measurements"]}
    pairs = [
        (name, row, before, after)
        for name, row in _judged_measurements(report).items()
        if (before := estimates.get(row_key(row))) and (after := estimate_of(row))
    ]
    gaps = [difference(after, before) for _, _, before, after in pairs]
    # The standard deviations that the lower halves of the intervals imply, and the wider halves: a
    # number at 0 has no lower half, and would have one if it were larger.
    z = -float(ndtri(0.025))
    spreads = [(gap.value - gap.low) / z for gap in gaps]
    wider = [max(gap.value - gap.low, gap.high - gap.value) / z for gap in gaps]
    p = [_tail(gap.value, spread) for gap, spread in zip(gaps, spreads, strict=True)]
    level = max(one["verdict"].get("level", DEFAULT.level) for one in (baseline, report))
    adjusted = holm(p)
    return [
        MetricChange(
            name=name,
            plugin=row["plugin"],
            metric=row["metric"],
            scope=row["scope"],
            before=before.value,
            now=after.value,
            difference=gaps[i],
            p=p[i],
            adjusted=adjusted[i],
            seen=-float(ndtri(level)) * wider[i],
            worse=adjusted[i] <= level,
        )
        for i, (name, row, before, after) in enumerate(pairs)
    ]


def _judged_measurements(report: Row) -> dict[str, Row]:
    judged_rows = (row for row in judgements(report) if row["measurement"])
    return {judged_name(row): row["measurement"] for row in judged_rows}


def _tail(increase: float, spread: float) -> float:
    """Return P(normal >= increase / spread); without any spread, 0 for an increase and else 1."""
    from scipy.special import ndtr

    if spread <= 0:
        return 0.0 if increase > 0 else 1.0
    return float(ndtr(-increase / spread))


def _asked_otherwise(baseline: Row, report: Row) -> bool:
    """Tell whether other questions were asked: then even the same model gives other strings."""
    return seeds_differ(baseline, report) or bool(changed_settings(baseline, report))


def _new_leaks(leaks: Sequence[LeakChange]) -> Iterator[str]:
    if new := sum(leak.appeared for leak in leaks):
        kinds = ", ".join(sorted({leak.label for leak in leaks if leak.appeared}))
        yield f"New and verified: {new:,} {'leak' if new == 1 else 'leaks'} ({kinds})."


def _failures(numbers: Sequence[MetricChange], baseline: Row, report: Row) -> Iterator[str]:
    """Yield the numbers that got worse, and the judgements that fail now but did not before."""
    for change in numbers:
        if change.worse:
            name = shown_name(change.plugin, change.metric, change.scope)
            before, now = (format_value(change.metric, v) for v in (change.before, change.now))
            yield f"{name} got worse: {before}, now {now}."
    earlier = {_question(j): _accused(j, baseline) for j in _failed(baseline)}
    for failed in _failed(report):
        accused = earlier.get(_question(failed))
        if accused is None or _accused(failed, report) - accused:
            yield f"Fails now and did not: {failed['reason']}"


def _failed(report: Row) -> list[Row]:
    return [judgement for judgement in judgements(report) if judgement["status"] == "fail"]


def _accused(judgement: Row, report: Row) -> set[str]:
    """Return the clients that a judgement of an attribution flags; none for other judgements."""
    if judgement["rule"] != attribution.RULE:
        return set()
    variant = str(judgement["measurement"]["scope"].get("variant", ""))
    tests = attribution.tested_clients(judged_rows(report)[0])
    return {test.client for test in tests if test.flagged and test.variant == variant}


def _doubts(leaks: Sequence[LeakChange], baseline: Row, report: Row) -> Iterator[str]:
    """Yield what cannot be told from these two reports."""
    if _unlike_masks(leaks):
        yield (
            "No leak is in both reports: where they were masked with different keys, what appeared"
            " and what went cannot be told."
        )
    if changes := changed_settings(baseline, report):
        yield f"Asked otherwise than the baseline: {changes}. Audit both with the same settings."
    appeared = sum(leak.appeared for leak in leaks)
    if appeared and not _unlike_masks(leaks) and _asked_otherwise(baseline, report):
        yield (
            f"Not in the baseline, which asked otherwise: {appeared:,} verified "
            f"{'leak' if appeared == 1 else 'leaks'}. Whether that is new cannot be told: audit "
            "both with one seed and the same options."
        )
    if policies := policy_difference(baseline, report):
        yield f"{policies} Judge both under one."
    now = {_question(judgement) for judgement in _measured(report)}
    names = {_question(judgement): _lost_name(judgement) for judgement in _measured(baseline)}
    yield from (f"{names[question]} and is not now." for question in names if question not in now)
    labels = _labels(report)
    for plugin, before in _labels(baseline).items():
        if lost := sorted(before - labels.get(plugin, set())):
            yield f"Looked for by {plugin} before and not now: {', '.join(lost)}."
    yield from _less_looked_for(baseline, report)
    yield from _no_longer_settled(baseline, report)
    if records := records_difference(baseline, report):
        yield records
    ran = {entry["class"] for entry in baseline.get("coverage", ()) if entry["status"] == "run"}
    for entry in report.get("coverage", ()):
        if entry["class"] in ran and entry["status"] != "run":
            yield f"{entry['class'].replace('_', ' ')} was run before and is not now."


def _less_looked_for(baseline: Row, report: Row) -> Iterator[str]:
    """Yield which attacks asked less than before, and that a leak may now have been missed."""
    before = {row_key(row): row["n"] or 0 for row in _sizes(baseline)}
    fewer = {
        f"{row['plugin']} {SIZES.get(row['metric'], row['metric'] + ', n:')} {row['n'] or 0:,}, "
        f"before {before[row_key(row)]:,}"
        for row in _sizes(report)
        if (row["n"] or 0) < before.get(row_key(row), 0)
    }
    yield from (f"Asked less than the baseline: {text}." for text in sorted(fewer))
    seen, now = (one["verdict"].get("detectable") for one in (baseline, report))
    limit = stated_policy(report).max_leak
    if seen is not None and now is not None and seen <= limit < now:
        yield (
            f"A leak of {seen:.1%} of the targets would have been seen before, now only one of "
            f"{now:.1%}."
        )


def _no_longer_settled(baseline: Row, report: Row) -> Iterator[str]:
    """Yield the judgements that passed before, and by this report neither pass nor fail."""
    passed = {_question(j) for j in judgements(baseline) if j["status"] == "pass"}
    yield from (
        f"Passed before, and is not settled now: {judgement['reason']}"
        for judgement in judgements(report)
        if judgement["status"] == "inconclusive" and _question(judgement) in passed
    )


def _sizes(report: Row) -> list[Row]:
    """Return the rows whose `n` says how much was asked.

    They are those of each attack's targets and answers, and what was judged, but for attributions,
    whose clients take part in rounds as they may.
    """
    asked = [
        row
        for row in report["measurements"]
        if row["metric"] in SIZES and row["scope"].get("source") == NEW and not is_sweep(row)
        if not {"label", "category"} & row["scope"].keys()
    ]
    judged = [j["measurement"] for j in judgements(report) if j["rule"] != attribution.RULE]
    return [*asked, *filter(None, judged)]


def _labels(report: Row) -> dict[str, set[str]]:
    """Return the kinds of data that each attack looked for."""
    labels: dict[str, set[str]] = {}
    for row in report["measurements"]:
        if row["value"] is not None and "label" in row["scope"]:
            labels.setdefault(row["plugin"], set()).add(str(row["scope"]["label"]))
    return labels


def _unlike_masks(leaks: Sequence[LeakChange]) -> bool:
    return (
        any(leak.appeared for leak in leaks)
        and any(leak.went for leak in leaks)
        and not any(leak.stayed for leak in leaks)
    )


def _measured(report: Row) -> list[Row]:
    """Return the judgements whose measurement has a value, and attributions that are decided."""
    judged = [(judgement, judgement["measurement"]) for judgement in judgements(report)]
    return [
        judgement
        for judgement, row in judged
        if row and row["value"] is not None
        if (judgement["rule"], judgement["status"]) != (attribution.RULE, "inconclusive")
    ]


def _lost_name(judgement: Row) -> str:
    if judgement["rule"] == attribution.RULE:
        return f"The attribution by {judgement['measurement']['plugin']} was decided before"
    return f"{judged_name(judgement)} was measured before"


def _question(judgement: Row) -> tuple[str, str]:
    """Return what a judgement is about, the same in two reports.

    An attribution is judged as a whole, by the client with the highest statistic, whoever that is.
    """
    row, rule = judgement["measurement"], judgement["rule"]
    if row and rule == attribution.RULE:
        return rule, str(row["scope"].get("variant", ""))
    return rule, judged_name(judgement)
