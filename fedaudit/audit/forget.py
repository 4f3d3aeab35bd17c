"""`fedaudit forget verify`: what is left of a member's records in the model after it left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Target
from fedaudit.audit import left_members, preflight, records
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.inputs import common_inputs, form_of, resolve_target
from fedaudit.audit.request import ForgetRequest
from fedaudit.audit.run import AuditResults
from fedaudit.audit.target import AuditTarget
from fedaudit.audit.watch import RecordInputs, RecordPipeline, read_records
from fedaudit.federation import adapters, manifest
from fedaudit.federation.adapter_origin import other_base_caveats
from fedaudit.federation.folder import is_federation
from fedaudit.system.files import existing_path
from fedaudit.watch import leaving
from fedaudit.watch.rounds import RoundScorer, reading_caveat


@dataclass(frozen=True, kw_only=True)
class ForgetInputs(RecordInputs[ForgetRequest]):
    """A member's records, and the models beside the one after it left."""

    before: Path
    """The adapter of the model before."""
    retrained: tuple[Path, ...]
    """The adapters that were trained without the member."""
    same: bool
    """Whether the models before and after are one file."""
    trained_tokens: int
    """How many tokens of a text the training of the model before read; 0 if it is not known."""
    origin: tuple[str, ...]
    """Caveats on the bases that the adapters name."""
    manifests: tuple[str, ...]
    """What the manifests show of who left."""


def resolve(request: ForgetRequest, reader: InputReader) -> ForgetInputs:
    """Return the inputs, after every check that needs no model.

    Raises UsageError without held-out records and for a model that no global adapter answers for,
    InputError for models on another base, and for a retrained one that is named twice, is the one
    before or after, or was trained with every client by its manifest.
    """
    audited = resolve_target(request, reader)
    if audited.adapter is None or audited.deployment:
        raise UsageError("A global adapter is verified: name a round of the federation (--round).")
    read = read_records(request, audited, form_of(request, audited), reader)
    before = _adapter(request.before, audited, reader)
    retrained = tuple(_adapter(path, audited, reader) for path in request.retrained)
    digests = {path: reader.fingerprint(path) for path in (before, *retrained)}
    after_sha256 = reader.fingerprint(audited.adapter)
    _check_retrained(
        request, [digests[path] for path in retrained], (digests[before], after_sha256)
    )
    left_members.check_retrained(request.before, request.retrained, reader)
    facts: dict[str, object] = {
        "the model before": digests[before],
        "retrained models": [digests[path] for path in retrained],
    }
    if read["canaries_sha256"]:
        facts["canaries"] = read["canaries_sha256"]
    configs = [adapters.check(path, reader.read) for path in (before, *retrained)]
    return ForgetInputs(
        **common_inputs(request, audited, reader, facts),
        **read,
        before=before,
        retrained=retrained,
        same=digests[before] == after_sha256,
        trained_tokens=_trained_tokens(request.before, audited, reader),
        origin=tuple(other_base_caveats(configs, audited.base)),
        manifests=tuple(
            left_members.manifest_caveats(request.before, request.retrained, audited, reader)
        ),
    )


def _adapter(path: Path, audited: AuditTarget, reader: InputReader) -> Path:
    """Return the adapter of a federation's last round, or of a folder, on the audited base."""
    existing_path(path, "folder")
    if not is_federation(path):
        adapters.check(path, reader.read)
        return path
    federation = reader.federation(path)
    if audited.base_sha256 and federation.manifest.base.sha256 not in ("", audited.base_sha256):
        raise InputError(f"{path} is of another base than what is verified.")
    number, adapter = federation.adapter()
    if number == 0:
        raise InputError(f"{path} has no round yet: nothing was trained.")
    return adapter


def _trained_tokens(path: Path, audited: AuditTarget, reader: InputReader) -> int:
    """Return how many tokens of a text training read for the model before; 0 if it is not known."""
    if is_federation(path):
        return manifest.trained_tokens(reader.federation(path).manifest)
    federation = audited.federation
    inside = federation and path.resolve().is_relative_to(federation.path.resolve())
    return audited.trained_tokens if inside else 0


def _check_retrained(request: ForgetRequest, digests: Sequence[str], others: Sequence[str]) -> None:
    for path, digest in zip(request.retrained, digests, strict=True):
        if digest in others:
            raise InputError(
                f"--retrained {path} is the model before or after itself: it says nothing of it."
            )
        if digests.count(digest) > 1:
            raise InputError(
                f"--retrained {path} is there twice: every retrained model needs its own seed."
            )


@dataclass(kw_only=True)
class ForgetPipeline(RecordPipeline[ForgetInputs]):
    """Asks the models after, before and without the member about its records."""

    def measure(self, engine: Engine) -> AuditResults:
        """Score own and held-out records and canaries under every model."""
        inputs, base = self.inputs, Target(name="base")
        known = inputs.watched.documents
        preflight.measure_effect(engine, self.audited.tuned, base, known)
        # The instrument is tried on the model that was trained on these records.
        before = Target(name=leaving.BEFORE, adapter=str(inputs.before))
        changed = preflight.measure_effect(engine, before, base, known)
        scorer = RoundScorer(self.cached(engine), inputs.watched, trained=inputs.trained_tokens)
        assert self.audited.adapter is not None
        paths: Mapping[str, Path] = {
            leaving.AFTER: self.audited.adapter,
            leaving.BEFORE: inputs.before,
            **{f"{leaving.RETRAINED} {n}": p for n, p in enumerate(inputs.retrained, 1)},
        }
        after, earlier, *retrained = [
            leaving.score_model(
                scorer,
                inputs.watched,
                Target(name=name, adapter=str(path)),
                base,
                self.watch(f"asking the model {name}"),
            )
            for name, path in paths.items()
        ]
        self.finish_asking()
        models = leaving.VerifiedModels(after=after, before=earlier, retrained=retrained)
        rows = leaving.rows(
            models, inputs.watched, limit=self.request.limit, obstacle=scorer.part.obstacle
        )
        return AuditResults(
            results=[
                Result(
                    measurements=tuple(rows),
                    limits=(*scorer.limits, reading_caveat(scorer.part)),
                )
            ],
            effect=changed,
            beginning=None,
            usage={},
        )

    def caveats(self) -> list[str]:
        """Return the caveats of every such verification, and of these models."""
        same = ["The models before and after are one and the same."] if self.inputs.same else []
        return [
            *same,
            "The adapter's effect is that of the model before, which was trained on the records.",
            *leaving.CAVEATS,
            *self.inputs.manifests,
            *self.inputs.origin,
            *self.inputs.held_out.limits,
            *self.inputs.watched.limits,
            *records.reading_caveats([self.inputs.own]),
        ]
