"""Ranking inference (SecureGate, section 4; Lukas et al., IEEE S&P 2023): who is meant here?"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from fedaudit.audit import questions, ranking
from fedaudit.errors import InputError
from fedaudit.interfaces import Attack, Case, Result
from fedaudit.records import Document


@dataclass(frozen=True, kw_only=True)
class Ranking(Attack):
    """Mask a PII in a sentence and pick the candidate that makes the sentence likeliest."""

    name: ClassVar[str] = "ranking"
    paper: ClassVar[str] = "SecureGate, arXiv:2602.13529, section 4; after arXiv:2302.00539"

    candidates: tuple[int, ...] = (50,)
    """How many candidates are offered, the truth among them; several numbers share one run."""
    sentences: int = 100
    """How many PII are masked, each in a sentence of its own."""
    per_document: int = 0
    """At most so many PII of one document; 0 sets no limit."""
    context: int = 256
    """At most so many tokens of a document are read, around the mask."""
    shortest: int = 2
    """Characters that a PII must have."""
    labels: tuple[str, ...] = ()
    """Only these kinds of PII; all without it."""

    def __post_init__(self) -> None:
        if not self.candidates or min(self.candidates) < 2:
            raise ValueError("candidates must be at least 2.")
        if min(self.sentences, self.context, self.shortest) < 1 or self.per_document < 0:
            raise ValueError(
                "sentences, context and shortest must be at least 1, per_document at least 0."
            )

    def run(self, case: Case) -> Result:
        """Ask about the victim's documents, or about the attacker's own where those are all."""
        documents = case.attacker if case.victim is None else case.victim
        found = questions.occurrences(documents, shortest=self.shortest, labels=self.labels)
        if not found:
            raise InputError(self._nothing(documents))
        counts = sorted(set(self.candidates))
        order = questions.chosen(found, case.seed, self.per_document)
        corpus = [document.text for document in documents]
        offered = questions.questions(order, found, corpus, most=counts[-1], seed=case.seed)
        usable = (
            asked
            for question in offered
            if len(question.others) >= counts[0] - 1
            if (asked := ranking.asked(case, question, self.context))
        )
        asked = list(islice(usable, self.sentences))
        result = ranking.result(self.name, ranking.answers(case, asked), counts)
        ...

    def _nothing(self, documents: Sequence[Document]) -> str: ...
