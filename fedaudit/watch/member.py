"""The test within a training: a report that every new global model adds its rows to."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedaudit.api.engine import Engine, EngineWrapper, LogProbabilities, TokenRows
from fedaudit.api.errors import FedauditError, InputError, UsageError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Measurement, Target
from fedaudit.api.templates import template
from fedaudit.canaries import canary_file
from fedaudit.data import corpus
from fedaudit.engine import environment
from fedaudit.engine.loading.loader import LoadedBase
from fedaudit.engine.local import LocalEngine
from fedaudit.report.document import Report, read, write
from fedaudit.report.run_header import build_report, run_id
from fedaudit.system.files import make_folder, sha256
from fedaudit.watch.records import WatchedRecords, watched_records
from fedaudit.watch.rounds import CAVEATS, RoundScorer, reading_caveat, round_rows

if TYPE_CHECKING:
    from peft import PeftModel

REPORT = "report.json"
BARE = Target(name="base")
ROUNDS = "Rounds are counted as this member was given their models; it may have missed some."


class LimitPassed(FedauditError):
    """More of a member's records was surely learnt than it allows; its training must not go on."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What a member compares with what, how much may be learnt, and where the report goes."""

    ours: Path
    held_out: Path
    out: Path
    canaries: Path | None = None
    limit: float = 0.1
    references: int = 100
    template: str = "fed_pii"
    """The prompt template of instruction records."""

    def read(self) -> WatchedRecords:
        """Return the records; raises InputError for files that cannot be used."""
        form = template(self.template)
        canaries = canary_file.read(self.canaries) if self.canaries else None
        own, held_out = (
            list(corpus.read(corpus.existing_file(path), form))
            for path in (self.ours, self.held_out)
        )
        return watched_records(
            own,
            held_out,
            canaries,
            heading=canaries.heading(form) if canaries else "",
            references=self.references,
        )

    def table(self) -> dict[str, Any]:
        """Return what the bounds of all rounds rest on: it may not change from round to round."""
        files = {"ours": self.ours, "held_out": self.held_out, "canaries": self.canaries}
        return {
            "attacks": {},
            **{name: sha256(path) if path else None for name, path in files.items()},
            "limit": self.limit,
            "references": self.references,
            "template": self.template,
        }


class MemberWatch:
    """Tests the models that a member is given, one after the other; the report is its memory."""

    def __init__(self, settings: WatchSettings) -> None:
        """Read the records and the report so far.

        Raises InputError for files that cannot be used, and for a report of other records, or with
        another limit: the bounds of all rounds belong together.
        """
        self.records = settings.read()
        self._settings, self._table = settings, settings.table()
        self._path = settings.out / REPORT
        self._scorer: RoundScorer | None = None
        self._earlier()

    def _earlier(self) -> list[Measurement]:
        """Return the rows of the report so far."""
        if not self._path.exists():
            return []
        report = read(self._path)
        if report["run"]["id"] != run_id(self._table):
            raise InputError(
                f"{self._path} is of other records, or of another limit: name another folder."
            )
        return [Measurement(**row) for row in report["measurements"]]

    def test(self, engine: Engine, tuned: Target, base: Target, name: str, device: str) -> str:
        """Test a model on a device, add its rows to the report, and return what they say.

        `name` is that of the base, which is the same in all tests. A model that equals its base
        before the first test is not counted. Raises LimitPassed if more than the limit was
        surely learnt.
        """
        started = datetime.now(UTC)
        if self._scorer is None or self._scorer.engine is not engine:
            known = self._scorer.base if self._scorer else None
            self._scorer = RoundScorer(engine, self.records, known)
        scores = self._scorer.score(tuned, base)
        rows = self._earlier()
        if not rows and scores.equal_base:
            return "The model still equals its base: nothing to test yet."
        number = 1 + max((int(str(row.scope["test"])) for row in rows), default=0)
        limit = self._settings.limit
        rows += round_rows(
            scores,
            self.records,
            number=number,
            test=number,
            limit=limit,
            obstacle=self._scorer.part.obstacle,
        )
        report = self._report(rows, started, name, device, reading_caveat(self._scorer.part))
        make_folder(self._path.parent)
        verdict = write(report, self._path)["verdict"]
        line = " ".join(verdict["reasons"])
        if verdict["status"] == "fail":
            raise LimitPassed(line)
        return line

    def _report(
        self, rows: Sequence[Measurement], started: datetime, base: str, device: str, read: str
    ) -> Report:
        unread = self._scorer.limits if self._scorer else ()
        return build_report(
            command="watch",
            name=run_id(self._table),
            config=self._table,
            started=started,
            base=base,
            adapter="the global adapter of each round",
            environment=environment.describe(device),
            data=list(self._data()),
            seeds={"references": 0},
            measurements=rows,
            limits=[*CAVEATS, read, ROUNDS, *self.records.limits, *unread],
        )

    def _data(self) -> Iterator[dict[str, Any]]:
        """Yield a report's row for each file."""
        settings, records = self._settings, self.records
        counts = {
            "ours": sum(map(len, records.own)),
            "held_out": sum(map(len, records.held_out)),
            "canaries": len(records.own_canaries),
        }
        for name, count in counts.items():
            if path := getattr(settings, name):
                digest = self._table[name]
                yield {"path": str(path), "sha256": digest, "records": count, "annotation": None}


class LiveModel(EngineWrapper):
    """A PEFT model that is being trained, as an engine: with its adapter, or without it.

    Between two questions nothing of the model has changed: it is in the same mode as before.
    """

    def __init__(self, model: "PeftModel", tokenizer: Any) -> None:
        """Wrap a model; raises UsageError for one without an adapter to switch off."""
        if not hasattr(model, "disable_adapter"):
            raise UsageError(
                f"A {type(model).__name__} has no adapter to compare with its base: watch needs a "
                "PEFT model."
            )
        name = str(getattr(model.config, "_name_or_path", "") or "the model")
        inner: Any = model.get_base_model()  # PEFT has put its layers into it
        base = LoadedBase(name=name, path=Path(name), sha256="", model=inner, tokenizer=tokenizer)
        super().__init__(LocalEngine(base))
        self.name, self._model = name, model

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Score every sequence with the adapter that a target has, or without one."""
        with self._mode(target):
            return self.engine.score(BARE, sequences, progress=progress)

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence of every group likewise."""
        with self._mode(target):
            return self.engine.score_groups(BARE, groups, progress=progress)

    @contextmanager
    def _mode(self, target: Target) -> Iterator[None]:
        # Leaving `disable_adapter` makes all weights of the adapter trainable, frozen ones too.
        trainable = [(weight, weight.requires_grad) for weight in self._model.parameters()]
        modes = [(module, module.training) for module in self._model.modules()]
        self._model.eval()
        try:
            with nullcontext() if target.adapter else self._model.disable_adapter():
                yield
        finally:
            for weight, wanted in trainable:
                weight.requires_grad_(wanted)
            for module, training in modes:
                module.training = training
