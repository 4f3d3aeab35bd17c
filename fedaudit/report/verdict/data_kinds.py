"""The verdict on kinds of data: whether more came out of one of them than its policy allows."""

from collections.abc import Iterable, Iterator, Sequence

from fedaudit.api.kind import Judgement, Test
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.api.target_sets import ALL, EXCLUSIVE
from fedaudit.pii.taxonomy import category, taxonomy
from fedaudit.report.kinds.registry import class_of
from fedaudit.report.number_format import as_percent
from fedaudit.report.query import rows_like
from fedaudit.report.verdict.binomial_limit import binomial_p_value, judge_count
from fedaudit.report.verdict.extraction import NEW, SIDES
from fedaudit.report.verdict.leak import CAME_OUT

RULE = "kind"
ANNOTATION = "annotation_labels"
"""The metric of the row that lists the labels that the annotating detector can give."""
LEFT_OUT = "targets"
"""The metric of rows that count the targets of a kind that an attack did not look for."""


def kind_tests(
    measurements: Iterable[Measurement], policy: Policy
) -> list[tuple[Measurement, float, Test | None]]:
    """Return every row of a kind that the policy limits, with its limit and its test.

    Under the null hypothesis a target comes out with the larger of two probabilities: the limit,
    and that of a made-up string of the kind (the 95 % upper bound for controls, or 0 without any).
    p is P(Binomial(n, that) >= hits). Strings that the base says as well are no hits.
    """
    rows = [row for row in measurements if row.metric in CAME_OUT and row.kind == "extraction"]
    limited = [row for row in rows if row.scope.get("source") == NEW and limited_kind(row, policy)]
    judged_rows = [row for row in limited if row.scope.get("set") == _judged_set(row, limited)]
    limits = [policy.kinds[limited_kind(row, policy)] for row in judged_rows]
    return [(r, most, _test(r, rows, most)) for r, most in zip(judged_rows, limits, strict=True)]


def limited_kind(row: Measurement, policy: Policy) -> str:
    """Return the policy's kind that a row belongs to; "" if there is none.

    The policy may name it by the row's label, by another label of the same kind in the taxonomy, or
    by its major category.
    """
    if "label" not in row.scope:
        name = str(row.scope.get("category", ""))
        return name if name in policy.kinds else ""
    label = str(row.scope["label"])
    if label in policy.kinds:
        return label
    same = category(label)
    return next((kind for kind in policy.kinds if same and category(kind) is same), "")


def judge_kind(
    row: Measurement, most: float, test: Test | None, adjusted: float | None, policy: Policy
) -> Judgement:
    """Return the status of one kind (`judge_count`); inconclusive where nothing was counted."""
    limit = (
        f"at most {as_percent(most)} of {_kind(row)}, shown with {as_percent(policy.confidence)}"
    )
    summary = f"{_name(row)}: {_count_text(row)}"
    if row.hits is None or not row.n or test is None or adjusted is None:
        why = row.reason or "hits and targets were not counted"
        return Judgement("inconclusive", f"{summary}: not judged: {why}.", RULE, row, limit)
    return judge_count(row, summary, adjusted, policy, most=most, rule=RULE, limit=limit)


def missing_kinds(
    tests: Sequence[tuple[Measurement, float, Test | None]],
    measurements: Iterable[Measurement],
    policy: Policy,
) -> Iterator[Judgement]:
    """Yield a judgement for every limited kind of which no target was looked for.

    It is a pass if no target is of the kind. It is inconclusive if the kind was left out (rows
    `targets`) of a victim's records and not looked for by another attack on that victim, if the
    annotating detector cannot give the kind (rows `annotation_labels`), if targets have a label
    outside of the taxonomy, which may mean the kind, or if no strings were looked for at all.
    """
    rows = list(measurements)
    tested = {(limited_kind(row, policy), row.scope.get("victim")) for row, _, _ in tests}
    searched = any(row.value is not None and class_of(row) == "exfiltration" for row in rows)
    annotations = [row for row in rows if row.metric == ANNOTATION]
    left_out = [row for row in rows if row.metric == LEFT_OUT and row.value]
    unknown = _unknown_labels(rows)
    for kind, most in sorted(policy.kinds.items()):  # a report's JSON has them in this order
        limit = f"at most {as_percent(most)} of {kind}"
        of_kind = [row for row in left_out if _is_of_kind(row, kind)]
        row = next((r for r in of_kind if (kind, r.scope.get("victim")) not in tested), None)
        if row is not None:
            of_victim = f" of {row.scope['victim']}" if "victim" in row.scope else ""
            reason = (
                f"No {kind}{of_victim} was looked for, although there are targets of this kind."
            )
            yield Judgement("inconclusive", reason, RULE, row, limit)
        elif kind in {name for name, _ in tested}:
            continue
        elif blind := next((row for row in annotations if not _can_give(row, kind)), None):
            reason = f"No {kind} was looked for: the annotation, by {blind.plugin}, cannot find it."
            yield Judgement("inconclusive", reason, RULE, blind, limit)
        elif searched and unknown:
            reason = (
                f"No {kind} was looked for by that name, but targets are labelled "
                f"{', '.join(unknown)}, which the taxonomy does not know; they may be of this kind."
            )
            yield Judgement("inconclusive", reason, RULE, None, limit)
        elif searched:
            reason = f"No {kind} was looked for: no target is of this kind."
            yield Judgement("pass", reason, RULE, None, limit)
        else:
            reason = f"No {kind} was looked for, nor any other string of personal data."
            yield Judgement("inconclusive", reason, RULE, None, limit)


def _can_give(row: Measurement, kind: str) -> bool:
    """Tell whether a row's labels include the kind or, for a major category, all its kinds."""
    labels = row.scope.get("labels")
    if not isinstance(labels, list | tuple):
        return False
    given = {same for label in labels if (same := category(str(label)))}
    same = category(kind)
    parts = {same} if same else {one for one in taxonomy().categories if one.major == kind}
    return kind in labels or (bool(parts) and parts <= given)


def _unknown_labels(rows: Iterable[Measurement]) -> list[str]:
    """Return the labels of what was looked for that the taxonomy does not know."""
    labels = {str(row.scope["label"]) for row in rows if "label" in row.scope}
    return sorted(label for label in labels if category(label) is None)


def _is_of_kind(row: Measurement, kind: str) -> bool:
    label = str(row.scope.get("label", ""))
    same = category(label)
    return label == kind or (same is not None and (same.major == kind or category(kind) is same))


def _kind(row: Measurement) -> str:
    return str(row.scope.get("label", row.scope.get("category", "")))


def _judged_set(row: Measurement, rows: Sequence[Measurement]) -> object:
    alike = {other.scope.get("set") for other in rows if _asked(other) == _asked(row)}
    return next((name for name in (EXCLUSIVE, ALL) if name in alike), row.scope.get("set"))


def _asked(row: Measurement) -> tuple[object, ...]:
    return row.plugin, row.metric, *(row.scope.get(side) for side in SIDES)


def _test(row: Measurement, rows: Sequence[Measurement], most: float) -> Test | None:
    from fedaudit.metrics.significance import upper_bound

    if row.hits is None or not row.n or not 0 <= row.hits <= row.n:
        return None
    controls = rows_like(row, rows, source="control")
    guessed = max(
        (upper_bound(o.hits, o.n) for o in controls if o.hits is not None and o.n), default=0.0
    )
    p = binomial_p_value(row.hits, row.n, min(1.0, max(most, guessed)))
    return Test(_name(row), p, _count_text(row), "more than its limit")


def _name(row: Measurement) -> str:
    return f"{row.plugin} ({_kind(row)})"


def _count_text(row: Measurement) -> str:
    if row.hits is None or row.n is None:
        return "its targets"
    return f"{row.hits:,} of {row.n:,} {CAME_OUT[row.metric]}"
