"""The measurements of scores: areas, rates and p values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fedaudit.api import AttackContext, Estimate, Measurement
from fedaudit.metrics.privacy.membership_tests import permutation_p_values
from fedaudit.metrics.privacy.roc import Roc, auc, balanced_accuracy, tpr_at_fpr

from . import text_baseline
from .scored_record import ScoredRecord

KIND = "membership"
RATES = (0.01, 0.001)
"""False positive rates at which true positives are counted."""
JUDGED = "reference"
"""The score that the verdict goes by."""
TESTS = ("ranks", "tail")
"""What is tested of it: members' ranks, and how many are above what 1 % of others reach."""
BY_TEXT = "text"
"""The name of the score that asks no model."""
NO_BASE = "there is no base to compare with"
NO_STATISTICS = "a server does not say how likely the tokens are that do not stand there"
Scope = Mapping[str, object]


def text_row(by_text: Estimate | None, at: Scope) -> Measurement:
    """Return the row of the texts alone."""
    scope = {"score": BY_TEXT, **at}
    if by_text is None:
        return missing("auc", scope, text_baseline.TOO_FEW)
    return row("auc", by_text, scope, chance=0.5)


def score_rows(
    inside: Sequence[ScoredRecord], outside: Sequence[ScoredRecord], at: Scope, refusal: str
) -> Iterator[Measurement]:
    """Yield the rows of every score."""
    members, others = ([one.scores() for one in some] for some in (inside, outside))
    for name in members[0]:
        scope = {"score": name, "source": "tuned", **at}
        values = [[scores[name] for scores in some] for some in (members, others)]
        ours, theirs = ([one for one in some if one is not None] for some in values)
        none = NO_STATISTICS if name == "min_k++" else NO_BASE
        reason = refusal or ("" if len(ours) == len(members) else none)
        yield from roc_rows(ours, theirs, scope, reason)


def roc_rows(
    members: Sequence[float], others: Sequence[float], scope: Scope, reason: str = ""
) -> Iterator[Measurement]:
    """Yield area, balanced accuracy and rates of one score; one row where a reason is given."""
    if reason:
        yield missing("auc", scope, reason)
        return
    yield row("auc", auc(members, others), scope, chance=0.5)
    best = balanced_accuracy(Roc.of(members, others))
    yield number("balanced_accuracy", best, scope, chance=0.5)
    for rate in RATES:
        wanted = {**scope, "fpr": rate}
        if len(others) * rate < 1:
            few = f"{len(others):,} held-out records show no false positive rate of {rate:g}"
            yield missing("tpr", wanted, few)
            continue
        found = tpr_at_fpr(members, others, rate)
        hits = round(found.value * len(members))
        yield replace(row("tpr", found, wanted, chance=rate), hits=hits)


def p_value_rows(
    case: AttackContext,
    inside: Sequence[ScoredRecord],
    outside: Sequence[ScoredRecord],
    at: Scope,
    refusal: str,
) -> Iterator[Measurement]:
    """Yield the p values that the verdict goes by: of the score that was fixed before."""
    scope = {"score": JUDGED, "source": "tuned", **at}
    ours, theirs = (judged_scores(some) for some in (inside, outside))
    if refusal or ours is None or theirs is None:
        for test in TESTS:
            yield missing("p_value", {**scope, "test": test}, refusal or NO_BASE)
        return
    both = groups(inside), groups(outside)
    found = permutation_p_values(ours, theirs, both, fpr=RATES[0], seed=case.seed)
    for test, p in zip(TESTS, (found.ranks, found.tail), strict=True):
        yield number("p_value", p, {**scope, "test": test})


def judged_scores(some: Sequence[ScoredRecord]) -> list[float] | None:
    """Return the scores that the verdict goes by; None where a record has none."""
    found = [value for one in some if (value := one.scores()[JUDGED]) is not None]
    return found if len(found) == len(some) else None


def groups(some: Sequence[ScoredRecord]) -> list[str]:
    """Return whose each record is: its group, or it alone."""
    return [one.document.group or one.document.text for one in some]


def row(metric: str, found: Estimate, scope: Scope, *, chance: float | None = None) -> Measurement:
    """Return a number with its interval."""
    n = scope["members"]
    assert isinstance(n, int)
    return Measurement.mean(
        found, n, kind=KIND, plugin=KIND, metric=metric, scope=scope, chance=chance
    )


def number(metric: str, value: float, scope: Scope, *, chance: float | None = None) -> Measurement:
    """Return a number that has no interval."""
    made = row(metric, Estimate(value, value, value), scope, chance=chance)
    return replace(made, low=None, high=None)


def missing(metric: str, scope: Scope, reason: str) -> Measurement:
    """Return a row that says why there is no number."""
    return Measurement.missing(reason, kind=KIND, plugin=KIND, metric=metric, scope=scope)
