"""One federation under one defence with one seed: trained, attacked, measured."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import TYPE_CHECKING

from fedaudit.api.errors import FedauditError, Interrupted
from fedaudit.api.estimates import Estimate
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Measurement, Target
from fedaudit.assessment.defenses.leak_request import ATTACKS, leak_row, on_federation
from fedaudit.assessment.defenses.outcome import DefenseOutcome, LeakShare
from fedaudit.audit.access import RIGHT
from fedaudit.audit.request import ExtractionRequest
from fedaudit.audit.session import run_audit
from fedaudit.federation.folder import open_federation
from fedaudit.metrics.intervals import bootstrap_mean
from fedaudit.simulation import runner
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.context import Event, Listener
from fedaudit.simulation.evaluation import utility
from fedaudit.simulation.evaluation.keyed import EVERYBODY
from fedaudit.system.files import atomic_text

if TYPE_CHECKING:
    from fedaudit.report.redaction import Redactor


def no_event(event: Event) -> None:
    """Ignore an event of a training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefenseWatch:
    """Callbacks for progress: notes of what begins, events of training, bars by title."""

    note: Callable[[str], None] = lambda line: None
    training: Listener = no_event
    bar: Callable[[str], Progress] = lambda title: no_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class DefenseRun:
    """A federation to train in `folder`, and the attack to run on it."""

    config: Simulation
    folder: Path
    request: ExtractionRequest


def run_defense(run: DefenseRun, redactor: "Redactor", watch: DefenseWatch) -> DefenseOutcome:
    """Train the federation, or finish it, attack it, and return what was measured.

    An error of the defence or of the attack becomes the outcome's reason.
    """
    is_resumed, start = run.folder.exists(), monotonic()
    try:
        with runner.lock_run(run.folder):
            done = runner.simulate(
                run.config, run.folder, listener=watch.training, progress=watch.bar
            )
        seconds = _timing(run.folder, None if is_resumed else monotonic() - start)
        request = on_federation(run.request, run.folder, run.config.client_data)
        rows = run_audit(request, redactor, watch.bar).report.measurements
        losses, loss = _held_out_loss(run, done.measurements)
    except Interrupted:
        raise
    except FedauditError as error:
        return DefenseOutcome(seed=run.config.seed, reason=str(error))
    leaks = {name: share for name in ATTACKS if (share := _leak(rows, name))}
    missing = next((row.reason for name in ATTACKS if (row := leak_row(rows, name))), "")
    return DefenseOutcome(
        seed=run.config.seed,
        leaks=leaks,
        losses=losses,
        loss=loss,
        seconds=seconds,
        tokens=done.tokens,
        bytes=_total_count(done.measurements, "bytes_sent"),
        flops=_sum(done.measurements, "flops"),
        reason="" if leaks else missing or "the attacks had nothing to look for",
    )


def _timing(folder: Path, seconds: float | None) -> float | None:
    """Store a training's seconds beside its folder; return the stored ones, None without any.

    There is no time for an interrupted training.
    """
    path = folder.parent / f"{folder.name}.seconds"
    if seconds is not None:
        atomic_text(path, f"{seconds:.1f}\n")
    return float(path.read_text("utf-8")) if path.is_file() else None


def _leak(rows: Sequence[Measurement], attack: str) -> LeakShare | None:
    row = leak_row(rows, attack)
    if row is None or row.value is None or row.low is None or row.high is None:
        return None
    return LeakShare(share=Estimate(row.value, row.low, row.high), n=row.n or 0)


def _held_out_loss(
    run: DefenseRun, rows: Sequence[Measurement]
) -> tuple[tuple[float, ...], Estimate | None]:
    """Return the loss of each held-out document and their mean.

    Where a deployed defence answers for the model, only the mean is known: the logarithm of the
    perplexity that clients get under their right keys.
    """
    manifest = open_federation(run.folder).manifest
    if manifest.deployment is not None:
        return (), deployed_loss(rows)
    documents = runner.held_out(run.config, run.folder)
    if not documents:
        return (), None
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    config = run.config
    engine = LocalEngine(load_base(config.base, device=config.device, dtype=config.dtype))
    last = manifest.rounds[-1].adapter
    length = min(config.training.max_length, engine.context_length)
    target = Target(name=last, adapter=str(run.folder / last))
    losses = utility.losses(engine, target, documents, length)
    return tuple(losses), bootstrap_mean(losses, seed=0) if losses else None


def deployed_loss(rows: Sequence[Measurement]) -> Estimate | None:
    """Return the mean of ln(perplexity) on held-out documents under the right keys, over keys."""
    right = [
        Estimate(math.log(row.value), math.log(row.low), math.log(row.high))
        for row in rows
        if row.metric == "perplexity"
        and row.scope.get("key") == RIGHT
        and (row.scope.get("client"), row.scope.get("data")) == (EVERYBODY, "held-out")
        and row.value and row.low and row.high
    ]  # fmt: skip
    if not right:
        return None
    columns = ([getattr(e, end) for e in right] for end in ("value", "low", "high"))
    return Estimate(*map(fmean, columns))


def _sum(rows: Sequence[Measurement], metric: str) -> float | None:
    values = [row.value for row in rows if (row.kind, row.metric) == ("cost", metric)]
    known_values = [value for value in values if value is not None]
    return sum(known_values) if known_values and len(known_values) == len(values) else None


def _total_count(rows: Sequence[Measurement], metric: str) -> int | None:
    total = _sum(rows, metric)
    return None if total is None else int(total)
