"""Membership inference: how well scores of a text tell trained records from held-out ones.

Scores: Yeom et al. 2018 (loss), Carlini et al. 2021 (zlib and reference ratio, arXiv:2012.07805),
Shi et al. 2024 (Min-K %, arXiv:2310.16789), Zhang et al. 2025 (Min-K %++, arXiv:2404.02936),
EZ-MIA (arXiv:2601.12104), Mattern et al. 2023 (neighbourhood, arXiv:2305.18462) and Carlini et al.
2022 (LiRA, arXiv:2112.03570), Zarifzadeh et al. 2024 (RMIA, arXiv:2312.03262). A comparison is
refused where the texts alone tell the two sets apart (Das et al. 2024, arXiv:2406.16201): any score
would, without a model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import (
    Attack,
    AttackContext,
    Cost,
    Counts,
    Document,
    Estimate,
    InputError,
    Measurement,
    Result,
)
from fedaudit.extraction.targets import (
    NOTHING_EXCLUSIVE,
    exclusive_documents,
    left_out_text,
)
from fedaudit.metrics.privacy import text_baseline
from fedaudit.metrics.privacy.read_part import ReadPart, read_part, tokens_to_read
from fedaudit.metrics.significance import clustered_share

from . import organisation, reference_models, usage
from .measurements import Comparison, p_value_rows, round_rows, score_rows, text_row
from .reader import read_records
from .scored_record import ScoredRecord


@dataclass(frozen=True, kw_only=True)
class Membership(Attack):
    """Tell the records a model was trained on from held-out ones by how well it knows them."""

    name: ClassVar[str] = "membership"
    paper: ClassVar[str] = "Carlini et al., arXiv:2012.07805; EZ-MIA, arXiv:2601.12104"
    compares: ClassVar[bool] = True
    reads_references: ClassVar[bool] = True
    reads_rounds: ClassVar[bool] = True
    needs = frozenset({"score"})

    tokens: int = 0
    """How many of a record's first tokens are read at most; 0 reads as much as fits into the
    context and, where that is known, as training read."""
    shortest: int = 8
    """Records with fewer tokens are left out."""
    shifted: bool = False
    """Measure even if the texts alone, without any model, tell the two sets apart."""
    organisation: bool = False
    """Test as well whether the organisation that the records are of took part; held-out records
    must be its own, set aside at random."""
    neighbours: int = 0
    """Neighbouring texts of each record that are read as well; 25 are usual, 0 leaves this score
    out."""

    def __post_init__(self) -> None:
        if self.shortest < 2 or (self.tokens and self.tokens < self.shortest):
            raise ValueError("shortest must be at least 2, tokens 0 or at least shortest.")
        if self.neighbours < 0:
            raise ValueError("neighbours must be 0 or more.")

    def cost(self, counts: Counts) -> Cost:
        """Return the cost of scoring every record, in and out, its neighbours, and by rounds.

        A cost is paid for two models, tuned and base, and a round is one.
        """
        records = counts.tried + counts.held_out
        return Cost(scored=records * (1 + self.neighbours) + records * counts.rounds // 2)

    def run(self, context: AttackContext) -> Result:
        """Score the victim's exclusive records, or the attacker's, and held-out ones."""
        records = context.attacked_documents
        if context.held_out is None:
            raise InputError(
                f"{self.name} compares with held-out records: name some with --held-out."
            )
        exclusive = _exclusive_records(context)
        if records and not exclusive:
            raise InputError(f"There is nothing to compare: {NOTHING_EXCLUSIVE}.")
        members, non_members = (
            self._distinct(exclusive, ()),
            self._distinct(context.held_out, records),
        )
        if not (self.organisation or context.took_part):
            context = replace(context, rounds={})
        inside, outside = self._read(context, members, non_members)
        own, held_out = ([r.document for r in side] for side in (inside, outside))
        by_text = text_baseline.area(own, held_out, seed=context.seed)
        refusal = ""
        if not self.shifted:
            refusal = text_baseline.refusal(own, held_out, by_text, seed=context.seed)
        if refusal:
            refusal += ": compare with records of the same kind, form and time"
        read = self._read_part(context, inside, outside)
        compared = Comparison(
            context=context,
            inside=inside,
            outside=outside,
            refusal=refusal,
            unread=read.obstacle,
        )
        rows = [
            text_row(compared, by_text),
            *score_rows(compared),
            *p_value_rows(compared),
            *round_rows(compared),
            *reference_models.rows(compared),
            *usage.rows(compared),
            *counterfactual_rows(self.name, compared),
        ]
        short = len(members) + len(non_members) - len(inside) - len(outside)
        limits = list(self._limits(context, short, read))
        if by_text is None and not refusal:
            limits.append(
                f"{self.name}: it is not known whether the texts alone tell the sets apart."
            )
        if shared := len(records) - len(exclusive):
            limits.append(left_out_text(self.name, shared))
        if self.organisation:
            tested = list(organisation.rows(compared))
            rows, limits = [*rows, *tested], [*limits, *organisation.caveats(tested)]
        return Result(measurements=tuple(rows), limits=tuple(limits))

    def _read(
        self, context: AttackContext, members: Sequence[Document], non_members: Sequence[Document]
    ) -> tuple[list[ScoredRecord], list[ScoredRecord]]:
        """Return members and non-members that are long enough, read; InputError without either."""
        read = read_records(
            context,
            [*members, *non_members],
            tokens=self.tokens,
            shortest=self.shortest,
            near=self.neighbours,
        )
        texts = {d.text for d in members}
        inside = [r for r in read if r.document.text in texts]
        outside = [r for r in read if r.document.text not in texts]
        if not inside or not outside:
            raise InputError(
                f"There is nothing to compare: {len(inside)} of {len(members)} records and "
                f"{len(outside)} of {len(non_members)} held-out ones have {self.shortest} tokens."
            )
        return inside, outside

    def _read_part(
        self,
        context: AttackContext,
        inside: Sequence[ScoredRecord],
        outside: Sequence[ScoredRecord],
    ) -> ReadPart:
        """Return how much of the records was read."""
        most = tokens_to_read(
            context.engine.context_length,
            len(context.with_start((), at_start=True)),
            trained=context.trained_tokens,
            most=self.tokens,
        )
        own, others = ([record.ids for record in side] for side in (inside, outside))
        return read_part(own, others, [record.length for record in (*inside, *outside)], most)

    def _distinct(
        self, documents: Sequence[Document], without: Sequence[Document]
    ) -> list[Document]:
        """Return a record of every text, in the order of texts; no prompt and none of `without`."""
        excluded_texts = {d.text for d in without}
        distinct = {
            d.text: d for d in documents if not d.is_prompt and d.text not in excluded_texts
        }
        return [distinct[text] for text in sorted(distinct)]

    def _limits(self, context: AttackContext, short: int, read: ReadPart) -> Iterator[str]:
        """Yield what the numbers do not say."""
        yield (
            f"{self.name}: {read.describe()}; {short:,} records were left out because they have "
            f"fewer than {self.shortest} tokens."
        )
        yield (
            f"{self.name}: the best of several scores is chosen on the same records as its rate "
            "is measured on, so the verdict uses scores that were fixed beforehand: the reference "
            "score and, where a client trained in some rounds only, that of the rounds."
        )
        if context.related:
            yield (
                f"{self.name}: training saw other documents of the held-out records' groups, "
                "which makes members harder to tell apart."
            )


def _exclusive_records(context: AttackContext) -> list[Document]:
    """Return the records that no other known client has.

    An attacker whose records are the victim's counts as the victim.
    """
    records = context.attacked_documents
    same = {d.text for d in context.attacker} == {d.text for d in records}
    counted = replace(context, attacker=()) if context.victim is not None and same else context
    return exclusive_documents(counted)


KIND = "counterfactual"


def counterfactual_rows(plugin: str, compared: Comparison) -> Iterator[Measurement]:
    """Yield the mean memorization of members and of held-out records; nothing without a model.

    Held-out records are a control: no one trained on them with or without the client.
    """
    context = compared.context
    if context.counterfactual is None:
        return
    for name, records in (("members", compared.inside), ("held-out", compared.outside)):
        values = [record.memorization() for record in records]
        groups = [record.document.group or record.document.id for record in records]
        low, high = clustered_share(values, groups, seed=context.seed)
        yield Measurement.mean(
            Estimate(sum(values) / len(values), low, high),
            len(records),
            kind=KIND,
            plugin=plugin,
            metric="counterfactual_memorization",
            scope={"of": name, "unit": "record", "without": context.without},
        )
