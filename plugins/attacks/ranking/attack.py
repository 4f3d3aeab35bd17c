"""Ranking inference (SecureGate, section 5.1; Lukas et al., 2023), by perplexity."""

from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import (
    Attack,
    AttackContext,
    Cost,
    Counts,
    InputError,
    Measurement,
    Result,
)
from fedaudit.extraction.leak_tests import unasked_rows
from fedaudit.extraction.targets import (
    NOTHING_EXCLUSIVE,
    check_labels,
    exclusive_documents,
    exclusive_strings,
    known_documents,
    left_out_text,
)

from . import cloze, scoring

SHORTEST = 2
"""Of a PII of one character, whatever stands around it tells most."""


@dataclass(frozen=True, kw_only=True)
class Ranking(Attack):
    """Mask a PII in a sentence and pick the candidate that makes the sentence likeliest."""

    name: ClassVar[str] = "ranking"
    paper: ClassVar[str] = "SecureGate, arXiv:2602.13529, section 5.1; after arXiv:2302.00539"
    needs = frozenset({"score"})

    candidates: tuple[int, ...] = (50,)
    """How many candidates are offered, the truth among them; several numbers share one run."""
    sentences: int = 100
    """How many PII are masked, each in a sentence of its own."""
    per_document: int = 0
    """The most PII masked in one document; 0 sets no limit."""
    context: int = 256
    """The most tokens of a document that are read, around the mask."""
    shortest: int = SHORTEST
    """The fewest characters of a PII that is masked."""
    labels: tuple[str, ...] = ()
    """Only these kinds of PII; if not set, all."""

    def __post_init__(self) -> None:
        if not self.candidates or min(self.candidates) < 2:
            raise ValueError("candidates must be at least 2.")
        if min(self.sentences, self.context, self.shortest) < 1 or self.per_document < 0:
            raise ValueError(
                "sentences, context and shortest must be at least 1, per_document at least 0."
            )

    def cost(self, counts: Counts) -> Cost:
        """Return the cost of scoring every candidate in each sentence."""
        spans, estimated = counts.spans()
        scored = min(self.sentences, spans) * max(self.candidates)
        return Cost(scored=scored, estimated=estimated)

    def run(self, context: AttackContext) -> Result:
        """Ask about the victim's documents, or about the attacker's own where those are all."""
        occurrences, unasked, left_out = self._maskable_pii(context)
        counts = sorted(set(self.candidates))
        order = cloze.choose_occurrences(occurrences, context.seed, self.per_document)
        corpus = [document.text for document in known_documents(context)]
        offered = cloze.cloze_questions(
            order, occurrences, corpus, most=counts[-1], seed=context.seed
        )
        questions, passed = scoring.scored_questions(
            context, offered, fewest=counts[0], most=self.sentences, tokens=self.context
        )
        result = scoring.result(self.name, scoring.candidate_losses(context, questions), counts)
        caveat = (
            f"{self.name}: {len(questions)} of {len(order)} distinct PII strings "
            f"({len(occurrences)} occurrences) were masked, each once; {passed} were left out, "
            "because their kind has too few strings or nothing precedes them."
        )
        if unasked:
            further = sum(int(row.value or 0) for row in unasked)
            caveat += f" {further:,} further strings were not asked about (labels, shortest)."
        return replace(
            result,
            measurements=(*result.measurements, *unasked),
            limits=(caveat, *left_out, *result.limits),
        )

    def _maskable_pii(
        self, context: AttackContext
    ) -> tuple[list[cloze.Occurrence], tuple[Measurement, ...], list[str]]:
        """Return every PII that may be masked, and what is left out.

        Rows count what the options leave out, and a caveat says what others have as well: neither
        the record nor the string may be another known client's too, which knows them without a
        leak. Raises InputError or UsageError where there is none.
        """
        check_labels(self.labels, context.attacked_documents)
        documents = exclusive_documents(context)
        shared_records = len(context.attacked_documents) - len(documents)
        if shared_records and not documents:
            raise InputError(f"There is nothing to ask: {NOTHING_EXCLUSIVE}.")
        every = cloze.occurrences(documents, shortest=min(SHORTEST, self.shortest))
        occurrences = [
            occurrence
            for occurrence in every
            if len(occurrence.string) >= self.shortest
            and (not self.labels or occurrence.label in self.labels)
        ]
        if not occurrences:
            where = "What only the victim has" if shared_records else "The data"
            raise InputError(
                f"{where} holds no annotated PII of {self.shortest} characters or more."
            )
        strings = {occurrence.string for occurrence in occurrences}
        exclusive = exclusive_strings(context, {occurrence.string for occurrence in every})
        shared_strings = len(strings - exclusive)
        if shared_strings == len(strings):
            raise InputError(
                "There is nothing to ask: the attacker or another member has every string of the "
                "victim's records too."
            )
        limits = []
        if shared_records or shared_strings:
            limits.append(left_out_text(self.name, shared_records, shared_strings))
        pairs = ((o.string, o.label) for o in every if o.string in exclusive)
        unasked = unasked_rows(self.name, pairs, strings, scoring.KIND)
        return [o for o in occurrences if o.string in exclusive], unasked, limits
