"""`fedaudit watch`: what each round's global model has learnt of a member's own records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fedaudit.api.engine import Engine, LogProbabilities
from fedaudit.api.errors import InputError, NoEffectError, UsageError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Document, Measurement, Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit import canary_clients, other_models, preflight, records
from fedaudit.audit.input_files import InputFile, InputReader
from fedaudit.audit.inputs import Inputs, common_inputs, form_of, resolve_target
from fedaudit.audit.request import ForgetRequest, WatchRequest
from fedaudit.audit.run import AuditPipeline, AuditResults
from fedaudit.audit.target import AuditTarget
from fedaudit.canaries import canary_file
from fedaudit.engine import factory
from fedaudit.federation.folder import is_federation
from fedaudit.report.kinds.watch import missing_rounds
from fedaudit.system.files import existing_path
from fedaudit.watch.records import WatchedRecords, watched_records
from fedaudit.watch.rounds import CAVEATS, RoundScorer, RoundScores, reading_caveat, round_rows

if TYPE_CHECKING:
    from fedaudit.engine.factory import AnyEngine

IMPORTED = (
    "The federation was imported: only the rounds in the folder were tested. Its members may have "
    "been given the models of others."
)

R = TypeVar("R", WatchRequest, ForgetRequest)
InputsT = TypeVar("InputsT", bound="RecordInputs[Any]")


@dataclass(kw_only=True)
class WatchMemory:
    """What the reports on one federation's rounds share: nothing of it is read or asked twice."""

    watched: WatchedRecords | None = None
    loaded: "tuple[AnyEngine, str] | None" = None
    base: LogProbabilities | None = None
    """The base's scores of the records."""
    scores: dict[str, RoundScores] = field(default_factory=dict)
    """The scores of models, by the SHA-256 of the adapter."""
    effect: tuple[int, Mapping[str, Any]] | None = None
    """The last round whose model was seen to change the base, and its effect."""
    tests: dict[tuple[int, str], int] = field(default_factory=dict)
    """The place of each test, counted from 1, by the round and the SHA-256 of its adapter.

    A round whose file was replaced has a test for each: what the first model had learnt, anyone who
    received it may have kept, and every look spends its part of the level.
    """

    def replaced(self, current: Mapping[int, str]) -> list[int]:
        """Return the rounds of which another file was tested than the `current` one, by SHA-256."""
        return sorted({number for number, digest in self.tests if current.get(number) != digest})

    def newly_replaced(self, current: Mapping[int, str]) -> list[int]:
        """Return the replaced rounds whose `current` file was not tested yet."""
        return [n for n in self.replaced(current) if (n, current.get(n)) not in self.tests]


@dataclass(frozen=True, kw_only=True)
class RecordInputs(Inputs[R]):
    """A member's own records, and records like them that no training had."""

    own: InputFile
    held_out: records.HeldOut
    watched: WatchedRecords
    canaries_sha256: str
    """The SHA-256 of the file of canaries; empty without one."""


@dataclass(frozen=True, kw_only=True)
class WatchInputs(RecordInputs[WatchRequest]):
    """A member's records, and the global models that are tested."""

    rounds: Mapping[int, Path]
    """The global adapter after each round, the audited one last."""
    round_sha256: Mapping[int, str]
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
    imported = reader.federation(path).manifest.imported is not None
    if request.round == 0 and not imported:
        raise InputError(f"{path} has no round yet: --follow waits for the first.")
    audited = resolve_target(request, reader)
    form = form_of(request, audited)
    memory = memory or WatchMemory()
    read = read_records(request, audited, form, reader, memory.watched)
    memory.watched = read["watched"]
    assert audited.federation is not None
    earlier = {
        entry.round: audited.federation.path / entry.adapter
        for entry in audited.federation.manifest.rounds
        # An imported federation's round 0 may be the model after its first round.
        if (0 if imported else 1) <= entry.round <= (audited.round or 0)
    }
    facts = other_models.round_facts(earlier, reader)
    if read["canaries_sha256"]:
        facts["canaries"] = read["canaries_sha256"]
    return WatchInputs(
        **common_inputs(request, audited, reader, facts),
        **read,
        memory=memory,
        rounds=earlier,
        round_sha256={n: reader.fingerprint(p) for n, p in earlier.items()},
    )


def read_records(
    request: WatchRequest | ForgetRequest,
    audited: AuditTarget,
    form: PromptTemplate,
    reader: InputReader,
    watched: WatchedRecords | None = None,
) -> dict[str, Any]:
    """Return the fields of `RecordInputs`, `watched` as it is if it is known.

    Raises UsageError without held-out records.
    """
    own = reader.corpus(request.ours, form)
    held_out = records.read_held_out(request, audited, form, [own], reader=reader)
    if held_out is None:
        raise UsageError(
            "Missing option '--held-out': name records like these that were set aside at random "
            "and given to no training."
        )
    canaries = canary_file.read(request.canaries, reader.read) if request.canaries else None
    watched = watched or watched_records(
        own.documents,
        held_out.documents,
        canaries,
        heading=canaries.heading(form) if canaries else "",
        references=request.references,
        seed=request.seed,
    )
    sha256 = reader.sha256(request.canaries) if request.canaries else ""
    return {"own": own, "held_out": held_out, "watched": watched, "canaries_sha256": sha256}


class RecordPipeline(AuditPipeline[InputsT]):
    """Asks models about a member's records, whose annotation is not used."""

    def annotate_files(self) -> Sequence[InputFile]:
        """Return own and held-out records, and the canaries: as many records as are counted."""
        inputs, path = self.inputs, self.request.canaries
        files = [inputs.own, inputs.held_out.file]
        if not inputs.watched.canaries or not path:
            return files
        sentences = tuple(
            Document(id=str(n), text=canary.sentence)
            for n, canary in enumerate(inputs.watched.own_canaries)
        )
        return [*files, InputFile(path=path, documents=sentences, sha256=inputs.canaries_sha256)]


@dataclass(kw_only=True)
class WatchPipeline(RecordPipeline[WatchInputs]):
    """Tests the global model of every round."""

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
        changing, changed = memory.effect = self._effect(engine, base)
        scorer = RoundScorer(
            self.cached(engine),
            inputs.watched,
            memory.base,
            trained=self.audited.trained_tokens,
        )
        rows: list[Measurement] = []
        for number, adapter in inputs.rounds.items():
            digest = inputs.round_sha256[number]
            if digest not in memory.scores:
                target = Target(name=f"round {number}", adapter=str(adapter))
                watch = self.watch(f"testing round {number}")
                memory.scores[digest] = scorer.score(target, base, watch)
            memory.tests.setdefault((number, digest), len(memory.tests) + 1)
        for (number, digest), test in memory.tests.items():
            rows += round_rows(
                memory.scores[digest],
                inputs.watched,
                number=number,
                test=test,
                limit=self.request.limit,
                obstacle=scorer.part.obstacle,
                replaced=inputs.round_sha256.get(number) != digest,
            )
        memory.base = scorer.base
        self.finish_asking()
        return AuditResults(
            results=[
                Result(
                    measurements=tuple(rows),
                    limits=(
                        *scorer.limits,
                        reading_caveat(scorer.part),
                        *self._unchanged_caveats(changing),
                    ),
                )
            ],
            effect=changed,
            beginning=None,
            usage={},
        )

    def _effect(self, engine: Engine, base: Target) -> tuple[int, Mapping[str, Any]]:
        """Return the last round whose model changes the base, and the effect of its adapter.

        A model that changes nothing has learnt nothing, but what an earlier round had learnt
        counts all the same. Raises NoEffectError if no tested model changes the base.
        """
        inputs, no_effect = self.inputs, None
        for number in sorted(inputs.rounds, reverse=True):
            tuned = Target(name=f"round {number}", adapter=str(inputs.rounds[number]))
            if number == self.audited.round:
                tuned = self.audited.tuned
            try:
                documents = inputs.watched.documents
                return number, preflight.measure_effect(engine, tuned, base, documents)
            except NoEffectError as error:
                no_effect = no_effect or error
        if inputs.memory.effect:  # of a model that was replaced since
            return inputs.memory.effect
        assert no_effect is not None  # there is a round
        raise no_effect

    def _unchanged_caveats(self, changing: int) -> Iterator[str]:
        """Yield caveats if the effect is not the last round's, and on models that equal the base.

        `changing` is the round of the effect.
        """
        inputs = self.inputs
        if changing != self.audited.round:
            yield (
                f"The adapter's effect is that of round {changing}: no later model changes what "
                "the base says."
            )
        for number, digest in inputs.round_sha256.items():
            if inputs.memory.scores[digest].equal_base:
                yield (
                    f"The model of round {number} says of every record what its base says: it has "
                    "learnt nothing of them."
                )

    def config(self) -> dict[str, Any]:
        """Return the settings, and which rounds were tested."""
        return {**super().config(), "rounds": list(self.inputs.rounds)}

    def caveats(self) -> list[str]:
        """Return the caveats of every such test."""
        inputs = self.inputs
        federation = inputs.audited.federation
        imported = federation is not None and federation.manifest.imported is not None
        missing = missing_rounds(inputs.rounds)
        return [
            *CAVEATS,
            *([IMPORTED] if imported else []),
            *([f"Not in the folder, and so not tested: {missing}."] if missing else []),
            *map(replaced_text, inputs.memory.replaced(inputs.round_sha256)),
            *inputs.held_out.limits,
            *inputs.watched.limits,
            *self._training_caveats(),
            *records.reading_caveats([inputs.own]),
        ]

    def _training_caveats(self) -> Iterator[str]:
        """Yield caveats about the canaries' client if it did not train, or may not have."""
        if clients := self.inputs.watched.clients:
            try:
                yield from canary_clients.check_clients(self.audited, clients).caveats()
            except canary_clients.UntrainedError as error:  # --follow waits for it to join
                yield str(error)


def replaced_text(number: int) -> str:
    """Return that a round's file is not the one that was tested before."""
    return (
        f"The model of round {number} was replaced after it was tested: what it had learnt still "
        "counts, and the model in its place has a test of its own."
    )
