"""Every federation in turn, from what earlier runs left, and the section of the report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import Interrupted
from fedaudit.assessment.defenses.candidates import (
    NONE,
    DefenseCandidate,
    defense_candidates,
)
from fedaudit.assessment.defenses.client_files import client_files
from fedaudit.assessment.defenses.differences import Change, DefenseEffect, effect
from fedaudit.assessment.defenses.leak_request import ATTACKS, leak_request, request_digest
from fedaudit.assessment.defenses.outcome import DefenseOutcome, read_outcome, write_outcome
from fedaudit.assessment.defenses.plan import (
    DefensePlan,
    earlier_seconds,
    folder_size,
    fresh_seeds,
)
from fedaudit.assessment.defenses.recommendation import recommendations
from fedaudit.assessment.defenses.settings import retraining_settings, trained_defenses
from fedaudit.assessment.defenses.training import DefenseRun, DefenseWatch, run_defense
from fedaudit.assessment.discovery import Material
from fedaudit.assessment.plan import Plan
from fedaudit.system.files import make_folder

if TYPE_CHECKING:
    from fedaudit.report.redaction import Redactor

FOLDER = "defenses"
"""Where, below an audit's folder, trained federations and what was measured of them are kept."""

Outcomes = Mapping[str, Sequence[DefenseOutcome]]
"""By defence, in the order of seeds; the first is training without any."""


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
    """Return what is to be trained and asked, with every check that needs no training.

    Raises UsageError for what is missing: settings, records, a defence, or an attacker.
    """
    request = leak_request(plan)
    config = retraining_settings(
        material,
        client_files(material, data),
        profile=profile,
        detector=request.detector,
        device=request.device,
        dtype=request.dtype,
    )
    found = defense_candidates(config, names, options=options, trained=trained_defenses(material))
    return DefensePlan(
        config=config,
        candidates=found,
        seeds=fresh_seeds(config, seeds),
        request=request,
        attacker=material.who(request.prefixes),
        victim=material.who(request.victim),
        earlier=earlier_seconds(material, config),
        size=folder_size(material),
    )


def run_defenses(
    plan: DefensePlan, folder: Path, redactor: "Redactor", watch: DefenseWatch
) -> dict[str, Any]:
    """Train and attack what is not yet, below `folder`, and return the report's section.

    Raises Interrupted where it was stopped: what is finished is kept.
    """
    place = folder / FOLDER
    make_folder(place)
    outcomes: dict[str, list[DefenseOutcome]] = {}
    done = 0
    # Seed by seed, so that what is finished when somebody stops it can be compared.
    for seed in plan.seeds:
        for one in (DefenseCandidate(name=NONE), *plan.applicable):
            done += 1
            if any(own[-1].reason for name, own in outcomes.items() if name in (NONE, one.name)):
                continue  # there is nothing to compare with, or no mean over seeds
            watch.note(f"Training {done} of {plan.trainings}: {one.name}, seed {seed}")
            try:
                outcome = _outcome(plan, one, seed, place, redactor, watch)
            except (KeyboardInterrupt, Interrupted) as error:
                raise Interrupted(
                    f"Interrupted in training {done} of {plan.trainings}; {done - 1} are kept in "
                    f"{place}. The same command with --resume goes on."
                ) from error
            outcomes.setdefault(one.name, []).append(outcome)
    return section(plan, outcomes)


def _outcome(
    plan: DefensePlan,
    one: DefenseCandidate,
    seed: int,
    place: Path,
    redactor: "Redactor",
    watch: DefenseWatch,
) -> DefenseOutcome:
    """Return what one federation came to: what a file keeps of it, or measured now."""
    config = one.settings(plan.config, seed)
    settings = config.sha256()
    name = f"{one.name}-seed{seed}-{settings[:8]}"
    file, digest = place / f"{name}.json", f"{settings} {request_digest(plan.request)}"
    if kept := read_outcome(file, digest):
        return kept
    run = DefenseRun(config=config, place=place / name, request=plan.request)
    outcome = run_defense(run, redactor, watch)
    if not outcome.reason:
        write_outcome(outcome, file, digest)
    return outcome


def section(plan: DefensePlan, outcomes: Outcomes) -> dict[str, Any]:
    """Return what a report says of all defences: means over seeds, differences, sentences."""
    reasons = {name: _reason(own) for name, own in outcomes.items()}
    none = outcomes[NONE]
    if reasons[NONE]:
        effects: dict[str, DefenseEffect] = {}
    else:
        effects = {
            name: effect(own, None if name == NONE else none)
            for name, own in outcomes.items()
            if not reasons[name]
        }
    others = {name: own for name, own in effects.items() if name != NONE}
    told = (
        recommendations(effects[NONE], others)
        if effects
        else [f"Training again without a defence gave no number: {reasons[NONE].rstrip('.')}."]
    )
    return {
        "seeds": list(plan.seeds),
        "attacker": plan.attacker,
        "victim": plan.victim,
        "attacks": list(ATTACKS),
        "tried": list(_rows(plan, outcomes, effects, reasons)),
        "recommendations": told,
    }


def _reason(outcomes: Sequence[DefenseOutcome]) -> str:
    """Return why a defence has no number, with the first seed that has none."""
    return next((f"seed {one.seed}: {one.reason}" for one in outcomes if one.reason), "")


def _rows(
    plan: DefensePlan,
    outcomes: Outcomes,
    effects: Mapping[str, DefenseEffect],
    reasons: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    for one in (DefenseCandidate(name=NONE), *plan.candidates):
        own = effects.get(one.name)
        reason = one.reason or reasons.get(one.name, "")
        if own is None and not reason:
            reason = "training again without a defence gave no number to compare with"
        yield {
            "defense": one.name,
            "options": dict(one.options),
            "reason": reason,
            "leaks": [
                {
                    "attack": name,
                    "n": outcomes[one.name][0].leaks[name].n,
                    "by_seed": [seed.leaks[name].share.value for seed in outcomes[one.name]],
                    **_change(change),
                }
                for name, change in (own.leaks if own else {}).items()
            ],
            "loss": _change(own.loss) if own and own.loss else None,
            "seconds": own.seconds if own else None,
            "tokens": own.tokens if own else None,
            "bytes": own.bytes if own else None,
            "flops": own.flops if own else None,
        }


def _change(change: Change) -> dict[str, Any]:
    gap = change.difference
    return {"mean": asdict(change.mean), "difference": asdict(gap) if gap else None}
