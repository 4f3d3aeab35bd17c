"""The measurements of scores: areas, rates and p values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fedaudit.api import AttackContext, Estimate, Measurement
from fedaudit.metrics.privacy import text_baseline
from fedaudit.metrics.privacy.group_bootstrap import tpr_by_groups
from fedaudit.metrics.privacy.membership_tests import least_p_value, permutation_p_values
from fedaudit.metrics.privacy.roc import auc, balanced_accuracy, tpr_at_fpr
from fedaudit.metrics.privacy.round_changes import round_scores

from .scored_record import ScoredRecord

KIND = "membership"
RATES = (0.01, 0.001)
"""False positive rates at which true positives are counted."""
VERDICT_SCORE = "reference"
"""The score that the verdict goes by."""
TESTS = ("ranks", "tail")
"""What is tested of it: members' ranks, and how many are above what 1 % of others reach."""
LOW_RANKS = "low ranks"
"""A further test, of members that rank low: no sign of training, but of sets that differ in
something else."""
BY_TEXT = "text"
"""The name of the score that asks no model."""
NO_BASE = "there is no base to compare with"
NO_STATISTICS = "a server does not say how likely tokens other than the record's own are"
Scope = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Members' records and held-out ones, as all models read them."""

    context: AttackContext
    inside: Sequence[ScoredRecord]
    outside: Sequence[ScoredRecord]
    refusal: str = ""
    """Why they may not be compared."""
    unread: str = ""
    """Why too little of them was read for a rate to say how many can be told."""

    @property
    def scope(self) -> dict[str, object]:
        """Return the scope that all rows share."""
        return {
            "records": "own" if self.context.victim is None else "victim",
            "members": len(self.inside),
            "others": len(self.outside),
        }


def text_row(compared: Comparison, by_text: Estimate | None) -> Measurement:
    """Return the row of the texts alone."""
    scope = {"score": BY_TEXT, **compared.scope}
    if by_text is None:
        return missing("auc", scope, text_baseline.TOO_FEW)
    return row("auc", by_text, scope, chance=0.5)


def score_rows(compared: Comparison) -> Iterator[Measurement]:
    """Yield the rows of every score."""
    sides = compared.inside, compared.outside
    members, nonmembers = ([r.scores() for r in records] for records in sides)
    for name in members[0]:
        scope = {"score": name, "source": "tuned", **compared.scope}
        values = [[scores[name] for scores in side] for side in (members, nonmembers)]
        member_values, nonmember_values = ([v for v in side if v is not None] for side in values)
        no_statistics = name == "min_k++" or compared.inside[0].base is not None
        none = NO_STATISTICS if no_statistics else NO_BASE
        reason = compared.refusal or ("" if len(member_values) == len(members) else none)
        yield from roc_rows(member_values, nonmember_values, scope, reason, unread=compared.unread)


def roc_rows(
    members: Sequence[float],
    nonmembers: Sequence[float],
    scope: Scope,
    reason: str = "",
    *,
    unread: str,
) -> Iterator[Measurement]:
    """Yield area, balanced accuracy and rates of one score; one row where a reason is given.

    Rates have no value where too little was read of the records, as `unread` says.
    """
    if reason:
        yield missing("auc", scope, reason)
        return
    yield row("auc", auc(members, nonmembers), scope, chance=0.5)
    best = balanced_accuracy(members, nonmembers)
    yield number("balanced_accuracy", best, scope, chance=0.5)
    for rate in RATES:
        rate_scope = {**scope, "fpr": rate}
        if unread or len(nonmembers) * rate < 1:
            refusal = unread or (
                f"{len(nonmembers):,} held-out records are too few to show a false "
                f"positive rate of {rate:g}"
            )
            yield missing("tpr", rate_scope, refusal)
            continue
        tpr = tpr_at_fpr(members, nonmembers, rate)
        hits = round(tpr.value * len(members))
        yield replace(row("tpr", tpr, rate_scope, chance=rate), hits=hits)


def p_value_rows(compared: Comparison) -> Iterator[Measurement]:
    """Yield what the verdict goes by, of the score that was fixed before.

    That is the p values, the least that so many groups can give, and the rate by groups.
    """
    scope = {"score": VERDICT_SCORE, "source": "tuned", **compared.scope}
    members, nonmembers = map(judged_scores, (compared.inside, compared.outside))
    if compared.refusal or members is None or nonmembers is None:
        for test in TESTS:
            yield missing("p_value", {**scope, "test": test}, compared.refusal or NO_BASE)
        return
    yield from tested_rows(compared, (members, nonmembers), scope)


def round_rows(compared: Comparison) -> Iterator[Measurement]:
    """Yield what the sequence of global models shows beyond the last one, where a client sat out.

    A client that trained in every round leaves more in the last model than in those before: for it
    there are no such rows.
    """
    context, inside, outside = compared.context, compared.inside, compared.outside
    if not context.took_part:
        return
    took_part = list(context.took_part.values())
    scope = {
        "score": "rounds",
        "source": "tuned",
        **compared.scope,
        "rounds": len(took_part),
        "took_part": sum(took_part),
    }
    if reason := compared.refusal or ("" if context.base else NO_BASE):
        yield missing("auc", scope, reason)
        return
    scores = round_scores([record.gains() for record in (*inside, *outside)], took_part)
    members, others = scores[: len(inside)], scores[len(inside) :]
    yield from roc_rows(members, others, scope, unread=compared.unread)
    yield from tested_rows(compared, (members, others), scope)


def tested_rows(
    compared: Comparison, scores: tuple[Sequence[float], Sequence[float]], scope: Scope
) -> Iterator[Measurement]:
    """Yield what the verdict goes by, of one score of members and of held-out records."""
    seed, side_groups = compared.context.seed, (groups(compared.inside), groups(compared.outside))
    p_values = permutation_p_values(*scores, side_groups, fpr=RATES[0], seed=seed)
    for test, p in zip(TESTS, (p_values.ranks, p_values.tail), strict=True):
        yield number("p_value", p, {**scope, "test": test})
    yield number("p_value", p_values.low_ranks, {**scope, "test": LOW_RANKS})
    counts = [len(set(names)) for names in side_groups]
    group_scope = {**scope, "groups": counts[0], "beside": counts[1]}
    yield number("least_p_value", least_p_value(*counts), group_scope)
    if len(scores[1]) * RATES[0] >= 1:
        rate = tpr_by_groups(*scores, side_groups, fpr=RATES[0], seed=seed)
        yield row("tpr_by_group", rate, {**group_scope, "fpr": RATES[0]}, chance=RATES[0])


def judged_scores(records: Sequence[ScoredRecord]) -> list[float] | None:
    """Return the scores that the verdict goes by; None where a record has none."""
    scores = [value for record in records if (value := record.scores()[VERDICT_SCORE]) is not None]
    return scores if len(scores) == len(records) else None


def groups(records: Sequence[ScoredRecord]) -> list[str]:
    """Return the group of each record; one without a group is its own."""
    return [record.document.group or record.document.text for record in records]


def row(
    metric: str, estimate: Estimate, scope: Scope, *, chance: float | None = None
) -> Measurement:
    """Return a number with its interval."""
    n = scope["members"]
    assert isinstance(n, int)
    return Measurement.mean(
        estimate, n, kind=KIND, plugin=KIND, metric=metric, scope=scope, chance=chance
    )


def number(metric: str, value: float, scope: Scope, *, chance: float | None = None) -> Measurement:
    """Return a number that has no interval."""
    measurement = row(metric, Estimate(value, value, value), scope, chance=chance)
    return replace(measurement, low=None, high=None)


def missing(metric: str, scope: Scope, reason: str) -> Measurement:
    """Return a row that says why there is no number."""
    return Measurement.missing(reason, kind=KIND, plugin=KIND, metric=metric, scope=scope)
