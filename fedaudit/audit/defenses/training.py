"""One federation under one defence with one seed: trained, attacked, measured."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import TYPE_CHECKING, Any

from fedaudit import __version__
from fedaudit.api.errors import FedauditError, InputError, Interrupted, UsageError
from fedaudit.api.estimates import Estimate
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Measurement, Target
from fedaudit.api.target_sets import EXCLUSIVE
from fedaudit.audit.access import RIGHT
from fedaudit.audit.defenses.plan import AttackedPair
from fedaudit.audit.plan import Plan
from fedaudit.audit.request import ExtractionRequest
from fedaudit.audit.session import run_audit
from fedaudit.config.options import build
from fedaudit.federation.folder import open_federation
from fedaudit.metrics.intervals import bootstrap_mean
from fedaudit.simulation import runner
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.context import Event, Listener
from fedaudit.simulation.evaluation import utility
from fedaudit.simulation.evaluation.keyed import EVERYBODY
from fedaudit.system.files import atomic_text, json_sha256, read_json, sha256

if TYPE_CHECKING:
    from fedaudit.report.redaction import Redactor

ATTACKS = ("contextual", "verbatim")
"""The attacks on every trained federation; recommendations are based on the first."""
PARTIAL_SCOPE_KEYS = frozenset(
    {"label", "category", "budget", "samples", "task", "estimator", "corpus"}
)
"""Scope keys that are absent from rows about all targets and all requests."""


def leak_requests(plan: Plan) -> list[ExtractionRequest]:
    """Return a request for each victim of the audit, with its records, options and seed.

    Raises UsageError where the audit itself has no records to attack with.
    """
    steps = [step for step in plan.requests.values() if isinstance(step, ExtractionRequest)]
    if requests := [_leak_request(plan, step) for step in steps if step.victim]:
        return requests
    raise UsageError(
        "--defenses needs the records of an attacker and of a victim: name them with "
        "--prefixes and --victim."
    )


def _leak_request(plan: Plan, step: ExtractionRequest) -> ExtractionRequest:
    options: dict[str, Mapping[str, Any]] = {}
    for request in reversed(list(plan.requests.values())):
        options |= {
            name: request.options[name] for name in request.options if name in request.attacks
        }
    attack_options = {name: options[name] for name in ATTACKS if name in options}
    detector_options = {
        name: step.options[name] for name in (step.detector,) if name in step.options
    }
    return replace(
        step, attacks=ATTACKS, options={**detector_options, **attack_options}, held_out=None,
        adapter=None, round=None, client=None, keys=(), counterfactual=None,
    )  # fmt: skip


def on_federation(
    request: ExtractionRequest, folder: Path, clients: Mapping[str, str]
) -> ExtractionRequest:
    """Return the request on the federation in `folder`, as the victim's deployed model answers.

    `clients` are the files that it was trained on, by client. The attack uses the federation's own
    copies of them, so that no client is taken for another member.
    """
    manifest = open_federation(folder).manifest
    copies = {c.id: folder / c.data for c in manifest.clients}
    names = {Path(path).resolve(): name for name, path in clients.items()}
    attacker = names.get(request.prefixes.resolve())
    victim = names.get(request.victim.resolve()) if request.victim else None
    client = (victim or next(iter(copies))) if manifest.deployment is not None else None
    return replace(
        request,
        target=str(folder),
        client=client,
        prefixes=copies[attacker] if attacker else request.prefixes,
        victim=copies[victim] if victim else request.victim,
    )


def request_digest(request: ExtractionRequest) -> str:
    """Return the digest of what answers depend on besides the model: options and records."""
    files = [request.prefixes, *([request.victim] if request.victim else [])]
    facts = {
        "files": [sha256(path) for path in files],
        "options": {name: dict(options) for name, options in request.options.items()},
        "attacks": request.attacks,
        "seed": request.seed,
        "detector": request.detector,
        "template": request.template,
        "version": __version__,
    }
    return json_sha256(facts, default=str)


def leak_row(rows: Sequence[Measurement], attack: str) -> Measurement | None:
    """Return the row with an attack's coverage of all its targets; None if there is no such row.

    The row counts what came out of the tuned model and not of its base, in the judged set of
    targets. For a deployed defence with keys, it is the row of the largest coverage under a wrong
    key.
    """
    coverage_rows = [
        row
        for row in rows
        if (row.kind, row.plugin, row.metric) == ("extraction", attack, "coverage")
        and row.scope.get("source") == "tuned-not-base"
        and not PARTIAL_SCOPE_KEYS & row.scope.keys()
        and row.scope.get("key") != RIGHT
    ]
    exclusive_rows = [row for row in coverage_rows if row.scope.get("set", EXCLUSIVE) == EXCLUSIVE]
    candidates = [row for row in exclusive_rows if row.value is not None and row.low is not None]
    if candidates:
        return max(candidates, key=lambda row: row.value or 0.0)
    return exclusive_rows[0] if exclusive_rows else None


def worst_pair(pairs: Sequence[AttackedPair], rows: Sequence[Measurement]) -> AttackedPair:
    """Return the pair whose victim lost the largest share in the audit with these rows.

    It is the first of several that lost as much, and where nothing was measured.
    """

    def share(pair: AttackedPair) -> float:
        of_victim = [row for row in rows if row.scope.get("victim", pair.victim) == pair.victim]
        leaks = (leak_row(of_victim, attack) for attack in ATTACKS)
        return next((row.value for row in leaks if row and row.value is not None), 0.0)

    return max(pairs, key=share)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakShare:
    """What one attack drew out: a share of n targets, with its 95 % interval."""

    share: Estimate
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DefenseOutcome:
    """A federation under one defence with one seed; `reason` says why there is none."""

    seed: int
    leaks: Mapping[str, LeakShare] = field(default_factory=dict)
    """By attack."""
    losses: tuple[float, ...] = ()
    """The loss of each held-out document in nats per token, if no defence answers for the model."""
    loss: Estimate | None = None
    """The mean of the held-out losses."""
    seconds: float | None = None
    """The time of training, deployment and evaluation; None if they were interrupted."""
    tokens: int = 0
    """The tokens that all clients together trained on."""
    bytes: int | None = None
    """The bytes that all clients together sent and received."""
    flops: float | None = None
    reason: str = ""


def read_outcome(path: Path, digest: str) -> DefenseOutcome | None:
    """Return what a file keeps of the same federation and attack; None where it keeps none."""
    try:
        table = read_json(path, "")
        if table.pop("digest") != digest:
            return None
        return build(DefenseOutcome, table, str(path))
    except (InputError, KeyError, AttributeError, UsageError):
        return None  # it is measured anew


def write_outcome(outcome: DefenseOutcome, path: Path, digest: str) -> None:
    """Write an outcome to a file, atomically."""
    table = {**asdict(outcome), "digest": digest}
    atomic_text(path, json.dumps(table, indent=2, sort_keys=True) + "\n")


def no_event(event: Event) -> None:
    """Ignore an event of a training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefenseWatch:
    """Callbacks for progress: notes of what begins, events of training, bars by title."""

    note: Callable[[str], None] = lambda line: None
    training: Listener = no_event
    bar: Callable[[str], Progress] = lambda title: no_progress


def run_defense(
    config: Simulation,
    folder: Path,
    request: ExtractionRequest,
    redactor: "Redactor",
    watch: DefenseWatch,
) -> DefenseOutcome:
    """Train the federation in `folder`, or finish it, attack it, and return what was measured.

    An error of the defence or of the attack becomes the outcome's reason.
    """
    is_resumed, start = folder.exists(), monotonic()
    try:
        with runner.lock_run(folder):
            done = runner.simulate(config, folder, listener=watch.training, progress=watch.bar)
        seconds = _timing(folder, None if is_resumed else monotonic() - start)
        request = on_federation(request, folder, config.client_data)
        rows = run_audit(request, redactor, watch.bar).report.measurements
        losses, loss = _held_out_loss(config, folder, done.measurements)
    except Interrupted:
        raise
    except FedauditError as error:
        return DefenseOutcome(seed=config.seed, reason=str(error))
    leaks = {name: share for name in ATTACKS if (share := _leak(rows, name))}
    missing = next((row.reason for name in ATTACKS if (row := leak_row(rows, name))), "")
    return DefenseOutcome(
        seed=config.seed,
        leaks=leaks,
        losses=losses,
        loss=loss,
        seconds=seconds,
        tokens=done.tokens,
        bytes=None if (sent := _sum(done.measurements, "bytes_sent")) is None else int(sent),
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
    config: Simulation, folder: Path, rows: Sequence[Measurement]
) -> tuple[tuple[float, ...], Estimate | None]:
    """Return the loss of each held-out document and their mean.

    Where a deployed defence answers for the model, only the mean is known: the logarithm of the
    perplexity that clients get under their right keys.
    """
    manifest = open_federation(folder).manifest
    if manifest.deployment is not None:
        return (), deployed_loss(rows)
    documents = runner.held_out(config, folder)
    if not documents:
        return (), None
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    engine = LocalEngine(load_base(config.base, device=config.device, dtype=config.dtype))
    last = manifest.rounds[-1].adapter
    length = min(config.training.max_length, engine.context_length)
    target = Target(name=last, adapter=str(folder / last))
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
