"""What an extraction found: tests against controls, against the base and by string, and its reach.

docs/evidence.md gives the reasons for these tests and the measurements made with them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from fedaudit.api.completion import HELD_OUT
from fedaudit.api.kind import Test
from fedaudit.api.records import Finding, Measurement
from fedaudit.api.target_sets import BEYOND_REACH, EXCLUSIVE
from fedaudit.report.query import row_name
from fedaudit.report.verdict.leak import ALLOWED, CAME_OUT, KindEvidence, Leak, count, count_hits
from fedaudit.report.verdict.unasked import SKIPPED, count_unasked, unasked_beside

ANSWERS = "efficiency"
"""The metric whose row counts the answers that were drawn."""

EFFECTIVE = "effective_controls"
"""The metric of the effective number of controls: how many, spread like the targets, would give
the same information.
"""

NEW, KNOWN = "tuned-not-base", "known"
SHARED = "shared_targets"
"""The metric of rows that count the targets that other members have, and those that came out."""
GAIN_SCORE = "gain_score"
"""The metric of how much more a string gained in training than control strings in its place."""
SIDES = ("attacker", "victim")
NOT_WHO = frozenset({"source", "set", "label", "test", "estimator", "groups", "beside"})
"""The parts of a scope other than the attacker and the victim."""


def find_leaks(
    measurements: Sequence[Measurement],
    findings: Iterable[Finding] = (),
    rows_by_kind: Sequence[Measurement] = (),
) -> list[Leak]:
    """Return one leak for every attack, metric and pair of clients.

    A leak is judged on the targets that only the victim has, if the attack knows them, else on all
    targets. Tests come from the attack's rows, or else from its counts. `measurements` are totals.
    """
    # `verdict.completion` judges answers that reach a threshold, by comparison with skill.
    rows = [
        row
        for row in measurements
        if row.metric in CAME_OUT and row.kind == "extraction" and "threshold" not in row.scope
    ]
    test_metrics = ("p_value", "chance", EFFECTIVE, ANSWERS, SHARED)
    labelled = [row for row in rows_by_kind if "label" in row.scope and row.kind == "extraction"]
    attacks: dict[object, _AttackRows] = defaultdict(_AttackRows)
    comparable: dict[object, list[Measurement]] = defaultdict(list)
    for row in rows:
        attacks[_attack_key(row)].counts.append(row)
        key = _comparison_key(row, *(row.scope.get(k, "") for k in ("source", *SIDES)))
        comparable[key].append(row)
    for row in measurements:
        if row.metric in test_metrics and row.value is not None:
            attacks[_attack_key(row)].tests[str(row.scope.get("test", row.metric))] = row
        if row.metric == SKIPPED and "label" not in row.scope:
            attacks[_attack_key(row)].skipped.append(row)
    for row in labelled:
        attacks[_attack_key(row)].labelled.append(row)
    findings = list(findings)
    unasked = count_unasked(labelled)
    return [
        _leak(
            row,
            attack,
            comparable,
            [one for one in findings if _is_of(one, row)],
            unasked_beside(row, unasked),
        )
        for row in rows
        for attack in [attacks[_attack_key(row)]]
        if row.scope.get("source") == NEW and _is_judged(row, attack.counts)
    ]


@dataclass(frozen=True)
class _AttackRows:
    """What one attack reported of one attacker and victim, under one key."""

    counts: list[Measurement] = field(default_factory=list)
    """How many targets came out."""
    tests: dict[str, Measurement] = field(default_factory=dict)
    """By the name of the test, or else of the metric."""
    labelled: list[Measurement] = field(default_factory=list)
    skipped: list[Measurement] = field(default_factory=list)


def _attack_key(row: Measurement) -> object:
    """Return which attack this is, who attacked whom, and under which key."""
    who = sorted((k, str(v)) for k, v in row.scope.items() if k not in NOT_WHO)
    return row.plugin, tuple(who)


def _comparison_key(row: Measurement, *source_and_sides: object) -> object:
    return row.plugin, row.metric, *map(str, source_and_sides)


def _is_judged(row: Measurement, counts: Sequence[Measurement]) -> bool:
    new = (r for r in counts if r.scope.get("source") == NEW)
    alike = {r.scope.get("set") for r in new if r.metric == row.metric}
    judged_set = EXCLUSIVE if EXCLUSIVE in alike else "all" if "all" in alike else None
    return judged_set is None or row.scope.get("set") == judged_set


def _is_of(finding: Finding, row: Measurement) -> bool:
    """Tell whether a row's attack made a finding, and of the same attacker and victim."""
    sides = {side: row.scope[side] for side in SIDES if side in row.scope}
    return finding.measurement.startswith(f"{row.plugin} ") and all(
        finding.evidence.get(side, name) == name for side, name in sides.items()
    )


def _leak(
    row: Measurement,
    attack: _AttackRows,
    comparable: Mapping[object, Sequence[Measurement]],
    findings: Sequence[Finding],
    unasked: int,
) -> Leak:
    base, control, held_out, lost = (
        _matching_row(row, source, comparable)
        for source in ("base", "control", HELD_OUT, "base-not-tuned")
    )
    name, trouble = row_name(row, "set"), _trouble(row, base, control, held_out)
    by_test = attack.tests
    lost = (lost or base) if not trouble and "leak" not in by_test else None
    tests: list[Test] = []
    if not trouble and base is not None and control is not None:
        p = _leak_p_value(row, base, control, held_out, lost, by_test)
        others = "base, control and held-out records" if held_out else "base and control"
        tests.append(Test(name, p, count(row), f"more than {others} explain"))
    kinds = _kinds(row, attack, control)
    string = _string_p_value(row, by_test, findings)
    if string is not None and base is not None:
        hard = "one of them so hard to guess that it alone proves a leak"
        tests.append(Test(f"{name}, by string", string, count(row), hard))
    return Leak(
        name,
        row,
        base,
        control,
        tuple(tests),
        trouble,
        matched=by_test["leak"].n if "leak" in by_test else None,
        lost=count_hits(lost) if lost else None,
        chance=by_test["chance"].value if "chance" in by_test else None,
        effective_controls=by_test[EFFECTIVE].value if EFFECTIVE in by_test else None,
        held_out=held_out,
        held_out_groups=_group_count(by_test.get(HELD_OUT)),
        kinds=kinds,
        skipped=sum(int(other.value or 0) for other in attack.skipped)
        - sum(kind.skipped for kind in kinds)
        + unasked,
        high=sum(finding.severity == "high" for finding in findings),
        shared_hits=by_test[SHARED].hits or 0 if SHARED in by_test else 0,
        answers=by_test[ANSWERS].n if ANSWERS in by_test else None,
    )


def _kinds(
    row: Measurement, attack: _AttackRows, control: Measurement | None
) -> tuple[KindEvidence, ...]:
    """Return the kinds of the targets of a row, or all targets as one kind without a label."""
    alike = [r for r in attack.labelled if r.scope.get("set") == row.scope.get("set")]
    labels = {
        str(r.scope["label"]): r.n
        for r in alike
        if (r.metric, r.scope.get("source")) == (row.metric, NEW) and r.n
    }
    # An attack may count targets by kind, and positive controls of all kinds together only.
    if any(r.scope.get("source") == KNOWN or r.metric == GAIN_SCORE for r in alike):
        beyond = {
            str(r.scope["label"]): int(r.value or 0)
            for r in attack.labelled
            if (r.metric, r.scope.get("set")) == (SKIPPED, BEYOND_REACH)
        }
        return tuple(
            replace(_kind(label, n, alike, row.metric), skipped=beyond.get(label, 0))
            for label, n in sorted(labels.items())
        )
    of_metric = (r for r in attack.counts if r.metric == row.metric)
    known = next((r for r in of_metric if r.scope.get("source") == KNOWN), None)
    chance = attack.tests.get("chance")
    return (
        KindEvidence(
            label="",
            n=row.n or 0,
            control_hits=count_hits(control) if control else 0,
            controls=(control.n or 0) if control else 0,
            chance=chance.value if chance else None,
            known_hits=count_hits(known) if known else 0,
            known=(known.n or 0) if known else 0,
        ),
    )


def _kind(label: str, n: int, alike: Sequence[Measurement], metric: str) -> KindEvidence:
    def find(name: str, source: str, test: str | None = None) -> Measurement | None:
        found = (
            r
            for r in alike
            if (r.metric, r.scope.get("source"), r.scope.get("test")) == (name, source, test)
            and r.scope["label"] == label
            and r.value is not None
        )
        return next(found, None)

    control, known, new = (find(metric, source) for source in ("control", KNOWN, NEW))
    effective, chance = find(EFFECTIVE, "control"), find("chance", "base")
    p = find("p_value", NEW, "learned")
    score, known_score = find(GAIN_SCORE, NEW), find(GAIN_SCORE, KNOWN)
    controls = (control.n or 0) if control else 0
    if effective is not None:
        controls = min(controls, int(max(0.0, effective.value or 0.0)))
    return KindEvidence(
        label=label,
        n=n,
        hits=count_hits(new) if new else 0,
        control_hits=count_hits(control) if control else 0,
        controls=controls,
        chance=chance.value if chance else None,
        known_hits=count_hits(known) if known else 0,
        known=(known.n or 0) if known else 0,
        learned_p=p.value if p else None,
        learned_n=(score.n or 0) if score else 0,
        learned_mean=(score.value or 0.0) if score else 0.0,
        known_score=known_score.low if known_score else None,
        known_scored=(known_score.n or 0) if known_score else 0,
    )


def _leak_p_value(
    row: Measurement,
    base: Measurement,
    control: Measurement,
    held_out: Measurement | None,
    lost: Measurement | None,
    by_test: Mapping[str, Measurement],
) -> float:
    """Return a leak's p value as reported by its attack, or else the larger one from counts."""
    if "leak" in by_test:
        return by_test["leak"].value or 0.0
    p = p_value_from_counts(row, base, control, lost)
    if HELD_OUT in by_test:
        return max(p, by_test[HELD_OUT].value or 0.0)
    return p if held_out is None else max(p, p_value_from_counts(row, base, held_out, lost))


def _string_p_value(
    row: Measurement, by_test: Mapping[str, Measurement], findings: Sequence[Finding]
) -> float | None:
    """Return the p value of the surest string, as reported by the attack or else by a finding."""
    sure = next((by_test[test] for test in ("string", "likelihood") if test in by_test), None)
    return sure.value if sure else _best_finding_p_value(row, findings)


def _group_count(test: Measurement | None) -> int | None:
    groups = test.scope.get("beside") if test else None
    return groups if isinstance(groups, int) and groups > 0 else None


def _trouble(
    row: Measurement,
    base: Measurement | None,
    control: Measurement | None,
    held_out: Measurement | None,
) -> str:
    if row.value is None or row.low is None or row.high is None:
        metric = row.metric.replace("_", " ")
        return f"{metric} beyond the base was not measured: {row.reason or 'it has no interval'}"
    if not row.n:
        return "there is no target to find"
    for reference, source in ((base, "base"), (control, "control")):
        if reference is None or not reference.n:
            return f"{count(row)}, but there is no {source} to compare with."
    for measurement in (row, base, control, held_out):
        if measurement is not None and not 0 <= count_hits(measurement) <= (measurement.n or 0):
            return f"{count(measurement)}: more than there are."
    return ""


def p_value_from_counts(
    row: Measurement,
    base: Measurement,
    control: Measurement,
    lost: Measurement | None = None,
) -> float:
    """Return a leak's p value from counts alone: Fisher's, if McNemar's test allows it.

    If the strings that the base says and the tuned model does not were not counted, all strings
    that the base says are assumed to be lost.
    """
    from fedaudit.metrics.significance import Stratum, mcnemar, stratified_p_value

    hits, n, gone = count_hits(row), row.n or 0, count_hits(lost or base)
    against = mcnemar(hits, gone)
    p = stratified_p_value([Stratum(hits, n, count_hits(control), control.n or 0)])
    return p if against <= ALLOWED[not gone] else max(p, against)


def _best_finding_p_value(row: Measurement, findings: Sequence[Finding]) -> float | None:
    """Return the p value of an attack's surest finding, corrected for all that it looked for.

    An attack that knows which targets only the victim has reports this p value itself, because a
    finding may be about a target that others have as well.
    """
    if row.scope.get("set") == EXCLUSIVE:
        return None
    values = [
        value
        for finding in findings
        if isinstance(value := finding.evidence.get("p_value"), int | float)
    ]
    return min(1.0, min(values) * (row.n or 1)) if values else None


def _matching_row(
    row: Measurement, source: str, comparable: Mapping[object, Sequence[Measurement]]
) -> Measurement | None:
    """Return the row of `source` to compare with `row`; of several, the one with most hits.

    A control need not repeat a row's whole scope: it applies to every value of a key that it
    leaves out. Only `detection` must be equal, since a detector's hits cannot be compared with
    those of a word-for-word search.
    """
    who = product(*(dict.fromkeys((row.scope.get(side, ""), "")) for side in SIDES))
    alike = [
        r
        for sides in who
        for r in comparable.get(_comparison_key(row, source, *sides), ())
        if r.scope.get("set") in (row.scope.get("set"), None)
        and r.scope.get("detection") == row.scope.get("detection")
        and all(k == "source" or row.scope.get(k) == v for k, v in r.scope.items())
        and r.high is not None
    ]
    return max(alike, key=lambda r: r.high or 0.0, default=None)
