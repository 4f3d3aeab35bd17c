"""Running a study: each federation once, the attacks on it, then claims and figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Claim, Finding, Measurement
from fedaudit.config.options import build, merge_tables
from fedaudit.config.profile import Profile, Published, Variant
from fedaudit.reproduction.claims import check_claims, compare_figures
from fedaudit.reproduction.pooling import average_means, average_ratios, pool_counts
from fedaudit.reproduction.scheduler import default_jobs, run_tasks
from fedaudit.reproduction.variant import VariantTask, Watch
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.evaluation.llm_judge import VERDICTS

if TYPE_CHECKING:
    from fedaudit.report.redaction import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """What a study found."""

    measurements: tuple[Measurement, ...]
    findings: tuple[Finding, ...]
    claims: tuple[Claim, ...]
    figures: tuple[tuple[Published, float | None], ...]
    federations: tuple[Path, ...]
    data: tuple[Mapping[str, Any], ...]
    limits: tuple[str, ...] = ()


def study_variants(profile: Profile, scale: str, quick: bool) -> list[Variant]:
    """Return the variants to run; raises UsageError when the profile has no study."""
    fitting = [variant for variant in profile.study if variant.only in ("", scale)]
    chosen = [variant for variant in fitting if variant.quick or not quick]
    if not chosen:
        raise UsageError(f"Profile {profile.name} has no study to reproduce.")
    return chosen


def variant_config(profile: Profile, scale: str, variant: Variant, settings: Any) -> Simulation:
    """Return the federation of a variant: scale, then variant, then the user's settings."""
    own = merge_tables(variant.simulate, variant.scale.get(scale, {}))
    table = merge_tables(merge_tables(profile.settings(scale), own), settings)
    return build(Simulation, table, f"variant {variant.name}")


def shared_federations(configs: Sequence[Simulation], federations: Path) -> list[Simulation]:
    """Return the federations, each with its central model where one of them asks for that.

    One that was trained without it before, and not yet with it, stays as it is.
    """
    wanted = [config for config in configs if config.central]
    beside = (replace(config, central=True) for config in configs)
    return [
        whole
        if whole in wanted and (_there(federations, whole) or not _there(federations, config))
        else config
        for config, whole in zip(configs, beside, strict=True)
    ]


def _place(federations: Path, config: Simulation) -> Path:
    return federations / config.sha256()[:12]


def _there(federations: Path, config: Simulation) -> bool:
    return _place(federations, config).exists()


def run_study(
    profile: Profile,
    scale: str,
    *,
    quick: bool,
    settings: Any,
    federations: Path,
    redactor: "Redactor",
    watch: Watch,
    jobs: int = 0,
) -> StudyResult:
    """Run every variant; a federation of equal settings is trained once and kept.

    One that another variant wants with a central model beside it is trained with that at once.
    `jobs` variants run at a time: with 0 as many as there are cores, for small models on CPU.
    """
    chosen = study_variants(profile, scale, quick)
    wanted = [variant_config(profile, scale, variant, settings) for variant in chosen]
    tasks = [
        VariantTask(
            variant=variant,
            config=config,
            place=_place(federations, config),
            verdicts=federations.parent / VERDICTS,
            redactor=redactor,
        )
        for variant, config in zip(chosen, shared_federations(wanted, federations), strict=True)
    ]
    found = run_tasks(tasks, jobs or default_jobs(scale, tasks), watch)
    measured: dict[str, Sequence[Measurement]] = {
        task.variant.name: one.measurements for task, one in zip(tasks, found, strict=True)
    }
    for name in dict.fromkeys(variant.pool for variant in chosen if variant.pool):
        measured[name] = _together(name, chosen, measured)
    return StudyResult(
        measurements=tuple(row for rows in measured.values() for row in rows),
        findings=tuple(finding for one in found for finding in one.findings),
        claims=tuple(check_claims(profile, measured)),
        figures=tuple(compare_figures(profile.figures, measured)),
        federations=tuple(task.place for task in tasks),
        data=tuple(row for one in found for row in one.data),
        limits=tuple(dict.fromkeys(limit for one in found for limit in one.limits)),
    )


def _together(
    name: str, chosen: Sequence[Variant], measured: Mapping[str, Sequence[Measurement]]
) -> list[Measurement]:
    """Return the counts and means of the variants that share a name, over all of them."""
    rows = [row for one in chosen if one.pool == name for row in measured[one.name]]
    together = (pool_counts, average_means, average_ratios)
    return [row for way in together for row in way(rows, "variant", name)]
