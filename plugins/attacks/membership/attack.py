"""Membership inference: how well scores of a text tell trained records from held-out ones.

Scores: Yeom et al. 2018 (loss), Carlini et al. 2021 (zlib and reference ratio, arXiv:2012.07805),
Shi et al. 2024 (Min-K %, arXiv:2310.16789), Zhang et al. 2025 (Min-K %++, arXiv:2404.02936), and
EZ-MIA (arXiv:2601.12104). A comparison is refused where the texts alone tell the two sets apart
(Das et al. 2024, arXiv:2406.16201): any score would, without a model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import (
    Ability,
    Attack,
    AttackContext,
    Document,
    Estimate,
    InputError,
    Measurement,
    Result,
    TokenStatistics,
)
from fedaudit.metrics.privacy.membership_tests import permutation_p_values
from fedaudit.metrics.privacy.roc import Roc, auc, balanced_accuracy, tpr_at_fpr

from . import counterfactual, text_baseline
from .scored_record import ScoredRecord

RATES = (0.01, 0.001)
"""False positive rates at which true positives are counted."""
JUDGED = "reference"
"""The score that the verdict goes by."""
TESTS = ("ranks", "tail")
"""What is tested of it: members' ranks, and how many are above what 1 % of others reach."""
BY_TEXT = "text"
"""The name of the score that asks no model."""
NO_BASE = "there is no base to compare with"
NO_STATISTICS = "a server does not say how likely the tokens are that do not stand there"


@dataclass(frozen=True, kw_only=True)
class Membership(Attack):
    """Tell the records a model was trained on from held-out ones by how well it knows them."""

    name: ClassVar[str] = "membership"
    paper: ClassVar[str] = "Carlini et al., arXiv:2012.07805; EZ-MIA, arXiv:2601.12104"
    compares: ClassVar[bool] = True

    tokens: int = 256
    """A record's first tokens, which are read; longer ones are cut."""
    shortest: int = 8
    """Records with fewer tokens are passed over."""
    shifted: bool = False
    """Measure sets that differ in their texts alone all the same."""

    def __post_init__(self) -> None:
        if not 2 <= self.shortest <= self.tokens:
            raise ValueError("shortest must be at least 2, tokens at least shortest.")

    @property
    def needs(self) -> frozenset[Ability]:
        """Scores of texts; what else statistics hold is used where there is some."""
        return frozenset({"score"})

    def run(self, case: AttackContext) -> Result:
        """Score the victim's records, or the attacker's own, and held-out ones."""
        tried = case.attacker if case.victim is None else case.victim
        if case.held_out is None:
            raise InputError(
                f"{self.name} compares with records that nobody trained on: name some with "
                "--held-out."
            )
        members, others = self._distinct(tried, ()), self._distinct(case.held_out, tried)
        read = self._read(case, [*members, *others])
        texts = {one.text for one in members}
        inside = [one for one in read if one.document.text in texts]
        outside = [one for one in read if one.document.text not in texts]
        if not inside or not outside:
            raise InputError(
                f"There is nothing to compare: {len(inside)} of {len(members)} records and "
                f"{len(outside)} of {len(others)} held-out ones have {self.shortest} tokens."
            )
        at = {
            "records": "own" if case.victim is None else "victim",
            "members": len(inside),
            "others": len(outside),
        }
        by_text = self._by_text(case, inside, outside)
        refusal = self._refusal(by_text)
        rows = [self._blind(by_text, at), *self._rows(inside, outside, at, refusal)]
        rows += self._tests(case, inside, outside, at, refusal)
        rows += counterfactual.rows(self.name, case, inside, outside)
        short = len(members) + len(others) - len(read)
        return Result(measurements=tuple(rows), limits=tuple(self._limits(case, by_text, short)))

    def _distinct(
        self, documents: Sequence[Document], without: Sequence[Document]
    ) -> list[Document]:
        """Return a record of every text, in the order of texts; no prompt and none of `without`."""
        left = {one.text for one in without}
        found = {one.text: one for one in documents if not one.is_prompt and one.text not in left}
        return [found[text] for text in sorted(found)]

    def _read(self, case: AttackContext, documents: Sequence[Document]) -> list[ScoredRecord]:
        """Return the records that are long enough, as both models read them."""
        begin = len(case.with_start((), at_start=True))
        room = min(self.tokens, case.engine.context_length - begin)
        tokenized = case.engine.tokenize([one.text for one in documents])
        some = [
            (document, case.with_start(tokens.ids[:room], at_start=True))
            for document, tokens in zip(documents, tokenized, strict=True)
            if len(tokens.ids[:room]) >= self.shortest
        ]
        sequences = [ids for _, ids in some]
        progress = case.progress("reading records")
        tuned = case.engine.token_statistics(case.tuned, sequences, progress=progress)
        base: Sequence[Sequence[float] | None] = [None] * len(some)
        if case.base is not None:
            base = case.engine.score(case.base, sequences, progress=case.progress("their base"))
        without: Sequence[TokenStatistics | None] = [None] * len(some)
        if case.counterfactual is not None:
            progress = case.progress(f"their model {case.counterfactual.name}")
            without = case.engine.token_statistics(
                case.counterfactual, sequences, progress=progress
            )
        return [
            ScoredRecord(document, own, other, third)
            for (document, _), own, other, third in zip(some, tuned, base, without, strict=True)
        ]

    def _by_text(
        self, case: AttackContext, inside: Sequence[ScoredRecord], outside: Sequence[ScoredRecord]
    ) -> Estimate | None:
        """Return how well the texts alone tell the two apart; None for too few."""
        found = text_baseline.cross_validated(
            [one.document for one in inside], [one.document for one in outside], seed=case.seed
        )
        return None if found is None else auc(*found)

    def _refusal(self, by_text: Estimate | None) -> str:
        """Return why the sets cannot be compared; empty where they can, or must."""
        if by_text is None or by_text.low <= 0.5 or self.shifted:
            return ""
        return (
            "these records and the held-out ones differ in their texts alone, without any model "
            f"(area under the curve {by_text.value:.2f}): compare with records of the same kind "
            "and time"
        )

    def _blind(self, by_text: Estimate | None, at: Mapping[str, object]) -> Measurement:
        """Return the row of the texts alone."""
        scope = {"score": BY_TEXT, **at}
        if by_text is None:
            return self._missing("auc", scope, text_baseline.TOO_FEW)
        return self._row("auc", by_text, scope, 0.5)

    def _rows(
        self,
        inside: Sequence[ScoredRecord],
        outside: Sequence[ScoredRecord],
        at: Mapping[str, object],
        refusal: str,
    ) -> Iterator[Measurement]:
        """Yield the rows of every score."""
        members, others = ([one.scores() for one in some] for some in (inside, outside))
        for name in members[0]:
            scope = {"score": name, "source": "tuned", **at}
            values = [[row[name] for row in some] for some in (members, others)]
            ours, theirs = ([one for one in some if one is not None] for some in values)
            none = NO_STATISTICS if name == "min_k++" else NO_BASE
            reason = refusal or ("" if len(ours) == len(members) else none)
            yield from self._of_score(ours, theirs, scope, reason)

    def _of_score(
        self,
        members: Sequence[float],
        others: Sequence[float],
        scope: Mapping[str, object],
        reason: str,
    ) -> Iterator[Measurement]:
        if reason:
            yield self._missing("auc", scope, reason)
            return
        yield self._row("auc", auc(members, others), scope, 0.5)
        best = balanced_accuracy(Roc.of(members, others))
        row = self._row("balanced_accuracy", Estimate(best, best, best), scope, 0.5)
        yield replace(row, low=None, high=None)
        for rate in RATES:
            wanted = {**scope, "fpr": rate}
            if len(others) * rate < 1:
                few = f"{len(others):,} held-out records show no false positive rate of {rate:g}"
                yield self._missing("tpr", wanted, few)
                continue
            found = tpr_at_fpr(members, others, rate)
            hits = round(found.value * len(members))
            yield replace(self._row("tpr", found, wanted, rate), hits=hits)

    def _tests(
        self,
        case: AttackContext,
        inside: Sequence[ScoredRecord],
        outside: Sequence[ScoredRecord],
        at: Mapping[str, object],
        refusal: str,
    ) -> Iterator[Measurement]:
        """Yield the p values that the verdict goes by: of the score that was fixed before."""
        scope = {"score": JUDGED, "source": "tuned", **at}
        ours, theirs = (_judged_scores(some) for some in (inside, outside))
        if refusal or ours is None or theirs is None:
            for test in TESTS:
                yield self._missing("p_value", {**scope, "test": test}, refusal or NO_BASE)
            return
        groups = _groups(inside), _groups(outside)
        found = permutation_p_values(ours, theirs, groups, fpr=RATES[0], seed=case.seed)
        for test, p in zip(TESTS, (found.ranks, found.tail), strict=True):
            yield replace(
                self._row("p_value", Estimate(p, p, p), {**scope, "test": test}, 0.5),
                low=None,
                high=None,
                chance=None,
            )

    def _row(
        self, metric: str, found: Estimate, scope: Mapping[str, object], chance: float
    ) -> Measurement:
        n = scope["members"]
        assert isinstance(n, int)
        return Measurement.mean(
            found,
            n,
            kind=self.name,
            plugin=self.name,
            metric=metric,
            scope=scope,
            chance=chance,
        )

    def _missing(self, metric: str, scope: Mapping[str, object], reason: str) -> Measurement:
        return Measurement.missing(
            reason, kind=self.name, plugin=self.name, metric=metric, scope=scope
        )

    def _limits(self, case: AttackContext, by_text: Estimate | None, short: int) -> Iterator[str]:
        """Yield what the numbers do not say."""
        yield (
            f"{self.name}: the first {self.tokens} tokens of a record were read; {short:,} records "
            f"were passed over because they have fewer than {self.shortest}."
        )
        yield (
            f"{self.name}: the best of several scores is read off the same records as its rate; "
            "the verdict goes by one that was fixed before, the reference score."
        )
        if by_text is None:
            yield f"{self.name}: whether the texts alone tell the sets apart is not known."
        if case.related:
            yield (
                f"{self.name}: training saw other documents of the held-out records' groups, which "
                "makes members harder to tell."
            )


def _judged_scores(some: Sequence[ScoredRecord]) -> list[float] | None:
    """Return the scores that the verdict goes by; None where a record has none."""
    found = [value for one in some if (value := one.scores()[JUDGED]) is not None]
    return found if len(found) == len(some) else None


def _groups(some: Sequence[ScoredRecord]) -> list[str]:
    return [one.document.group or one.document.text for one in some]
