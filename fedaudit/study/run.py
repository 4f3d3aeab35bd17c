"""Running a study: each federation once, the attacks on it, then claims and figures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from fedaudit.attribution import run as attribution
from fedaudit.attribution.plan import Wish
from fedaudit.attribution.pool import Machine
from fedaudit.attribution.rows import PROTOCOL
from fedaudit.errors import UsageError
from fedaudit.interfaces import Progress
from fedaudit.options import build, merged
from fedaudit.profile import Profile, Published, Variant
from fedaudit.records import Claim, Finding, Measurement
from fedaudit.simulation import run as simulation
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.judged import VERDICTS
from fedaudit.simulation.loop import Listener
from fedaudit.study.attacks import attacked
from fedaudit.study.claims import beside, checked
from fedaudit.study.memorization import memorized
from fedaudit.study.pool import averaged, between_clients, pooled, weighted

if TYPE_CHECKING:
    from fedaudit.report.document import Report
    from fedaudit.report.redaction import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Who hears of progress."""

    variant: Callable[[str, int, int], None]
    training: Listener
    bar: Callable[[str], Progress]


@dataclass(frozen=True, slots=True, kw_only=True)
class Studied:
    """What a study found."""

    measurements: tuple[Measurement, ...]
    findings: tuple[Finding, ...]
    claims: tuple[Claim, ...]
    figures: tuple[tuple[Published, float | None], ...]
    federations: tuple[Path, ...]
    data: tuple[Mapping[str, Any], ...]
    limits: tuple[str, ...] = ()


def variants(profile: Profile, scale: str, quick: bool) -> list[Variant]:
    """Return the variants to run; raises UsageError when the profile has no study."""
    fitting = [variant for variant in profile.study if variant.only in ("", scale)]
    chosen = [variant for variant in fitting if variant.quick or not quick]
    if not chosen:
        raise UsageError(f"Profile {profile.name} has no study to reproduce.")
    return chosen


def configured(profile: Profile, scale: str, variant: Variant, settings: Any) -> Simulation:
    """Return the federation of a variant: scale, then variant, then the user's settings."""
    own = merged(variant.simulate, variant.scale.get(scale, {}))
    table = merged(merged(profile.settings(scale), own), settings)
    return build(Simulation, table, f"variant {variant.name}")


def shared(configs: Sequence[Simulation], federations: Path) -> list[Simulation]:
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


def study(
    profile: Profile,
    scale: str,
    *,
    quick: bool,
    settings: Any,
    federations: Path,
    redactor: "Redactor",
    watch: Watch,
) -> Studied:
    """Run every variant; a federation of equal settings is trained once and kept.

    One that another variant wants with a central model beside it is trained with that at once.
    """
    measured: dict[str, Sequence[Measurement]] = {}
    findings: list[Finding] = []
    places: list[Path] = []
    data: list[Mapping[str, Any]] = []
    limits: dict[str, None] = {}
    chosen = variants(profile, scale, quick)
    wanted = [configured(profile, scale, variant, settings) for variant in chosen]
    configs = shared(wanted, federations)
    for number, (variant, config) in enumerate(zip(chosen, configs, strict=True), 1):
        watch.variant(variant.name, number, len(chosen))
        place = _place(federations, config)
        begun, started = place.exists(), monotonic()
        done = simulation.simulate(
            config, place, listener=watch.training, verdicts=federations.parent / VERDICTS
        )
        training = 0.0 if begun else monotonic() - started
        reports = [
            *attacked(variant, place, config, redactor, watch.bar),
            *_attributed(variant, place, config, watch),
            *memorized(variant, place, config, redactor, watch.bar),
        ]
        rows = [row for report in reports for row in report.measurements]
        rows += [*overheads(rows, training), *between_clients(rows)]
        measured[variant.name] = [
            replace(row, scope={**row.scope, "variant": variant.name})
            for row in (*done.measurements, *rows, *pooled((*done.measurements, *rows)))
        ]
        findings += [
            replace(f, id=f"{variant.name}-{f.id}", measurement=f"{f.measurement}, {variant.name}")
            for report in reports
            for f in report.findings
        ]
        limits |= dict.fromkeys(done.limits)
        for report in reports:
            # One audit for each client of many would say the same over and over.
            limits |= dict.fromkeys(() if variant.clients else report.limits)
        places.append(place)
        data += [row for report in reports for row in report.data]
    for name in dict.fromkeys(variant.pool for variant in chosen if variant.pool):
        measured[name] = _together(name, chosen, measured)
    return Studied(
        measurements=tuple(row for rows in measured.values() for row in rows),
        findings=tuple(findings),
        claims=tuple(checked(profile, measured)),
        figures=tuple(beside(profile.figures, measured)),
        federations=tuple(places),
        data=tuple(data),
        limits=tuple(limits),
    )


def overheads(rows: Sequence[Measurement], training: float) -> list[Measurement]:
    """Return each step's seconds as a share of the `training` seconds of its federation.

    Nothing where the federation was there before (0), or where the rows say it themselves.
    """
    if not training or any(row.metric == "overhead" for row in rows):
        return []
    return [
        replace(row, metric="overhead", value=row.value / training)
        for row in rows
        if row.metric == "seconds" and "step" in row.scope and row.value is not None
    ]


def _together(
    name: str, chosen: Sequence[Variant], measured: Mapping[str, Sequence[Measurement]]
) -> list[Measurement]:
    """Return the counts and means of the variants that share a name, over all of them."""
    rows = [row for one in chosen if one.pool == name for row in measured[one.name]]
    together = (pooled, averaged, weighted)
    return [row for way in together for row in way(rows, "variant", name)]


def _attributed(
    variant: Variant, place: Path, config: Simulation, watch: Watch
) -> Iterator["Report"]:
    """Yield the report of a variant's attribution."""
    if not variant.attribution:
        return
    options = {name: dict(own) for name, own in variant.options.items()}
    wish = build(Wish, options.pop(PROTOCOL, {}), f"variant {variant.name} {PROTOCOL}")
    request = attribution.Request(
        rounds=place,
        methods=variant.attribution,
        wish=replace(wish, seed=config.seed),
        options=options,
        seed=config.seed,
        machine=Machine(device=config.device, dtype=config.dtype, workers=config.workers),
    )
    yield attribution.run(request, watch.bar)
