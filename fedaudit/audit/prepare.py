"""An audit with every attack that applies, checked and planned before a model is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import DETECTOR
from fedaudit.api.policy import Policy
from fedaudit.audit.all_steps import AssessmentInputs, AssessmentPipeline, assessment_inputs
from fedaudit.audit.defenses.plan import DefensePlan
from fedaudit.audit.defenses.study import make_defense_plan
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.material import Material, discover
from fedaudit.audit.plan import Plan, make_plan
from fedaudit.audit.policy_file import read_policy
from fedaudit.audit.request import (
    AssessmentRequest,
    ReleaseContext,
)
from fedaudit.audit.session import AuditSession, native_target
from fedaudit.audit.target import RUNS, AuditTarget
from fedaudit.config import registry
from fedaudit.engine.vllm.options import VllmOptions

StrPath = str | Path
Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedAudit:
    """An audit before any request to a model: the available material, the plan and the request."""

    material: Material
    plan: Plan
    inputs: AssessmentInputs
    defenses: DefensePlan | None = None
    """The trainings under defences; None if they were not requested."""
    notes: tuple[str, ...] = ()
    """What a user should know about how the target was found."""

    @property
    def request(self) -> AssessmentRequest:
        """The request of all steps together."""
        return self.inputs.request

    def session(self, out: StrPath | None = None, **options: Any) -> AuditSession:
        """Return the session that runs it; `options` are those of AuditSession."""
        folder = Path(out) if out is not None else None
        return AuditSession(
            self.request, folder, inputs=self.inputs, pipeline=AssessmentPipeline, **options
        )


def prepare(
    target: StrPath | None = None,
    *,
    adapter: StrPath | None = None,
    prefixes: StrPath | None = None,
    victim: StrPath | None = None,
    held_out: StrPath | None = None,
    canaries: StrPath | None = None,
    commitment: str = "",
    watermark: StrPath | None = None,
    policy: str | Policy = "default",
    release: str = "",
    positions: Sequence[str] = (),
    declared_by: str = "",
    parties: Mapping[str, str] | None = None,
    quick: bool = False,
    attacks: Sequence[str] = (),
    round: int | None = None,  # noqa: A002
    client: str | None = None,
    options: Options | None = None,
    detector: str = DETECTOR,
    template: str = "fed_pii",
    seed: int = 0,
    batch_size: int = 0,
    device: str = "auto",
    dtype: str = "auto",
    engine: str = "local",
    vllm: VllmOptions | None = None,
    defenses: bool | Sequence[str] = False,
    defense_seeds: int = 3,
    defense_profile: str = "",
    defense_data: Sequence[str] = (),
) -> PreparedAudit:
    """Return an audit with every check made that needs no model.

    The arguments are the options of `fedaudit audit`; `options` are those of attacks, of the
    detector and of defences that are tried, by name; `defenses` is True for all that are installed,
    or names some. Raises UsageError and InputError.
    """
    defense_options, options = _split_options(options or {})
    limits = policy if isinstance(policy, Policy) else read_policy(policy)
    notes: list[str] = []
    # Before planning, because the plan is about its rounds.
    target = native_target(None if target is None else str(target), template, RUNS, notes.append)
    reader = InputReader()
    context = ReleaseContext(
        release=release,
        positions=tuple(positions),
        declared_by=declared_by,
        parties=parties or {},
    )
    material = discover(
        target,
        None if adapter is None else str(adapter),
        round,
        client=client,
        prefixes=as_path(prefixes),
        victim=as_path(victim),
        held_out=as_path(held_out),
        canaries=as_path(canaries),
        marks=as_path(watermark),
        reader=reader,
    )
    common: dict[str, Any] = {
        # As it was found, so that every step has the same.
        "target": _found_target(material.audited) if target is None else str(target),
        "adapter": None if adapter is None else str(adapter),
        "round": round,
        "client": client or material.audited.deployment or None,
        "detector": detector,
        "template": template,
        "seed": seed,
        "batch_size": batch_size,
        "device": device,
        "dtype": dtype,
        "engine": engine,
        "vllm": vllm,
    }
    plan = make_plan(
        material,
        common,
        options=options,
        commitment=commitment,
        quick=quick,
        attacks=attacks,
        reader=reader,
    )
    request = AssessmentRequest(
        **common,
        steps=plan.requests,
        policy=limits,
        context=context,
        left_out=plan.left_out,
        victims=plan.victims,
        quick=quick,
    )
    defense_plan = None
    if defenses is not False:
        defense_plan = make_defense_plan(
            material,
            plan,
            names=() if defenses is True else tuple(defenses),
            options=defense_options,
            seeds=defense_seeds,
            profile=defense_profile,
            data=defense_data,
        )
    elif defense_options or defense_profile or defense_data:
        raise UsageError("Options of defences go with --defenses.")
    return PreparedAudit(
        material=material,
        plan=plan,
        inputs=assessment_inputs(request, plan.steps, plan.attribution),
        defenses=defense_plan,
        notes=tuple(filter(None, (*notes, material.audited.discovery_note))),
    )


def _found_target(audited: AuditTarget) -> str:
    return str(audited.federation.path) if audited.federation else audited.base


def _split_options(options: Options) -> tuple[Options, Options]:
    """Return the options of defences, and those of everything else."""
    names = registry.plugins("defense")
    defense_options = {name: table for name, table in options.items() if name in names}
    return defense_options, {name: table for name, table in options.items() if name not in names}


def as_path(path: StrPath | None) -> Path | None:
    """Return a path, or None without one."""
    return None if path is None else Path(path)
