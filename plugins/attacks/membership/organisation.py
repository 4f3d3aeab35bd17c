"""Whether the organisation that records are of took part, tested on its own records.

User inference (Kandpal et al. 2024, arXiv:2310.09266) asks how much better a model knows a user's
texts than its base does. That alone does not show participation: a model knows the style of whoever
took part, and so the texts of everybody who writes like them. Here records that the organisation
says it contributed are compared with its own records that it gave to no one, of the same style.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

from fedaudit.api import Measurement
from fedaudit.metrics.privacy import text_baseline
from fedaudit.metrics.privacy.participation import participation_test

from .measurements import NO_BASE, Comparison, groups, missing, number, row
from .scored_record import ScoredRecord

SCORE, UNIT = "participation", "organisation"
LEVEL = 0.01
"""The highest p value at which the organisation is said to have taken part."""
PLACEBO = 0.05
"""Where words or the base tell the two sets apart at this level, they are not comparable."""


def rows(compared: Comparison) -> Iterator[Measurement]:
    """Yield the p value and the gap behind it, after all rounds and after each; or why not."""
    context, inside = compared.context, compared.inside
    others = {document.text for documents in context.members.values() for document in documents}
    claimed = [record for record in inside if record.document.text not in others]
    # Held-out records of the same organisation, as far as groups name any.
    names = {_organisation(record) for record in inside}
    control = [record for record in compared.outside if _organisation(record) in names]
    scope = {
        "score": SCORE,
        "unit": UNIT,
        "source": "tuned",
        "records": compared.scope["records"],
        "members": len(claimed),
        "others": len(control),
        "rounds": len(context.rounds) + 1,
    }
    sides = groups(claimed), groups(control)
    if reason := _obstacle(compared, claimed, control, sides):
        yield missing("p_value", scope, reason)
        return
    scope |= {"groups": len(set(sides[0])), "beside": len(set(sides[1]))}
    mine, theirs = ([record.gains() for record in records] for records in (claimed, control))
    test = participation_test([*map(fmean, mine)], [*map(fmean, theirs)], sides, seed=context.seed)
    yield number("p_value", test.p_value, scope)
    yield row("score_gap", test.gap, scope)
    for index, name in enumerate([*sorted(context.rounds), None]) if context.rounds else ():
        test = participation_test(
            [gains[index] for gains in mine],
            [gains[index] for gains in theirs],
            sides,
            seed=context.seed,
        )
        yield row("score_gap", test.gap, {**scope, "round": "last" if name is None else name})


def caveats(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield what the test says, in words, and what it cannot say."""
    test = next(m for m in measurements if m.metric == "p_value")
    if test.value is None:
        yield f"organisation: whether it took part cannot be told: {test.reason}."
        return
    significant = test.value <= LEVEL
    yield (
        f"organisation: that it took part is {'' if significant else 'not '}shown at {LEVEL:.0%} "
        f"(p = {test.value:.2g}), provided that the held-out records are its own and were set "
        "aside at random"
        + (
            "; someone else may have trained on copies of its records."
            if significant
            else ". That it did not take part is not shown either."
        )
    )


def _organisation(record: ScoredRecord) -> str:
    """Return the organisation of a record: its group up to a slash; empty without a slash."""
    name, slash, _ = record.document.group.partition("/")
    return name if slash else ""


def _obstacle(
    compared: Comparison,
    claimed: Sequence[ScoredRecord],
    control: Sequence[ScoredRecord],
    sides: tuple[Sequence[str], Sequence[str]],
) -> str:
    """Return why no test is suitable; empty where one is. `sides` are the records' groups."""
    context, inside = compared.context, compared.inside
    if context.base is None:
        return NO_BASE
    names = sorted({_organisation(record) for record in inside})
    if len(names) > 1:
        return f"by the names of their groups, the records are of {len(names)} organisations"
    if not control:
        return (
            "none of the held-out records is this organisation's own, and a style that it shares "
            "with others does not prove participation"
        )
    if min(len(set(side)) for side in sides) < text_baseline.MIN_GROUPS:
        counts = " and ".join(f"{len(set(side)):,}" for side in sides)
        duplicates = len(inside) - len(claimed)
        return (
            f"{counts} groups of claimed and held-out records that no other member has are too "
            f"few; {text_baseline.MIN_GROUPS} each are needed"
            + (
                f" ({duplicates:,} claimed records are another member's as well: name that one's "
                "own file as the victim's if it is the same organisation)"
                if duplicates
                else ""
            )
        )
    return _difference(claimed, control, sides, context.seed)


def _difference(
    claimed: Sequence[ScoredRecord],
    control: Sequence[ScoredRecord],
    sides: tuple[Sequence[str], Sequence[str]],
    seed: int,
) -> str:
    """Return what tells the two sets apart without the tuned model; empty where nothing does."""
    mine, theirs = ([record.document for record in records] for records in (claimed, control))
    words = text_baseline.permutation_p_value(mine, theirs, seed=seed)
    if words is not None and words <= PLACEBO:
        return (
            "the held-out records differ from the others in their texts alone "
            f"(p = {words:.2g}), so they may not be of this organisation, or not set aside at "
            "random"
        )
    before = [[fmean(record.base or ()) for record in records] for records in (claimed, control)]
    placebo = participation_test(before[0], before[1], sides, seed=seed).two_sided
    if placebo <= PLACEBO:
        return (
            "the base, which no one here trained, tells the two sets apart already "
            f"(p = {placebo:.2g}), so they may not have been set aside at random"
        )
    return ""
