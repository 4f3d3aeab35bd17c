"""Trains and attacks every federation in turn, resuming earlier runs; the report's section."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import Interrupted, UsageError
from fedaudit.audit.defenses.differences import DefenseEffect, MeanChange, effect, recommendations
from fedaudit.audit.defenses.plan import (
    NONE,
    DefenseCandidate,
    DefensePlan,
    client_files,
    defense_candidates,
    earlier_seconds,
    folder_size,
    fresh_seeds,
    retraining_settings,
    trained_defenses,
)
from fedaudit.audit.defenses.training import (
    ATTACKS,
    DefenseOutcome,
    DefenseRun,
    DefenseWatch,
    leak_request,
    read_outcome,
    request_digest,
    run_defense,
    write_outcome,
)
from fedaudit.audit.material import Material
from fedaudit.audit.plan import Plan
from fedaudit.system.files import make_folder

if TYPE_CHECKING:
    from fedaudit.report.redaction import Redactor

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
    request = leak_request(plan)
    config = retraining_settings(
        material,
        client_files(material, data),
        profile=profile,
        detector=request.detector,
        device=request.device,
        dtype=request.dtype,
    )
    candidates = defense_candidates(
        config, names, options=options, trained=trained_defenses(material)
    )
    return DefensePlan(
        config=config,
        candidates=candidates,
        seeds=fresh_seeds(config, seeds),
        request=request,
        attacker=material.client_name(request.prefixes),
        victim=material.client_name(request.victim),
        earlier=earlier_seconds(material, config),
        size=folder_size(material),
    )


def run_defenses(
    plan: DefensePlan, folder: Path, redactor: "Redactor", watch: DefenseWatch
) -> dict[str, Any]:
    """Train and attack what is not done yet, below `folder`; return the report's section.

    Raises Interrupted where the run was stopped: what is finished is kept.
    """
    defense_folder = folder / FOLDER
    make_folder(defense_folder)
    outcomes: dict[str, list[DefenseOutcome]] = {}
    done = 0
    # Seed by seed, so that what is finished when somebody stops it can be compared.
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
    name = f"{candidate.name}-seed{seed}-{settings[:8]}"
    file, digest = folder / f"{name}.json", f"{settings} {request_digest(plan.request)}"
    if existing := read_outcome(file, digest):
        return existing
    run = DefenseRun(config=config, folder=folder / name, request=plan.request)
    outcome = run_defense(run, redactor, watch)
    if not outcome.reason:
        write_outcome(outcome, file, digest)
    return outcome


def section(plan: DefensePlan, outcomes: Outcomes) -> dict[str, Any]:
    """Return what a report says of all defences: means over seeds, differences, sentences."""
    reasons = {name: _reason(runs) for name, runs in outcomes.items()}
    none = outcomes[NONE]
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
        "attacker": plan.attacker,
        "victim": plan.victim,
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
