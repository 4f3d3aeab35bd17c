"""The verdict: whether more came out of the model than its base gives, or a client is flagged."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from fedaudit.api.kind import (
    RIGHT,
    SWEPT,
    Judgement,
    Kind,
    Test,
    counted,
    is_judged,
    is_own_data,
)
from fedaudit.api.policy import Policy
from fedaudit.api.records import Finding, Measurement
from fedaudit.report.kinds.registry import class_of, is_ours, kind_of, kinds_in, rows_of
from fedaudit.report.verdict import (
    attribution,
    completion,
    data_kinds,
    inference,
    instrument,
)
from fedaudit.report.verdict.criteria import DEFAULT
from fedaudit.report.verdict.joint_tests import JointTests, run_joint_tests
from fedaudit.report.verdict.leak import CAME_OUT, Leak

RULE = 12
"""The number of this rule, which goes up whenever the same measurements may get a different verdict
or different reasons.

Reports written before rules had numbers name none.
"""

LEVEL = DEFAULT.level
"""The maximum probability of failing a model that holds none of the data looked for."""

ATTACKS = ("coverage", "extraction_recall", "inference_accuracy")

NO_VICTIM = (
    "No victim: what was tried on the attacker's own records tells nothing of other parties and is"
    " not judged."
)

ONLY_RIGHT = "Only the right key was asked, so nothing unauthorised was tried."

MISSING = "nothing"
"""The rule of judgements about missing measurements."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """All judgements of a report, and the tests behind them."""

    judgements: Sequence[Judgement]
    tests: Sequence[Test]
    adjusted: Sequence[float]
    detectable: float | None

    @property
    def status(self) -> str:
        """The worst status of all judgements."""
        return worst_status(judgement.status for judgement in self.judgements)


def worst_status(statuses: Iterable[str]) -> str:
    """Return the overall status: fail if one fails, else inconclusive if one is inconclusive.

    Without any judgement the status is inconclusive.
    """
    found = set(statuses) or {"inconclusive"}
    return next(status for status in ("fail", "inconclusive", "pass") if status in found)


def verdict(
    measurements: Iterable[Measurement],
    findings: Sequence[Finding],
    policy: Policy = DEFAULT,
    *,
    explained: bool = False,
) -> dict[str, Any]:
    """Return status, reasons, and the tests behind them, for an audit's measurements and findings.

    The reasons are those of the judgements with the overall status; see `judge` for what is judged.
    With `explained` the verdict also holds all judgements.
    """
    result = judge(measurements, findings, policy)
    reasons = [j.reason for j in result.judgements if j.status == result.status]
    return {
        "status": result.status,
        "reasons": list(dict.fromkeys(reasons)),
        "level": policy.level,
        "tests": [
            {"name": test.name, "p": test.p, "adjusted": p}
            for test, p in zip(result.tests, result.adjusted, strict=True)
        ],
        "detectable": result.detectable,
        **({"judgements": [j.table() for j in result.judgements]} if explained else {}),
    }


def judge(
    measurements: Iterable[Measurement], findings: Sequence[Finding], policy: Policy = DEFAULT
) -> Verdict:
    """Return the verdict of a policy on an audit's measurements and findings.

    One Holm correction covers the tests of what came out of the tuned model and not of its base
    (`verdict.extraction`), of every inference accuracy, of every kind of data that the policy
    limits (`verdict.data_kinds`) and of the `tests` of each kind of row (`report.kinds`), over all
    attacks, pairs of clients, strings, kinds of data and scores. What a kind judges by itself
    (below) has the policy's level for itself.

    * fail          an adjusted p value is at most the policy's level
    * inconclusive  a leak of the policy's size would not have been detected, or the results do not
                    rule one out; or there is nothing to judge
    * pass          otherwise

    A gate that lets an attempt in (fpr with scope.attempt and hits) fails. So does an attribution
    whose protocol flags a client; `verdict.attribution` judges it, `verdict.completion` whether
    answers to training prompts are nearer to the true ones than skill explains, and each of
    `report.kinds` its own rows. A class of attacks that the policy requires and that was not
    measured is inconclusive.

    Two kinds of results are not judged: data that comes out under a right key (scope.key "right"),
    as it is meant to, and attacks on the attacker's own records (scope.records "own"). If there are
    no other results, the verdict is inconclusive. A pass never says "safe". The order of the
    measurements affects only the order of the judgements.
    """
    # Sorted as in a file, so that a report gives the same verdict when it is read again.
    measurements = [replace(row, scope=_sort_keys(row.scope)) for row in measurements]
    # The results of a part of the budget are included in those of the whole budget.
    by_label = [row for row in measurements if not SWEPT.issubset(row.scope)]
    totals = [row for row in by_label if not {"label", "category"} & row.scope.keys()]
    labelled, judged_rows = list(filter(is_judged, by_label)), counted(measurements)
    kinds = kinds_in(row.kind for row in measurements)
    skill = completion.p_values(measurements)
    joint = run_joint_tests(judged_rows, labelled, findings, kinds, policy, skill)
    judgements = [*joint.judgements(policy), *_gate_failures(measurements)]
    attributed = attribution.judge_attribution(measurements) if policy.attribution else []
    separate = _judge_separately(measurements, kinds, joint, policy)
    missing = _missing_evidence(joint.leaks, [*judgements, *separate], attributed, totals)
    judgements += [*attributed, *separate, *missing, *_missing_classes(measurements, policy)]
    judged = filter(is_judged, measurements)
    judgements += data_kinds.missing_kinds(joint.limited_kinds, judged, policy)
    judgements += (j for kind in kinds for j in kind.missing(rows_of(kind, judged_rows), policy))
    # First, since what is measured with an instrument that fails means little.
    judgements = [*instrument.judge_instrument(measurements), *judgements]
    return Verdict(judgements, joint.tests, joint.adjusted, joint.detectable(policy))


def _judge_separately(
    measurements: Sequence[Measurement],
    kinds: Sequence[Kind],
    joint: JointTests,
    policy: Policy,
) -> list[Judgement]:
    """Return the judgements of the modules that each use the policy's level for themselves."""
    by_kind = {kind.name: kind.judge(rows_of(kind, measurements), policy) for kind in kinds}
    return [
        *by_kind.pop("memorization"),  # completions come second, as in every report so far
        *completion.judge_completion(measurements, [test.p for test in joint.tests]),
        *chain.from_iterable(by_kind.values()),
    ]


def _missing_evidence(
    leaks: Sequence[Leak],
    judgements: Sequence[Judgement],
    attributed: Sequence[Judgement],
    totals: Sequence[Measurement],
) -> list[Judgement]:
    """Return why extraction is not judged although it should be; `totals` are all rows."""
    # Answers that reach a threshold are judged by `completion`.
    extracted = [
        row
        for row in filter(is_judged, totals)
        if row.metric in CAME_OUT and "threshold" not in row.scope
    ]
    attacks = [row for row in totals if row.metric in ATTACKS]
    own_data = any(row.metric in CAME_OUT and is_own_data(row.scope) for row in totals)
    enough = leaks or (judgements and not extracted) or (attributed and not attacks)
    # Extraction of only the attacker's own records is never a pass, whatever else was judged.
    return [] if enough and (extracted or not own_data) else _nothing(extracted, attacks, totals)


def _sort_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    return list(map(_sort_keys, value)) if isinstance(value, list | tuple) else value


def _missing_classes(measurements: Sequence[Measurement], policy: Policy) -> Iterator[Judgement]:
    """Yield a judgement for each required class of attacks that was not measured."""
    measured = {class_of(row) for row in measurements if row.value is not None}
    for name in policy.required:
        if name not in measured:
            reason = f"The policy {policy.name} requires {name.replace('_', ' ')}: not measured."
            yield Judgement("inconclusive", reason, "required", None, "measured")


def _gate_failures(measurements: Iterable[Measurement]) -> list[Judgement]:
    """Return a failure for every kind of attempt that opened a gate without its key."""
    return [
        Judgement(
            "fail",
            f"{inference.row_name(row)}: {row.hits:,} of {row.n:,} attempts opened the gate "
            "without its key.",
            "gate",
            row,
            "no attempt",
        )
        for row in measurements
        if (row.kind, row.metric) == ("defense", "fpr") and "attempt" in row.scope and row.hits
    ]


def _nothing(
    rows: Sequence[Measurement], attacks: Sequence[Measurement], totals: Sequence[Measurement]
) -> list[Judgement]:
    """Return why nothing is judged in `rows`; `attacks` and `totals` say what else is there."""
    reasons = _reasons_for_nothing(rows, attacks, _own_kinds(totals))
    return [Judgement("inconclusive", reason, MISSING, None, "measured") for reason in reasons]


def _reasons_for_nothing(
    rows: Sequence[Measurement], attacks: Sequence[Measurement], beside: str
) -> list[str]:
    extraction = [row for row in rows if row.kind == "extraction"]
    if not extraction:
        right = any(row.scope.get("key") == RIGHT for row in attacks)
        if any(is_own_data(row.scope) and row.scope.get("key") != RIGHT for row in attacks):
            return [NO_VICTIM]
        return [ONLY_RIGHT if right else f"No extraction was tried{beside}."]
    unknown = [f"{row.plugin}: not measured: {row.reason}" for row in extraction if row.reason]
    if not unknown and any(row.scope.get("source") == "base" for row in extraction):
        plugins = ", ".join(sorted({row.plugin for row in extraction}))
        return [f"{plugins}: no row has the source tuned-not-base, which is what is judged."]
    return unknown or ["There is no base model to compare the extraction with."]


def _own_kinds(rows: Sequence[Measurement]) -> str:
    """Return in words which rows have kinds defined by plugins; empty if none has."""
    names = sorted(
        {
            f"{row.plugin} ({row.kind})"
            for row in rows
            if not is_ours(row.kind) and kind_of(row.kind) is None
        }
    )
    return f"; of kinds that are shown and not judged there is {', '.join(names)}" if names else ""
