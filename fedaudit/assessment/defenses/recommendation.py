"""What follows from the differences, in sentences."""

from collections.abc import Mapping

from fedaudit.api.estimates import Estimate
from fedaudit.assessment.defenses.differences import DefenseEffect, MeanChange

ATTACK = {
    "contextual": "what contextual prefixes draw out",
    "verbatim": "passages that are continued word for word",
}


def recommendations(none: DefenseEffect, effects: Mapping[str, DefenseEffect]) -> list[str]:
    """Return which defence to train with, if measurements tell, then one sentence for each."""
    attack = next(iter(none.leaks), "")
    by_defense = {name: e for name, e in effects.items() if attack in e.leaks}
    if not by_defense:
        return ["No defence was measured, so none is recommended."]
    sure = [name for name, e in by_defense.items() if is_lower(e.leaks[attack])]
    best = [
        name
        for name in sure
        if not any(_beats(by_defense[o], by_defense[name], attack) for o in sure)
    ]
    return [
        _lead(best, sure, attack, dear=any(_is_dear(by_defense[name]) for name in best)),
        *(_sentence(name, e, none, attack) for name, e in by_defense.items()),
    ]


def is_lower(change: MeanChange) -> bool:
    """Return whether the interval of the difference from no defence is entirely below 0."""
    return change.difference is not None and change.difference.high < 0


def _is_dear(effect: DefenseEffect) -> bool:
    gap = effect.loss.difference if effect.loss else None
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


def _beats(effect: DefenseEffect, rival: DefenseEffect, attack: str) -> bool:
    """Return whether `effect` has no more leak or loss than `rival`, and less of either."""
    if effect.loss is None or rival.loss is None:
        return False
    left = (effect.leaks[attack].mean.value, effect.loss.mean.value)
    right = (rival.leaks[attack].mean.value, rival.loss.mean.value)
    return left != right and left[0] <= right[0] and left[1] <= right[1]


def _sentence(name: str, effect: DefenseEffect, none: DefenseEffect, attack: str) -> str:
    change, before = effect.leaks[attack], none.leaks[attack].mean
    assert change.difference is not None  # it is a defence's
    levels = f"from {_percent(before)} to {_percent(change.mean)}"
    loss = _loss(effect.loss)
    leak = ATTACK.get(attack, attack)
    if is_lower(change):
        return f"{name} would have brought {leak} {levels}{loss}."
    if change.difference.low > 0:
        return f"{name} would have raised {leak} {levels}{loss}."
    gap = change.difference
    return (
        f"Of {name} it cannot be told whether it lowers {leak}: {levels}, and the difference of "
        f"{100 * gap.value:+.1f} points [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}] "
        f"may be none{loss}."
    )


def _loss(change: MeanChange | None) -> str:
    if change is None or change.difference is None:
        return "; what it does to held-out loss was not measured"
    gap = change.difference
    size = f"{abs(gap.value):.3g}"
    interval = f"[{gap.low:+.3g}, {gap.high:+.3g}]"
    if gap.low > 0:
        return f", at a held-out loss that rose by {size} {interval}"
    if gap.high < 0:
        return f", at a held-out loss that fell by {size} {interval}"
    return f", at a held-out loss that cannot be told from none's ({gap.value:+.3g} {interval})"


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"
