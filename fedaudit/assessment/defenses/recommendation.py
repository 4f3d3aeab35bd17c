"""What follows from the differences, in sentences."""

from collections.abc import Mapping

from fedaudit.api.estimates import Estimate
from fedaudit.assessment.defenses.differences import Change, DefenseEffect

ATTACK = {
    "contextual": "what contextual prefixes draw out",
    "verbatim": "passages that are continued word for word",
}


def recommendations(none: DefenseEffect, effects: Mapping[str, DefenseEffect]) -> list[str]:
    """Return what to train with, as far as the measurements tell, then a sentence a defence."""
    attack = next(iter(none.leaks), "")
    judged = {name: own for name, own in effects.items() if attack in own.leaks}
    if not judged:
        return ["No defence was measured, so none is recommended."]
    sure = [name for name, own in judged.items() if is_lower(own.leaks[attack])]
    best = [name for name in sure if not any(_beats(judged[o], judged[name], attack) for o in sure)]
    return [
        _lead(best, sure, attack, dear=any(_is_dear(judged[name]) for name in best)),
        *(_sentence(name, own, none, attack) for name, own in judged.items()),
    ]


def is_lower(change: Change) -> bool:
    """Tell whether a number is lower than none's for sure: its difference's interval is below 0."""
    return change.difference is not None and change.difference.high < 0


def _is_dear(one: DefenseEffect) -> bool:
    gap = one.loss.difference if one.loss else None
    return gap is not None and gap.low > 0


def _lead(best: list[str], sure: list[str], attack: str, *, dear: bool) -> str:
    if not best:
        return (
            f"None of them lowered {ATTACK.get(attack, attack)} for sure: from these trainings no "
            "defence can be recommended."
        )
    if_borne = ", if its loss can be borne" if dear else ""
    if len(best) == 1:
        return (
            f"To be tried first{if_borne}: {best[0]}. "
            f"It lowered {ATTACK.get(attack, attack)} for sure"
            + (", and no other did so with less leak or less loss." if len(sure) > 1 else ".")
        )
    return (
        f"Lowered {ATTACK.get(attack, attack)} for sure: {', '.join(best)}; each has less leak or "
        "less loss than the other, and which matters more no measurement says."
    )


def _beats(one: DefenseEffect, other: DefenseEffect, attack: str) -> bool:
    """Tell whether `one` has no more leak and no more loss than `other`, and less of either."""
    if one.loss is None or other.loss is None:
        return False
    left = (one.leaks[attack].mean.value, one.loss.mean.value)
    right = (other.leaks[attack].mean.value, other.loss.mean.value)
    return left != right and left[0] <= right[0] and left[1] <= right[1]


def _sentence(name: str, own: DefenseEffect, none: DefenseEffect, attack: str) -> str:
    change, before = own.leaks[attack], none.leaks[attack].mean
    assert change.difference is not None  # it is a defence's
    ends = f"from {_percent(before)} to {_percent(change.mean)}"
    loss = _loss(own.loss)
    what = ATTACK.get(attack, attack)
    if is_lower(change):
        return f"{name} would have brought {what} {ends}{loss}."
    if change.difference.low > 0:
        return f"{name} would have raised {what} {ends}{loss}."
    gap = change.difference
    return (
        f"Of {name} it cannot be told whether it lowers {what}: {ends}, and the difference of "
        f"{100 * gap.value:+.1f} points [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}] "
        f"may be none{loss}."
    )


def _loss(change: Change | None) -> str:
    if change is None or change.difference is None:
        return "; what it does to held-out loss was not measured"
    gap = change.difference
    told = f"{abs(gap.value):.3g}"
    ends = f"[{gap.low:+.3g}, {gap.high:+.3g}]"
    if gap.low > 0:
        return f", at a held-out loss that rose by {told} {ends}"
    if gap.high < 0:
        return f", at a held-out loss that fell by {told} {ends}"
    return f", at a held-out loss that cannot be told from none's ({gap.value:+.3g} {ends})"


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"
