"""A simulation from settings to a finished federation with its report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedaudit import corpus, registry
from fedaudit.errors import InputError
from fedaudit.federation import manifest
from fedaudit.federation.folder import open_federation
from fedaudit.federation.manifest import Manifest
from fedaudit.interfaces import Progress, no_progress
from fedaudit.prompts import template
from fedaudit.records import Measurement, Target
from fedaudit.simulation import loop, setup, utility
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.loop import Listener, Run

HELD_OUT = "data/held_out.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A complete federation, its utility, and the round that it was resumed after."""

    manifest: Manifest
    measurements: tuple[Measurement, ...]
    resumed_from: int | None


def existing(config: Simulation, out: Path) -> Manifest | None:
    """Return the manifest of this very simulation in `out`, None for an empty place.

    Raises InputError when `out` holds something else: nothing is ever overwritten.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not (out / manifest.NAME).is_file():
        raise InputError(f"{out} is not empty and holds no federation; choose another --out.")
    found = open_federation(out).manifest
    if found.config_sha256 != config.sha256():
        changed = differing(found, config)
        raise InputError(
            f"{out} holds another run (it differs in {changed}); choose another --out or remove it."
        )
    return found


def differing(found: Manifest, config: Simulation) -> str:
    """Return the names of the settings in which a federation differs from `config`."""
    wanted = config.table()
    names = [key for key in wanted if key != "workers" and found.config.get(key) != wanted[key]]
    return ", ".join(names) or "what is in its data"


def simulate(
    config: Simulation,
    out: Path,
    *,
    listener: Listener,
    progress: Progress = no_progress,
) -> Simulated:
    """Run the simulation into `out`, from where an earlier run of it stopped."""
    from fedaudit.engine.loader import load_base

    name, options = config.aggregator()
    aggregator = registry.create("aggregation", name, options)
    defenses = [registry.create("defense", *chosen) for chosen in config.defended()]
    template(config.template)
    started = existing(config, out)
    base = load_base(config.base, device=config.device, dtype=config.dtype)
    resumed = len(started.rounds) - 1 if started else None
    if started is None:
        started = setup.create(config, out, base)
    elif started.base.sha256 != base.sha256:
        raise InputError(f"The base {config.base} is not the one that {out} was begun with.")
    tokens = loop.tokenized(config, out, started.clients, base, defenses)
    del base  # its memory is the workers' now
    run = Run(config=config, out=out, aggregator=aggregator, tokens=tokens)
    finished = loop.run_rounds(run, started, listener)
    return Simulated(
        manifest=finished,
        measurements=tuple(evaluate(config, out, finished, progress)),
        resumed_from=resumed,
    )


def evaluate(
    config: Simulation, out: Path, finished: Manifest, progress: Progress
) -> Sequence[Measurement]:
    """Return the held-out utility of base, tuned and (where trained) central model."""
    from fedaudit.engine.loader import load_base
    from fedaudit.engine.local import LocalEngine

    if not config.evaluated or not (out / HELD_OUT).is_file():
        return utility.unmeasured("nothing was held out")
    form = template(config.template)
    documents = list(corpus.read(out / HELD_OUT, form))[: config.evaluated]
    engine = LocalEngine(load_base(config.base, device=config.device, dtype=config.dtype))
    last = finished.rounds[-1]
    targets = [
        ("base", Target(name=config.base)),
        ("tuned", Target(name=last.adapter, adapter=str(out / last.adapter))),
    ]
    central = out / f"central/{last.round:03d}"
    if central.is_dir():
        targets.append(("central", Target(name="central", adapter=str(central))))
    return utility.measure(
        engine,
        targets,
        documents,
        form,
        seed=config.seed,
        max_length=min(config.training.max_length, engine.context_length),
        progress=progress,
    )
