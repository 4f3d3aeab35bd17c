"""The request of `attribute --rounds`, and its inputs, resolved before any model is loaded."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.api.watermark import Mark
from fedaudit.attribution import copied_updates, measurements, plaintext
from fedaudit.attribution.decision.decision import check_limits
from fedaudit.attribution.evidence import commitment
from fedaudit.attribution.owner import detection
from fedaudit.attribution.owner.worker_pool import WorkerOptions
from fedaudit.attribution.server import estimation, sum_plan
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.attribution.server.sum_plan import SumPlan
from fedaudit.config import registry
from fedaudit.conversion import bases
from fedaudit.federation import adapter_origin, adapters, commitments
from fedaudit.federation import watermark_keys as marks_file
from fedaudit.federation.folder import Federation, FederationReader, check_consecutive
from fedaudit.metrics.attribution.stouffer import THRESHOLD
from fedaudit.report.run_header import run_id
from fedaudit.system.files import existing_path


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionRequest:
    """The arguments of `attribute --rounds`."""

    rounds: Path
    watermark: Path | None = None
    commitments: Path | None = None
    """The published commitments; without it, those in the federation's folder, if any."""
    methods: tuple[str, ...] = (measurements.PROTOCOL,)
    protocol_config: ProtocolConfig = field(default_factory=ProtocolConfig)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of the methods and watermarks, by name; a mark keeps the others that it has."""
    threshold: float = THRESHOLD
    alpha: float = 0.01
    seed: int = 0
    federations: int | None = None
    """Simulated federations of each strength, for the report; as many as take some seconds unless
    they are given."""
    worker_options: WorkerOptions = field(default_factory=WorkerOptions)


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request and the inputs that it names, found and checked."""

    request: AttributionRequest
    federation: Federation
    path: Path
    """The file of marks."""
    marks: Sequence[Mark]
    sha256: str
    """The SHA-256 of that file."""
    commitments: Path | None = None
    """The published commitments that marks are compared with; None where there are none."""
    plan: SumPlan | None = None
    """The sums that the protocol asks for, if it is among the methods."""
    caveats: tuple[str, ...] = ()
    """What the report says of the federation's files."""


def check_methods(names: Sequence[str]) -> None:
    """Raise UsageError for a method that is not installed."""
    offered = (measurements.PROTOCOL, *registry.plugins("attribution"))
    for name in names:
        if name not in offered:
            raise unknown_name_error("attribution", name, offered)


def resolve_request(request: AttributionRequest, reader: FederationReader) -> ResolvedRequest:
    """Return the federation, marks and commitments of a request, after all checks without a model.

    Raises UsageError for unknown methods or a missing watermark file, InputError for broken files.
    """
    check_limits(request.threshold, request.alpha)
    check_methods(request.methods)
    federation = reader.federation(existing_path(request.rounds, "federation"))
    check_consecutive(federation)
    copied_updates.check_rounds(federation)
    caveats = _tokenizer_caveats(federation)
    methods = [name for name in request.methods if name != measurements.PROTOCOL]
    for name in methods:
        plaintext.check(registry.create("attribution", name, request.options.get(name)), federation)
    path = request.watermark or federation.path / marks_file.OWNER
    if request.watermark is None and not path.is_file():
        raise UsageError(
            f"{federation.path} holds no watermark file: name the owner's with --watermark."
        )
    marks = detection.override_options(marks_file.read(path, reader.read), request.options, methods)
    detection.check_issued(marks, path)
    plan = None
    if measurements.PROTOCOL in request.methods:
        plan = sum_plan.draw_sum_plan(federation, request.protocol_config)
    default_path = federation.path / commitments.NAME
    chosen = request.commitments or (default_path if default_path.exists() else None)
    if request.commitments:
        commitment.check(request.commitments, [mark.id for mark in marks])
    elif chosen:
        commitments.read(chosen)
    sha256 = reader.sha256(path)
    return ResolvedRequest(request, federation, path, marks, sha256, chosen, plan, caveats)


def _tokenizer_caveats(federation: Federation) -> tuple[str, ...]:
    """Return a sentence if the last global adapter came with a tokenizer that is not the base's.

    Raises InputError if that is the tokenizer of another base.
    """
    last = federation.path / federation.manifest.rounds[-1].adapter
    if not adapters.tokenizer_files(last):
        return ()
    saved = adapter_origin.saved_tokenizer(last, bases.folder(federation.manifest.base.name))
    if saved is None or not saved.differences:
        return ()
    return (
        "Marks are tested with the base's tokenizer; the one saved beside the adapters has "
        f"{saved.listed()}.",
    )


def name_of(resolved: ResolvedRequest) -> str:
    """Return the run's id: the fingerprint of its settings, its marks and its federation."""
    return run_id({**settings_of(resolved), "files": [resolved.sha256]})


def settings_of(resolved: ResolvedRequest) -> dict[str, Any]:
    """Return the settings of a run, as stated in its report and hashed in its id."""
    request = resolved.request
    return {
        "rounds": str(request.rounds),
        "run": estimation.identity(resolved.federation),
        "watermark": str(resolved.path),
        "commitments": str(resolved.commitments or ""),
        "methods": list(request.methods),
        "options": {name: dict(options) for name, options in request.options.items()},
        "wish": asdict(request.protocol_config),
        "threshold": request.threshold,
        "alpha": request.alpha,
        "seed": request.seed,
        "federations": request.federations,
    }
