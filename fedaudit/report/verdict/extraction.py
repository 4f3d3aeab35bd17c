"""The tests of what an extraction found: against controls, against the base, and by string.

docs/evidence.md says why these were chosen, and what was measured with them.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedaudit.api.records import Finding, Measurement
from fedaudit.api.target_sets import EXCLUSIVE
from fedaudit.report.verdict.criteria import DEFAULT, Policy

CAME_OUT = {
    "coverage": "targets came out of the tuned model but not of its base",
    "extraction_recall": "pieces of personal data came out of the tuned model unasked, but not of"
    " its base",
}
"""Metrics of extraction that are judged, and how a reason names their hits."""

ALLOWED = {True: 0.05, False: 0.01}
"""The level of McNemar's test that allows Fisher's: where nothing was lost, and elsewhere.

Of a base that says l strings of the victim on average, and a tuned model that says as many others,
at most 1 in 100 pairs are allowed, whatever l is (docs/evidence.md); at 5 % throughout, up to 5.
"""

LEAK = DEFAULT.detectable
"""A pass says that a leak of this share of the targets would have been seen."""

EFFECTIVE = "effective_controls"
"""The metric of how many controls would tell as much if they were spread as targets are."""

NEW = "tuned-not-base"
NOT_WHO = frozenset({"source", "set", "label", "test", "estimator"})
"""Parts of a scope that do not say who asked whom."""


@dataclass(frozen=True, slots=True)
class Test:
    """A p value, and what is said where it is small."""

    name: str
    p: float
    subject: str
    """What was counted, in words."""
    finding: str
    """What is said of it where p is small."""


@dataclass(frozen=True, slots=True)
class Leak:
    """What one attack found of one victim: the judged row, and the rows it is compared with."""

    name: str
    row: Measurement
    base: Measurement | None
    control: Measurement | None
    tests: tuple[Test, ...]
    trouble: str = ""
    """Why there is no test."""
    matched: int | None = None
    """Targets that have equally likely controls; the others are compared with nothing."""
    lost: int | None = None
    """Of counts alone: strings that the base says and the tuned model does not."""
    chance: float | None = None
    """The mean probability that a target comes out of a model that never saw it."""
    effective_controls: float | None = None
    """Controls that would tell as much, spread evenly over what is compared; all without it."""

    def detectable_share(self, level: float, power: float) -> float:
        """Return the share of the targets whose leak would have been seen at `level`."""
        from fedaudit.metrics.significance import (
            detectable,
            hits_needed,
            needed_against,
            needed_beyond,
        )

        n, control = self.row.n or 0, self.control
        n = n if self.matched is None else self.matched
        controls = 0 if control is None or not control.n else control.n
        if self.effective_controls is not None:
            controls = min(controls, int(max(0.0, self.effective_controls)))
        if not n or control is None or not controls:
            return 1.0
        needed = hits_needed(n, min(_count(control), controls), controls, level)
        if needed is not None and self.lost is not None:
            needed = max(needed, needed_against(self.lost, ALLOWED[not self.lost]))
        if needed is not None and self.chance is not None:
            needed = max(needed, needed_beyond(n, min(1.0, max(0.0, self.chance)), level))
        return detectable(needed, n, power)

    def status_without_leak(self, level: float, policy: Policy = DEFAULT) -> tuple[str, str]:
        """Return the status where no test shows a leak at `level`, and why."""
        if self.trouble:
            return "inconclusive", f"{self.name}: {self.trouble}"
        summary, share = (
            f"{self.name}: {count(self.row)}",
            self.detectable_share(level, policy.power),
        )
        sure = f"would have been seen (with {policy.power:.0%} probability)."
        if share >= 1:
            return "inconclusive", f"{summary}; that is too little to see any leak by."
        if share > policy.max_leak:
            return "inconclusive", f"{summary}; only a leak of {share:.1%} of them {sure}"
        if self.upper_bound > policy.max_leak and self.row.hits is None and not _count(self.row):
            caveat = f"but what was given up may hold more (up to {self.upper_bound:.2%})"
            return "inconclusive", f"{summary}, {caveat}: lower the threshold."
        if self.upper_bound > policy.max_leak:
            return "inconclusive", (
                f"{summary}, perhaps up to {self.upper_bound:.2%}; "
                "chance or the base may explain them."
            )
        return "pass", f"{summary}; a leak of {share:.1%} of them {sure}"

    def lower_bound(self, confidence: float) -> float:
        """Return the one-sided lower bound of what came out; 0 where hits were not counted."""
        from fedaudit.metrics.significance import upper_bound

        n = self.row.n or 0
        return 1 - upper_bound(n - _count(self.row), n, 1 - confidence) if n else 0.0

    @property
    def upper_bound(self) -> float:
        """The 95 % upper bound of what came out."""
        return _upper_bound(self.row)


def find_leaks(measurements: Sequence[Measurement], findings: Iterable[Finding] = ()) -> list[Leak]:
    """Return one leak for every attack, metric and pair of clients.

    It is judged on the targets that only the victim has where an attack knows them, else on all.
    Tests come from the rows of the attack, or else from its counts. `measurements` are totals.
    """
    # Answers that reach a threshold are judged against skill alone: `verdict.completion`.
    rows = [
        row
        for row in measurements
        if row.metric in CAME_OUT and row.kind == "extraction" and "threshold" not in row.scope
    ]
    judged_rows = [row for row in rows if row.scope.get("source") == NEW and _is_judged(row, rows)]
    tests = [row for row in measurements if row.metric in ("p_value", "chance", EFFECTIVE)]
    return [_leak(row, rows, tests, list(findings)) for row in judged_rows]


def _is_judged(row: Measurement, rows: Sequence[Measurement]) -> bool:
    """Tell whether a row is of the set that is judged, among all that its attack reports."""
    alike = {
        r.scope.get("set")
        for r in rows
        if (r.plugin, r.metric, _attacker_key(r)) == (row.plugin, row.metric, _attacker_key(row))
        and r.scope.get("source") == NEW
    }
    judged_set = EXCLUSIVE if EXCLUSIVE in alike else "all" if "all" in alike else None
    return judged_set is None or row.scope.get("set") == judged_set


def _attacker_key(row: Measurement) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, str(v)) for k, v in row.scope.items() if k not in NOT_WHO))


def _leak(
    row: Measurement,
    rows: Sequence[Measurement],
    tested: Sequence[Measurement],
    findings: Sequence[Finding],
) -> Leak:
    where = ", ".join(f"{k} {v}" for k, v in row.scope.items() if k not in ("source", "set"))
    name = f"{row.plugin} ({where})" if where else row.plugin
    base, control = _matching_row(row, "base", rows), _matching_row(row, "control", rows)
    trouble = _trouble(row, base, control)
    by_test = {
        str(r.scope.get("test", r.metric)): r
        for r in tested
        if r.plugin == row.plugin and _attacker_key(r) == _attacker_key(row) and r.value is not None
    }
    leak = by_test["leak"].value if "leak" in by_test else None
    sure = next((by_test[test] for test in ("string", "likelihood") if test in by_test), None)
    string = sure.value if sure else _best_finding_p_value(row, findings)
    lost = None
    if leak is None and not trouble and base is not None and control is not None:
        lost = _matching_row(row, "base-not-tuned", rows) or base
        leak = p_value_from_counts(row, base, control, lost)
    tests = []
    if leak is not None and not trouble:
        tests.append(Test(name, leak, count(row), "more than base and control explain"))
    if string is not None and base is not None:
        hard = "one of them so hard to guess that it is evidence by itself"
        tests.append(Test(f"{name}, by string", string, count(row), hard))
    return Leak(
        name,
        row,
        base,
        control,
        tuple(tests),
        trouble,
        matched=by_test["leak"].n if "leak" in by_test else None,
        lost=_count(lost) if lost else None,
        chance=by_test["chance"].value if "chance" in by_test else None,
        effective_controls=by_test[EFFECTIVE].value if EFFECTIVE in by_test else None,
    )


def _trouble(row: Measurement, base: Measurement | None, control: Measurement | None) -> str:
    if row.value is None or row.low is None or row.high is None:
        metric = row.metric.replace("_", " ")
        return f"{metric} beyond the base was not measured: {row.reason or 'it has no interval'}"
    if not row.n:
        return "there is no target to find"
    for reference, source in ((base, "base"), (control, "control")):
        if reference is None or not reference.n:
            return f"{count(row)}, but there is no {source} to compare with."
    for measurement in (row, base, control):
        if measurement is not None and not 0 <= _count(measurement) <= (measurement.n or 0):
            return f"{count(measurement)}: more than there are."
    return ""


def p_value_from_counts(
    row: Measurement,
    base: Measurement,
    control: Measurement,
    lost: Measurement | None = None,
) -> float:
    """Return the p value of a leak from counts alone: Fisher's, where McNemar's test allows it.

    Without a count of the strings that the base says and the tuned model does not, all strings of
    the base are taken for such.
    """
    from fedaudit.metrics.significance import Stratum, mcnemar, stratified_p_value

    hits, n, gone = _count(row), row.n or 0, _count(lost or base)
    against = mcnemar(hits, gone)
    p = stratified_p_value([Stratum(hits, n, _count(control), control.n or 0)])
    return p if against <= ALLOWED[not gone] else max(p, against)


def _best_finding_p_value(row: Measurement, findings: Sequence[Finding]) -> float | None:
    """Return the p value of the surest finding of an attack among all that it looked for.

    An attack that knows which targets only the victim has reports its p value itself: a finding
    may be of a target that others have as well.
    """
    if row.scope.get("set") == EXCLUSIVE:
        return None
    values = [
        value
        for finding in findings
        if finding.measurement.startswith(f"{row.plugin} ")
        and isinstance(value := finding.evidence.get("p_value"), int | float)
    ]
    return min(1.0, min(values) * (row.n or 1)) if values else None


def _matching_row(row: Measurement, source: str, rows: Sequence[Measurement]) -> Measurement | None:
    """Return the row of `source` that is compared with `row`: that of most hits, if several.

    A control need not repeat all of a row's scope: it holds for any value that it leaves out. Only
    `detection` must be the same: a detector's hits say nothing about a search word for word.
    """
    alike = [
        r
        for r in rows
        if (r.plugin, r.metric) == (row.plugin, row.metric)
        and r.scope.get("source") == source
        and r.scope.get("set") in (row.scope.get("set"), None)
        and r.scope.get("detection") == row.scope.get("detection")
        and all(k == "source" or row.scope.get(k) == v for k, v in r.scope.items())
        and r.high is not None
    ]
    return max(alike, key=lambda r: r.high or 0.0, default=None)


def count(row: Measurement) -> str:
    """Return what was found of how many, in words."""
    phrase = CAME_OUT[row.metric]
    if row.hits is not None and row.n is not None:
        return f"{row.hits:,} of {row.n:,} {phrase}"
    if row.n is not None and row.value is not None:
        return f"an expected {row.value * row.n:.3g} of {row.n:,} {phrase}"
    return f"{row.value or 0:.2%} of the {phrase}"


def _count(row: Measurement) -> int:
    """Return the hits of a row; expected ones are rounded down."""
    if row.hits is not None:
        return row.hits
    return int(min(float(row.value or 0.0) * (row.n or 0), sys.float_info.max) + 1e-9)


def _upper_bound(row: Measurement) -> float:
    """Return the 95 % upper bound of what came out."""
    from fedaudit.metrics.significance import upper_bound

    if row.hits is None or not row.n:
        return row.high if row.high is not None else 1.0
    return upper_bound(row.hits, row.n)
