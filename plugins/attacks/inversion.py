"""Model inversion: an attribute of a person whose name and other data are known.

Fredrikson et al. (doi:10.1145/2810103.2813677) take the value of the missing attribute that the
model and the population's frequencies make likeliest; here the model is a language model, and the
likelihood is that of the person's record with the value in place.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import (
    Attack,
    AttackContext,
    Cost,
    Counts,
    Document,
    Measurement,
    Result,
)
from fedaudit.extraction.leak_tests import unasked_rows
from fedaudit.extraction.targets import exclusive_documents, exclusive_strings, known_documents
from fedaudit.metrics.significance import mcnemar, poisson_binomial_p_value
from fedaudit.pii.taxonomy import category

from .ranking import cloze, scoring
from .ranking.cloze import ClozeQuestion, Occurrence, normalize
from .ranking.scoring import Pick, ScoredQuestion

KIND, RATE = "inversion", "inversion_rate"
PERSON = "PERSON"
NOTHING = "no record that only the victim has gives a person's name and an attribute besides it"


@dataclass(frozen=True, kw_only=True)
class Inversion(Attack):
    """Infer an attribute of a person known by name from the values that other records have."""

    name: ClassVar[str] = "inversion"
    paper: ClassVar[str] = "Fredrikson et al., doi:10.1145/2810103.2813677; arXiv:2201.09370"
    needs = frozenset({"score"})

    attributes: int = 100
    """How many attributes are asked about, each in one record."""
    candidates: int = 20
    """The most values that are offered, the truth among them."""
    context: int = 256
    """The most tokens of a record that are read, around the attribute."""
    names: tuple[str, ...] = (PERSON,)
    """The kinds of PII that are people's names, which the attacker knows."""

    def __post_init__(self) -> None:
        if self.candidates < 2:
            raise ValueError("candidates must be at least 2.")
        if min(self.attributes, self.context) < 1 or not self.names:
            raise ValueError("attributes and context must be at least 1, and names not empty.")

    def cost(self, counts: Counts) -> Cost:
        """Return the cost of scoring every value of each attribute."""
        spans, estimated = counts.spans()
        return Cost(scored=min(self.attributes, spans) * self.candidates, estimated=estimated)

    def run(self, context: AttackContext) -> Result:
        """Ask for attributes that only the victim's records have, or the attacker's own."""
        population = _population(context)
        theirs = self._exclusive_pii(context)
        asked = [occurrence for occurrence in theirs if occurrence.label not in self.names]
        order = cloze.choose_occurrences(asked, context.seed)
        questions, left_out = self._questions(context, order, population)
        answers = [
            Pick(
                losses,
                len(losses.tuned),
                # The better guess: at random, or the value that most other records have.
                max(1 / len(losses.tuned), _by_frequency(losses.question, population)),
            )
            for losses in scoring.candidate_losses(context, questions)
        ]
        scope: dict[str, object] = {"records": "own" if context.victim is None else "victim"}
        leaked = scoring.leak_result(self.name, RATE, (a for a in answers if a.is_leak))
        return replace(
            leaked,
            measurements=(*self._rows(answers, scope), *self._unasked_rows(theirs, asked, scope)),
            limits=(
                f"{self.name}: {len(answers):,} of {len(order):,} distinct strings about people "
                "named in the same record were asked about, each in one record, among values that "
                f"{len(population):,} records have; {left_out:,} were left out because no other "
                "record has a value of their kind, or because no name or nothing at all precedes "
                "or follows them closely.",
                *([] if context.base else [scoring.NO_BASE]),
            ),
        )

    def _exclusive_pii(self, context: AttackContext) -> list[Occurrence]:
        """Return the PII that only the victim has, in records that name someone."""
        theirs = [
            occurrence
            for occurrence in cloze.occurrences(exclusive_documents(context))
            if self._people(occurrence.document)
        ]
        exclusive = exclusive_strings(context, {occurrence.string for occurrence in theirs})
        return [occurrence for occurrence in theirs if occurrence.string in exclusive]

    def _unasked_rows(
        self,
        theirs: Sequence[Occurrence],
        asked: Sequence[Occurrence],
        scope: Mapping[str, object],
    ) -> Iterator[Measurement]:
        """Yield how many strings count as names although their kind is another."""
        others = (o for o in theirs if category(o.label) is not category(PERSON))
        pairs = ((occurrence.string, occurrence.label) for occurrence in others)
        strings = {occurrence.string for occurrence in asked}
        for row in unasked_rows(self.name, pairs, strings, KIND):
            yield replace(row, scope={**scope, **row.scope})

    def _questions(
        self,
        context: AttackContext,
        order: Sequence[Occurrence],
        population: Sequence[Document],
    ) -> tuple[list[ScoredQuestion], int]:
        """Return what is asked of `order`, and how many attributes were passed over before that."""
        values = [o for o in cloze.occurrences(population) if o.label not in self.names]
        offered = cloze.cloze_questions(
            order, values, (), most=self.candidates, seed=context.seed, invent=False
        )
        return scoring.scored_questions(
            context,
            offered,
            fewest=2,
            most=self.attributes,
            tokens=self.context,
            accept=self._names_someone,
        )

    def _people(self, document: Document) -> list[str]:
        """Return the names in a record."""
        return [string for string, label in document.strings() if label in self.names]

    def _names_someone(self, question: ScoredQuestion) -> bool:
        """Tell whether a person's name is in what the model reads beside the attribute."""
        names = self._people(question.question.occurrence.document)
        return any(name in segment for name in names for segment in question.window.segments)

    def _rows(self, answers: Sequence[Pick], scope: dict[str, object]) -> Iterator[Measurement]:
        """Yield the accuracy of each model, in all and by kind of data, and the tests."""
        if not answers:
            yield Measurement.missing(
                NOTHING, kind=KIND, plugin=self.name, metric=RATE, n=0,
                scope={**scope, "source": "tuned"},
            )  # fmt: skip
            return
        yield from scoring.accuracy_rows(
            answers,
            scope,
            lambda part: sum(answer.chance for answer in part) / len(part),
            kind=KIND,
            plugin=self.name,
            metric=RATE,
        )
        for test, p in inversion_tests(answers):
            yield Measurement(
                kind=KIND, plugin=self.name, metric="p_value", value=p, n=len(answers),
                scope={**scope, "source": "tuned", "test": test},
            )  # fmt: skip


def _population(context: AttackContext) -> list[Document]:
    """Return the records of everybody who is known, each text once, sorted by text."""
    texts = {document.text: document for document in known_documents(context)}
    return [texts[text] for text in sorted(texts) if not texts[text].is_prompt]


def _by_frequency(question: ClozeQuestion, population: Sequence[Document]) -> float:
    """Return the chance that the value which most other people's records have is the truth.

    Records of the group of the question's own do not count; without groups, that record does not.
    """
    own = question.occurrence.document
    others = (
        document
        for document in population
        if (document.group != own.group if own.group else document.text != own.text)
    )
    counts = Counter(
        string for document in others for string in {normalize(s) for s, _ in document.strings()}
    )
    truth, *rest = (
        counts[normalize(string)] for string in (question.occurrence.string, *question.distractors)
    )
    return 0.0 if truth < max(rest) else 1 / (1 + rest.count(truth))


def inversion_tests(answers: Sequence[Pick]) -> Iterator[tuple[str, float]]:
    """Yield the tests against the base on the same questions, and against guessing."""
    hits = sum(answer.is_right for answer in answers)
    if all(answer.base_rank is not None for answer in answers):
        gained = sum(answer.is_right and answer.base_rank != 1 for answer in answers)
        lost = sum(not answer.is_right and answer.base_rank == 1 for answer in answers)
        yield "base", mcnemar(gained, lost)
    yield "guessing", poisson_binomial_p_value([answer.chance for answer in answers], hits)
