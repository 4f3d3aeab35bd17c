"""`fedaudit watch`: what each round's global model has learnt of a member's own records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.engine import Engine, LogProbabilities
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Document, Measurement, Target
from fedaudit.audit import other_models, preflight, records
from fedaudit.audit.input_files import InputFile, InputReader
from fedaudit.audit.inputs import Inputs, common_inputs, form_of, resolve_target
from fedaudit.audit.request import WatchRequest
from fedaudit.audit.run import AuditPipeline, AuditResults
from fedaudit.cache.engine import CachingEngine
from fedaudit.canaries import canary_file
from fedaudit.engine import factory
from fedaudit.federation import adapters
from fedaudit.federation.folder import is_federation
from fedaudit.system.files import existing_path
from fedaudit.watch.records import WatchedRecords, watched_records
from fedaudit.watch.rounds import CAVEATS, RoundScorer, RoundScores, round_rows

if TYPE_CHECKING:
    from fedaudit.engine.factory import AnyEngine


@dataclass(kw_only=True)
class WatchMemory:
    """What the reports on one federation's rounds share: nothing of it is read or asked twice."""

    watched: WatchedRecords | None = None
    loaded: "tuple[AnyEngine, str] | None" = None
    base: LogProbabilities | None = None
    """The base's scores of the records."""
    scores: dict[str, RoundScores] = field(default_factory=dict)
    """The scores of models, by the SHA-256 of the adapter."""


@dataclass(frozen=True, kw_only=True)
class WatchInputs(Inputs[WatchRequest]):
    """A member's records, and the global models that are tested."""

    own: InputFile
    held_out: records.HeldOut
    watched: WatchedRecords
    rounds: Mapping[int, Path]
    """The global adapter after each round, the audited one last."""
    round_sha256: Mapping[int, str]
    canaries_sha256: str
    """The SHA-256 of the file of canaries; empty without one."""
    memory: WatchMemory
    """What earlier reports on these rounds have read and asked."""


def resolve(
    request: WatchRequest, reader: InputReader, memory: WatchMemory | None = None
) -> WatchInputs:
    """Return the inputs, after every check that needs no model.

    The federation may still be running: the rounds so far are tested. With `memory` its records
    are not read again, and what was asked before is kept in it. Raises InputError for a
    folder that is not a federation or has no round yet, and without held-out records.
    """
    path = existing_path(Path(request.target or ""), "folder")
    if not is_federation(path):
        raise InputError(f"{path} is not a federation's folder: there are no rounds to test.")
    if request.round is None:
        request = replace(request, round=reader.federation(path).manifest.rounds[-1].round)
    if request.round == 0:
        raise InputError(f"{path} has no round yet: --follow waits for the first.")
    audited = resolve_target(request, reader)
    form = form_of(request, audited)
    own = reader.corpus(request.ours, form)
    held_out = records.read_held_out(request, audited, form, [own], reader=reader)
    if held_out is None:
        raise UsageError(
            "Missing option '--held-out': name records like your own that you set aside at random "
            "and gave to no training."
        )
    canaries = canary_file.read(request.canaries, reader.read) if request.canaries else None
    memory = memory or WatchMemory()
    memory.watched = memory.watched or watched_records(
        own.documents,
        held_out.documents,
        canaries,
        heading=canaries.heading(form) if canaries else "",
        references=request.references,
        seed=request.seed,
    )
    assert audited.federation is not None
    earlier = {
        entry.round: audited.federation.path / entry.adapter
        for entry in audited.federation.manifest.rounds
        if 0 < entry.round <= (audited.round or 0)
    }
    facts = other_models.round_facts(earlier, reader)
    canaries_sha256 = reader.sha256(request.canaries) if request.canaries else ""
    if canaries_sha256:
        facts["canaries"] = canaries_sha256
    return WatchInputs(
        **common_inputs(request, audited, reader, facts),
        own=own,
        held_out=held_out,
        watched=memory.watched,
        memory=memory,
        rounds=earlier,
        canaries_sha256=canaries_sha256,
        round_sha256={n: adapters.fingerprint(p, reader.sha256) for n, p in earlier.items()},
    )


def canary_files(watched: WatchedRecords, path: Path | None, sha256: str) -> list[InputFile]:
    """Return the file of canaries as a report names it: as many records as were planted."""
    if not watched.canaries or not path:
        return []
    sentences = tuple(
        Document(id=str(n), text=canary.sentence)
        for n, canary in enumerate(watched.canaries.planted)
    )
    return [InputFile(path=path, documents=sentences, sha256=sha256)]


@dataclass(kw_only=True)
class WatchPipeline(AuditPipeline[WatchInputs]):
    """Tests the global model of every round."""

    def annotate_files(self) -> Sequence[InputFile]:
        """Return own and held-out records, whose annotation is not used, and the canaries."""
        inputs = self.inputs
        files = [inputs.own, inputs.held_out.file]
        return [
            *files,
            *canary_files(inputs.watched, self.request.canaries, inputs.canaries_sha256),
        ]

    def load_engine(self) -> "tuple[AnyEngine, str]":
        """Return the engine, loaded once for all reports unless its server ends with each."""
        memory = self.inputs.memory
        loaded = memory.loaded or super().load_engine()
        if factory.stays_ready(self.request.engine):
            memory.loaded = loaded
        return loaded

    def measure(self, engine: Engine) -> AuditResults:
        """Score own and held-out records and canaries under every round's model."""
        inputs, memory, base = self.inputs, self.inputs.memory, Target(name="base")
        changed = preflight.measure_effect(
            engine, self.audited.tuned, base, inputs.watched.documents
        )
        scorer = RoundScorer(
            CachingEngine(engine, self.kept) if self.kept else engine, inputs.watched, memory.base
        )
        rows: list[Measurement] = []
        for test, (number, adapter) in enumerate(inputs.rounds.items(), 1):
            digest = inputs.round_sha256[number]
            if digest not in memory.scores:
                target = Target(name=f"round {number}", adapter=str(adapter))
                watch = self.watch(f"testing round {number}")
                memory.scores[digest] = scorer.score(target, base, watch)
            rows += round_rows(
                memory.scores[digest],
                inputs.watched,
                number=number,
                test=test,
                limit=self.request.limit,
            )
        memory.base = scorer.base
        self.finish_asking()
        return AuditResults(
            results=[Result(measurements=tuple(rows))],
            effect=preflight.effect_table(changed),
            beginning=None,
            usage={},
        )

    def config(self) -> dict[str, Any]:
        """Return the settings, and which rounds were tested."""
        return {**super().config(), "rounds": list(self.inputs.rounds)}

    def caveats(self) -> list[str]:
        """Return the caveats of every such test."""
        return [
            *CAVEATS,
            *self.inputs.held_out.limits,
            *records.reading_caveats([self.inputs.own]),
        ]
