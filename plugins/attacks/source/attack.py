"""Source inference: the server sees every client's model, and asks which knows a record best.

Hu et al. 2021 (arXiv:2109.05659): a record is put down to the client whose local model has the
smallest loss on it. Words alone may tell clients apart as well, where their records are of
different kinds; how well they do stands beside it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from fedaudit.api import (
    Attack,
    AttackContext,
    Document,
    Estimate,
    InputError,
    Measurement,
    Result,
)
from fedaudit.metrics.privacy import text_baseline
from fedaudit.metrics.privacy.read_part import ReadPart, read_part, tokens_to_read
from fedaudit.metrics.privacy.roc import auc
from fedaudit.metrics.significance import grouped_share

KIND = "source"


@dataclass(frozen=True, slots=True)
class RecordLosses:
    """A record of one client, and how well each client's model knows it."""

    document: Document
    client: str
    losses: Mapping[str, float]
    """Mean loss a token, by client."""

    @property
    def guess(self) -> str:
        """The client whose model has the smallest loss; of equal ones the first by name."""
        return min(sorted(self.losses), key=self.losses.__getitem__)

    def score(self, client: str) -> float:
        """Return how much better a client's model knows it than the others' do on average."""
        other_losses = [loss for name, loss in self.losses.items() if name != client]
        return fmean(other_losses) - self.losses[client]

    @property
    def group(self) -> str:
        """The record's group, or its text without one."""
        return self.document.group or self.document.text


@dataclass(frozen=True, kw_only=True)
class SourceInference(Attack):
    """Tell which client a record came from by which client's model knows it best."""

    name: ClassVar[str] = "source"
    paper: ClassVar[str] = "Hu et al., Source Inference Attacks, arXiv:2109.05659"
    reads_clients: ClassVar[bool] = True
    needs = frozenset({"score"})

    tokens: int = 0
    """How many of a record's first tokens are read at most; 0 reads as much as fits into the
    context and, where that is known, as training read."""
    shortest: int = 8
    """Records with fewer tokens are left out."""

    def __post_init__(self) -> None:
        if self.shortest < 2 or (self.tokens and self.tokens < self.shortest):
            raise ValueError("shortest must be at least 2, tokens 0 or at least shortest.")

    def run(self, context: AttackContext) -> Result:
        """Ask every client's model for every record that one client alone has."""
        exclusive = _exclusive(context)
        read, part = self._read(context, exclusive)
        if len({record.client for record in read}) < 2:
            raise InputError(
                f"There is nothing to tell apart: of {len(exclusive)} records that only one "
                f"client has, {len(read)} have {self.shortest} tokens, and these do not come from "
                "two clients."
            )
        return Result(
            measurements=tuple(self._rows(context, read)),
            limits=tuple(self._limits(exclusive, read, part)),
        )

    def _read(
        self, context: AttackContext, exclusive: Sequence[tuple[str, Document]]
    ) -> tuple[list[RecordLosses], ReadPart]:
        """Return the records that are long enough, with every client's loss on what is read."""
        begin = len(context.with_start((), at_start=True))
        room = tokens_to_read(
            context.engine.context_length, begin, trained=context.trained_tokens, most=self.tokens
        )
        tokenized = context.engine.tokenize([document.text for _, document in exclusive])
        inputs = [
            (client, document, tokens.ids)
            for (client, document), tokens in zip(exclusive, tokenized, strict=True)
            if len(tokens.ids[:room]) >= self.shortest
        ]
        rows = [context.with_start(ids[:room], at_start=True) for *_, ids in inputs]
        scores = {}
        for client, model in context.clients.items():
            progress = context.progress(f"reading records as {client}'s model")
            scores[client] = context.engine.score(model.target, rows, progress=progress)
        losses = [
            RecordLosses(document, client, {name: -fmean(row[i]) for name, row in scores.items()})
            for i, (client, document, _) in enumerate(inputs)
        ]
        return losses, read_part([], [], [len(ids) for *_, ids in inputs], room)

    def _rows(self, context: AttackContext, read: Sequence[RecordLosses]) -> Iterator[Measurement]:
        counts = Counter(record.client for record in read)
        shape: dict[str, object] = {"clients": len(context.clients)}
        yield self._share(read, shape, max(counts.values()) / len(read))
        for client in sorted(counts):
            client_records = [record for record in read if record.client == client]
            other_records = [record for record in read if record.client != client]
            scope = {**shape, "client": client, "others": len(other_records)}
            yield self._share(client_records, scope, 1 / len(context.clients))
            area = auc(
                *([r.score(client) for r in side] for side in (client_records, other_records))
            )
            yield self._area(area, len(client_records), {**scope, "score": "loss"})
            words = text_baseline.cross_validated(
                [r.document for r in client_records],
                [r.document for r in other_records],
                seed=context.seed,
            )
            text_scope = {**scope, "score": "text"}
            yield (
                self._area(auc(*words), len(client_records), text_scope)
                if words
                else Measurement.missing(
                    text_baseline.TOO_FEW,
                    kind=KIND,
                    plugin=self.name,
                    metric="auc",
                    scope=text_scope,
                )
            )

    def _share(
        self,
        records: Sequence[RecordLosses],
        scope: Mapping[str, object],
        chance: float,
    ) -> Measurement:
        """Return the share of records that are put down to the right client."""
        right = [float(record.guess == record.client) for record in records]
        return Measurement.mean(
            grouped_share(right, [record.group for record in records]),
            len(right),
            kind=KIND,
            plugin=self.name,
            metric="source_accuracy",
            scope=scope,
            hits=int(sum(right)),
            chance=chance,
        )

    def _area(self, estimate: Estimate, n: int, scope: Mapping[str, object]) -> Measurement:
        return Measurement.mean(
            estimate, n, kind=KIND, plugin=self.name, metric="auc", scope=scope, chance=0.5
        )

    def _limits(
        self,
        exclusive: Sequence[tuple[str, Document]],
        read: Sequence[RecordLosses],
        part: ReadPart,
    ) -> Iterator[str]:
        yield (
            f"{self.name}: anyone who guesses already has the record and sees every client's own "
            "update, as a server does without secure aggregation."
        )
        yield f"{self.name}: {part.describe()}."
        if short := len(exclusive) - len(read):
            yield (
                f"{self.name}: {short:,} records were left out because they have fewer than "
                f"{self.shortest} tokens."
            )


def _exclusive(context: AttackContext) -> list[tuple[str, Document]]:
    """Return the records that one client alone has, each text once, in the order of texts."""
    owners: dict[str, dict[str, Document]] = {}
    for client, model in sorted(context.clients.items()):
        for document in model.documents:
            if not document.is_prompt:
                owners.setdefault(document.text, {}).setdefault(client, document)
    return [next(iter(owners[text].items())) for text in sorted(owners) if len(owners[text]) == 1]
