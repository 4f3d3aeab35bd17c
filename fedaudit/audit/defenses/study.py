"""Trains and attacks every federation in turn, resuming earlier runs; the report's section.

Seeds are paired: a difference is taken between two federations of one seed, on the same records and
under the same questions, and then averaged over seeds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import Interrupted, UsageError
from fedaudit.api.estimates import Estimate
from fedaudit.api.records import Measurement
from fedaudit.audit.defenses.plan import (
    NONE,
    AttackedPair,
    DefenseCandidate,
    DefensePlan,
    client_files,
    defense_candidates,
    earlier_seconds,
    folder_size,
    retraining_settings,
)
from fedaudit.audit.defenses.training import (
    ATTACKS,
    DefenseOutcome,
    DefenseWatch,
    leak_requests,
    read_outcome,
    request_digest,
    run_defense,
    worst_pair,
    write_outcome,
)
from fedaudit.audit.material import Material
from fedaudit.audit.plan import Plan
from fedaudit.metrics.intervals import bootstrap_mean, difference
from fedaudit.metrics.replication import mean_estimate
from fedaudit.system.files import make_folder

if TYPE_CHECKING:
    from fedaudit.report.redaction import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanChange:
    """A number under a defence, as a mean over seeds, and its difference from no defence."""

    mean: Estimate
    difference: Estimate | None = None
    """None for training without a defence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefenseEffect:
    """What one defence gained and cost, over the seeds measured both with it and without any."""

    leaks: Mapping[str, MeanChange]
    loss: MeanChange | None
    seconds: float | None
    tokens: float
    bytes: float | None
    flops: float | None


def effect(
    outcomes: Sequence[DefenseOutcome], none: Sequence[DefenseOutcome] | None = None
) -> DefenseEffect:
    """Return a defence's numbers as means over seeds, with differences to `none` seed by seed.

    `outcomes` and `none` must have the same seeds in the same order. An attack that is missing in
    either is left out. Raises ValueError for different seeds and for no outcomes at all.
    """
    if none is not None and [o.seed for o in none] != [o.seed for o in outcomes]:
        raise ValueError("Differences are paired: both sides need the same seeds.")
    if not outcomes:
        raise ValueError("Without a seed there is nothing to compare.")
    every = [*outcomes, *(none or ())]
    attacks = [name for name in outcomes[0].leaks if all(name in o.leaks for o in every)]
    return DefenseEffect(
        leaks={name: _leak(name, outcomes, none) for name in attacks},
        loss=_loss(outcomes, none),
        seconds=_mean(outcomes, lambda o: o.seconds),
        tokens=fmean(o.tokens for o in outcomes),
        bytes=_mean(outcomes, lambda o: o.bytes),
        flops=_mean(outcomes, lambda o: o.flops),
    )


def _leak(
    attack: str, outcomes: Sequence[DefenseOutcome], none: Sequence[DefenseOutcome] | None
) -> MeanChange:
    shares = [o.leaks[attack].share for o in outcomes]
    mean = _clip_interval(mean_estimate(shares, same_records=True), 0.0)
    if none is None:
        return MeanChange(mean=mean)
    # Both have the same targets, but `difference` assumes independence: the interval is too wide.
    gaps = [
        difference(share, before.leaks[attack].share)
        for before, share in zip(none, shares, strict=True)
    ]
    return MeanChange(
        mean=mean, difference=_clip_interval(mean_estimate(gaps, same_records=True), -1.0)
    )


def _loss(
    outcomes: Sequence[DefenseOutcome], none: Sequence[DefenseOutcome] | None
) -> MeanChange | None:
    losses = [o.loss for o in outcomes if o.loss]
    if len(losses) < len(outcomes):
        return None
    mean = mean_estimate(losses, same_records=True)
    if none is None:
        return MeanChange(mean=mean)
    gaps = [_loss_gap(before, after) for before, after in zip(none, outcomes, strict=True)]
    measured_gaps = [gap for gap in gaps if gap]
    if len(measured_gaps) < len(gaps):
        return MeanChange(mean=mean)
    return MeanChange(mean=mean, difference=mean_estimate(measured_gaps, same_records=True))


def _loss_gap(before: DefenseOutcome, after: DefenseOutcome) -> Estimate | None:
    """Return how much the loss rose: document by document where both sides have such losses."""
    if before.losses and len(before.losses) == len(after.losses):
        rises = [b - a for a, b in zip(before.losses, after.losses, strict=True)]
        return bootstrap_mean(rises, seed=0)
    if before.loss is None or after.loss is None:
        return None
    return difference(after.loss, before.loss)


def _mean(
    outcomes: Sequence[DefenseOutcome], number: Callable[[DefenseOutcome], float | None]
) -> float | None:
    values = [value for o in outcomes if (value := number(o)) is not None]
    return fmean(values) if len(values) == len(outcomes) else None


def _clip_interval(estimate: Estimate, least: float) -> Estimate:
    """Return the estimate with its interval clipped to the possible values, `least` to 1."""
    return Estimate(estimate.value, max(least, estimate.low), min(1.0, estimate.high))


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
    loss = _loss_words(effect.loss)
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


def _loss_words(change: MeanChange | None) -> str:
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


FOLDER = "defenses"
"""The folder in an audit's folder for trained federations and their measurements."""

Outcomes = Mapping[str, Sequence[DefenseOutcome]]
"""By defence, in the order of seeds; the first entry is training without any defence."""


def make_defense_plan(
    material: Material,
    plan: Plan,
    *,
    names: Sequence[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    seeds: int = 3,
    profile: str = "",
    data: Sequence[str] = (),
) -> DefensePlan:
    """Return the trainings and attacks to run, after every check that needs no training.

    Raises UsageError for what is missing: settings, records, a seed, a defence, or an attacker.
    """
    if seeds < 1:
        raise UsageError(f"defense_seeds is {seeds}; each defence is trained with 1 or more.")
    requests = leak_requests(plan)
    config = retraining_settings(
        material,
        client_files(material, data),
        profile=profile,
        detector=requests[0].detector,
        device=requests[0].device,
        dtype=requests[0].dtype,
    )
    federation = material.audited.federation
    trained = federation.manifest.config.get("defenses", ()) if federation else ()
    return DefensePlan(
        config=config,
        candidates=defense_candidates(config, names, options=options, trained=trained),
        # Those after the federation's own, the one that was found to leak.
        seeds=range(config.seed + 1, config.seed + 1 + seeds),
        pairs=[
            AttackedPair(
                attacker=material.client_name(request.prefixes),
                victim=material.client_name(request.victim),
                request=request,
            )
            for request in requests
        ],
        earlier=earlier_seconds(material, config),
        size=folder_size(material),
    )


def run_defenses(
    plan: DefensePlan,
    rows: Sequence[Measurement],
    folder: Path,
    redactor: "Redactor",
    watch: DefenseWatch,
) -> dict[str, Any]:
    """Train and attack what is not done yet, below `folder`; return the report's section.

    The victim is the one that lost most in the audit, whose measurements are `rows`. Raises
    Interrupted where the run was stopped: what is finished is kept.
    """
    plan = replace(plan, pairs=[worst_pair(plan.pairs, rows)])
    defense_folder = folder / FOLDER
    make_folder(defense_folder)
    outcomes: dict[str, list[DefenseOutcome]] = {}
    done = 0
    # Seed by seed, so that what is finished when someone stops it can be compared.
    for seed in plan.seeds:
        for candidate in (DefenseCandidate(name=NONE), *plan.applicable):
            done += 1
            if any(
                runs[-1].reason for name, runs in outcomes.items() if name in (NONE, candidate.name)
            ):
                continue  # there is nothing to compare with, or no mean over seeds
            watch.note(f"Training {done} of {plan.trainings}: {candidate.name}, seed {seed}")
            try:
                outcome = _outcome(plan, candidate, seed, defense_folder, redactor, watch)
            except (KeyboardInterrupt, Interrupted) as error:
                raise Interrupted(
                    f"Interrupted in training {done} of {plan.trainings}; {done - 1} are kept in "
                    f"{defense_folder}. Give the same command with --resume to go on."
                ) from error
            outcomes.setdefault(candidate.name, []).append(outcome)
    return section(plan, outcomes)


def _outcome(
    plan: DefensePlan,
    candidate: DefenseCandidate,
    seed: int,
    folder: Path,
    redactor: "Redactor",
    watch: DefenseWatch,
) -> DefenseOutcome:
    """Return the outcome of one federation: read from its file, or measured now."""
    config = candidate.settings(plan.config, seed)
    settings = config.sha256()
    [pair] = plan.pairs
    name = f"{candidate.name}-seed{seed}-{settings[:8]}"
    file, digest = folder / f"{name}.json", f"{settings} {request_digest(pair.request)}"
    if existing := read_outcome(file, digest):
        return existing
    outcome = run_defense(config, folder / name, pair.request, redactor, watch)
    if not outcome.reason:
        write_outcome(outcome, file, digest)
    return outcome


def section(plan: DefensePlan, outcomes: Outcomes) -> dict[str, Any]:
    """Return what a report says of all defences: means over seeds, differences, sentences."""
    reasons = {name: _reason(runs) for name, runs in outcomes.items()}
    none, pair = outcomes[NONE], plan.pairs[0]
    if reasons[NONE]:
        effects: dict[str, DefenseEffect] = {}
    else:
        effects = {
            name: effect(runs, None if name == NONE else none)
            for name, runs in outcomes.items()
            if not reasons[name]
        }
    defense_effects = {name: e for name, e in effects.items() if name != NONE}
    sentences = (
        recommendations(effects[NONE], defense_effects)
        if effects
        else [f"Training again without a defence gave no number: {reasons[NONE].rstrip('.')}."]
    )
    return {
        "seeds": list(plan.seeds),
        "attacker": pair.attacker,
        "victim": pair.victim,
        "attacks": list(ATTACKS),
        "tried": list(_rows(plan, outcomes, effects, reasons)),
        "recommendations": sentences,
    }


def _reason(outcomes: Sequence[DefenseOutcome]) -> str:
    """Return why a defence has no number, naming the first seed without one."""
    return next((f"seed {o.seed}: {o.reason}" for o in outcomes if o.reason), "")


def _rows(
    plan: DefensePlan,
    outcomes: Outcomes,
    effects: Mapping[str, DefenseEffect],
    reasons: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    for candidate in (DefenseCandidate(name=NONE), *plan.candidates):
        result = effects.get(candidate.name)
        reason = candidate.reason or reasons.get(candidate.name, "")
        if result is None and not reason:
            reason = "training again without a defence gave no number to compare with"
        yield {
            "defense": candidate.name,
            "options": dict(candidate.options),
            "reason": reason,
            "leaks": [
                {
                    "attack": name,
                    "n": outcomes[candidate.name][0].leaks[name].n,
                    "by_seed": [seed.leaks[name].share.value for seed in outcomes[candidate.name]],
                    **_change(change),
                }
                for name, change in (result.leaks if result else {}).items()
            ],
            "loss": _change(result.loss) if result and result.loss else None,
            "seconds": result.seconds if result else None,
            "tokens": result.tokens if result else None,
            "bytes": result.bytes if result else None,
            "flops": result.flops if result else None,
        }


def _change(change: MeanChange) -> dict[str, Any]:
    gap = change.difference
    return {"mean": asdict(change.mean), "difference": asdict(gap) if gap else None}
