"""The tests of what an extraction found: against what nobody has, against the base, by string.

docs/evidence.md says why these, and what was measured of them.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedaudit.api.records import Finding, Measurement
from fedaudit.report.verdict.criteria import DEFAULT, Policy

EXCLUSIVE = "exclusive"
"""scope.set of the targets that are judged where an attack tells them from others."""

CAME_OUT = {
    "coverage": "targets came out of the tuned model but not of its base",
    "extraction_recall": "pieces of personal data came out of the tuned model unasked, but not of"
    " its base",
}
"""Metrics of extraction that are judged, and what is said of their hits."""

ALLOWED = {True: 0.05, False: 0.01}
"""The level of McNemar's test that allows Fisher's: where nothing was lost, and elsewhere.

Of a base that says l strings of the victim on average, and a tuned model that says as many others,
at most 1 in 100 pairs are allowed, whatever l is (docs/evidence.md); at 5 % throughout, up to 5.
"""

LEAK = DEFAULT.detectable
"""A pass says that a leak of this share of the targets would have been seen."""

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
    """What one attack found of one victim: the row that is judged, and what it is held against."""

    name: str
    row: Measurement
    base: Measurement | None
    control: Measurement | None
    tests: tuple[Test, ...]
    trouble: str = ""
    """Why there is no test."""
    matched: int | None = None
    """Targets that have controls which are as likely: the others are compared with nothing."""
    lost: int | None = None
    """Of counts alone: strings that the base says and the tuned model does not."""
    chance: float | None = None
    """The mean probability that a target comes out of a model that never saw it."""

    def seen(self, level: float, power: float) -> float:
        """Return the share of the targets whose leak would have been seen at `level`."""
        from fedaudit.metrics.significance import (
            detectable,
            hits_needed,
            needed_against,
            needed_beyond,
        )

        n, control = self.row.n or 0, self.control
        n = n if self.matched is None else self.matched
        if not n or control is None or not control.n:
            return 1.0
        needed = hits_needed(n, _count(control), control.n, level)
        if needed is not None and self.lost is not None:
            needed = max(needed, needed_against(self.lost, ALLOWED[not self.lost]))
        if needed is not None and self.chance is not None:
            needed = max(needed, needed_beyond(n, min(1.0, max(0.0, self.chance)), level))
        return detectable(needed, n, power)

    def otherwise(self, level: float, policy: Policy = DEFAULT) -> tuple[str, str]:
        """Return the status where no test tells of a leak at `level`, and why."""
        if self.trouble:
            return "inconclusive", f"{self.name}: {self.trouble}"
        told, seen = f"{self.name}: {count(self.row)}", self.seen(level, policy.power)
        sure = f"would have been seen (with {policy.power:.0%} probability)."
        if seen >= 1:
            return "inconclusive", f"{told}; that is too little to see any leak by."
        if seen > policy.most:
            return "inconclusive", f"{told}; only a leak of {seen:.1%} of them {sure}"
        if self.most > policy.most and self.row.hits is None and not _count(self.row):
            more = f"but what was given up may hold more (up to {self.most:.2%})"
            return "inconclusive", f"{told}, {more}: lower the threshold."
        if self.most > policy.most:
            return "inconclusive", (
                f"{told}, perhaps up to {self.most:.2%}; chance or the base may explain them."
            )
        return "pass", f"{told}; a leak of {seen:.1%} of them {sure}"

    def least(self, confidence: float) -> float:
        """Return the one-sided lower bound of what came out; 0 where hits were not counted."""
        from fedaudit.metrics.significance import upper_bound

        n = self.row.n or 0
        return 1 - upper_bound(n - _count(self.row), n, 1 - confidence) if n else 0.0

    @property
    def most(self) -> float:
        """The 95 % upper bound of what came out."""
        return _most(self.row)


def find_leaks(measurements: Sequence[Measurement], findings: Iterable[Finding] = ()) -> list[Leak]:
    """Return what was judged of every attack, metric and pair of clients.

    That is the set of targets that only the victim has where an attack knows it, else all of them.
    Tests come from the rows of the attack, or else from its counts. `measurements` are totals.
    """
    # Answers that reach a threshold are judged by what skill gives: `verdict.completion`.
    rows = [
        row
        for row in measurements
        if row.metric in CAME_OUT and row.kind == "extraction" and "threshold" not in row.scope
    ]
    judged = [row for row in rows if row.scope.get("source") == NEW and _judged(row, rows)]
    tests = [row for row in measurements if row.metric in ("p_value", "chance")]
    return [_leak(row, rows, tests, list(findings)) for row in judged]


def _judged(row: Measurement, rows: Sequence[Measurement]) -> bool:
    """Tell whether this is the set that is judged of all that this attack reports."""
    alike = {
        other.scope.get("set")
        for other in rows
        if (other.plugin, other.metric, _who(other)) == (row.plugin, row.metric, _who(row))
        and other.scope.get("source") == NEW
    }
    wanted = EXCLUSIVE if EXCLUSIVE in alike else "all" if "all" in alike else None
    return wanted is None or row.scope.get("set") == wanted


def _who(row: Measurement) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, str(v)) for k, v in row.scope.items() if k not in NOT_WHO))


def _leak(
    row: Measurement,
    rows: Sequence[Measurement],
    tested: Sequence[Measurement],
    findings: Sequence[Finding],
) -> Leak:
    where = ", ".join(f"{k} {v}" for k, v in row.scope.items() if k not in ("source", "set"))
    name = f"{row.plugin} ({where})" if where else row.plugin
    base, control = _like(row, "base", rows), _like(row, "control", rows)
    trouble = _trouble(row, base, control)
    own = {
        str(one.scope.get("test", one.metric)): one
        for one in tested
        if one.plugin == row.plugin and _who(one) == _who(row) and one.value is not None
    }
    leak = own["leak"].value if "leak" in own else None
    sure = next((own[test] for test in ("string", "likelihood") if test in own), None)
    string = sure.value if sure else _surest(row, findings)
    lost = None
    if leak is None and not trouble and base is not None and control is not None:
        lost = _like(row, "base-not-tuned", rows) or base
        leak = of_counts(row, base, control, lost)
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
        matched=own["leak"].n if "leak" in own else None,
        lost=_count(lost) if lost else None,
        chance=own["chance"].value if "chance" in own else None,
    )


def _trouble(row: Measurement, base: Measurement | None, control: Measurement | None) -> str:
    if row.value is None or row.low is None or row.high is None:
        what = row.metric.replace("_", " ")
        return f"{what} beyond the base was not measured: {row.reason or 'it has no interval'}"
    if not row.n:
        return "there is no target to find"
    for other, source in ((base, "base"), (control, "control")):
        if other is None or not other.n:
            return f"{count(row)}, but there is no {source} to compare with."
    for one in (row, base, control):
        if one is not None and not 0 <= _count(one) <= (one.n or 0):
            return f"{count(one)}: more than there are."
    return ""


def of_counts(
    row: Measurement,
    base: Measurement,
    control: Measurement,
    lost: Measurement | None = None,
) -> float:
    """Return the p value of a leak from counts alone: Fisher's, where McNemar's test allows it.

    Where nobody says how many strings the base says and the tuned model does not, it is taken that
    these are all that the base says.
    """
    from fedaudit.metrics.significance import Stratum, mcnemar, stratified_p_value

    hits, n, gone = _count(row), row.n or 0, _count(lost or base)
    against = mcnemar(hits, gone)
    p = stratified_p_value([Stratum(hits, n, _count(control), control.n or 0)])
    return p if against <= ALLOWED[not gone] else max(p, against)


def _surest(row: Measurement, findings: Sequence[Finding]) -> float | None:
    """Return the p value of the surest finding of an attack among all that it looked for.

    An attack that knows what is the victim's alone tells its p value itself: a finding may be of
    what others have as well.
    """
    if row.scope.get("set") == EXCLUSIVE:
        return None
    values = [
        value
        for one in findings
        if one.measurement.startswith(f"{row.plugin} ")
        and isinstance(value := one.evidence.get("p_value"), int | float)
    ]
    return min(1.0, min(values) * (row.n or 1)) if values else None


def _like(row: Measurement, source: str, rows: Sequence[Measurement]) -> Measurement | None:
    """Return the row of `source` that is compared with `row`: that of most hits, if several.

    A control need not repeat all of a row's scope: what it leaves out, it holds for. Only how texts
    were searched must be the same: what a detector finds says nothing of a search word for word.
    """
    alike = [
        other
        for other in rows
        if (other.plugin, other.metric) == (row.plugin, row.metric)
        and other.scope.get("source") == source
        and other.scope.get("set") in (row.scope.get("set"), None)
        and other.scope.get("detection") == row.scope.get("detection")
        and all(k == "source" or row.scope.get(k) == at for k, at in other.scope.items())
        and other.high is not None
    ]
    return max(alike, key=lambda other: other.high or 0.0, default=None)


def count(row: Measurement) -> str:
    """Return what was found of how many, in words."""
    what = CAME_OUT[row.metric]
    if row.hits is not None and row.n is not None:
        return f"{row.hits:,} of {row.n:,} {what}"
    if row.n is not None and row.value is not None:
        return f"an expected {row.value * row.n:.3g} of {row.n:,} {what}"
    return f"{row.value or 0:.2%} of the {what}"


def _count(row: Measurement) -> int:
    """Return the hits of a row; expected ones are rounded down."""
    if row.hits is not None:
        return row.hits
    return int(min(float(row.value or 0.0) * (row.n or 0), sys.float_info.max) + 1e-9)


def _most(row: Measurement) -> float:
    """Return the 95 % upper bound of what came out."""
    from fedaudit.metrics.significance import upper_bound

    if row.hits is None or not row.n:
        return row.high if row.high is not None else 1.0
    return upper_bound(row.hits, row.n)
