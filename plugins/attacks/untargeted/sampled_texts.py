"""What attacks that draw texts and look for personal data in them have in common."""

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api import (
    Ability,
    Attack,
    AttackContext,
    Document,
    InputError,
    Measurement,
    SamplingParams,
    decoding_abilities,
)
from fedaudit.extraction.leak_tests import unasked_rows
from fedaudit.extraction.targets import check_labels, exclusive_strings


@dataclass(frozen=True, kw_only=True)
class SampledTexts(Attack, ABC):
    """An attack on the texts that models write: how they are drawn, and what is looked for."""

    temperature: float = 1.0
    """The sampling temperature: logits are divided by it; 0 is greedy."""
    top_k: int = 40
    """How many of the likeliest tokens are sampled from; 0 is all."""
    top_p: float = 1.0
    """Sample from the likeliest tokens that together have this probability; 1 is all."""
    labels: tuple[str, ...] = ()
    """Only these kinds of PII, in the data and in the texts; if not set, all."""

    def __post_init__(self) -> None:
        self._decoding()  # refuses what is not a distribution

    @property
    def needs(self) -> frozenset[Ability]:
        """Texts that are drawn."""
        return decoding_abilities(self._decoding())

    def _decoding(self) -> SamplingParams:
        return SamplingParams(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)

    def unasked_rows(
        self, context: AttackContext, truth: Mapping[str, str]
    ) -> tuple[Measurement, ...]:
        """Return how many strings of each kind are not looked for, since `labels` leaves them out.

        `truth` is what is looked for.
        """
        if not self.labels:
            return ()
        pairs = _pairs(context)
        exclusive = exclusive_strings(context, {string for string, _ in pairs})
        return unasked_rows(self.name, (pair for pair in pairs if pair[0] in exclusive), truth)


def searched_documents(context: AttackContext) -> Sequence[Document]:
    """Return the documents whose PII is looked for: the victim's, or else the attacker's own."""
    documents = context.attacked_documents
    return [document for document in documents if not document.is_prompt]


def _pairs(context: AttackContext) -> list[tuple[str, str]]:
    """Return the strings of the documents, without white space around them, and their labels."""
    return [
        (string.strip(), label)
        for document in searched_documents(context)
        for string, label in document.strings()
    ]


def target_strings(context: AttackContext, labels: Sequence[str] = ()) -> dict[str, str]:
    """Return R: the data's distinct PII strings with their labels, sorted.

    White space around a string is dropped, nothing else: strings are equal or they differ. One
    with several labels keeps the first in alphabetical order. Of a victim's strings those are left
    out that the attacker or another member has too, however they write them. Raises InputError
    where there is none, UsageError for a label that the data does not have.
    """
    pairs = _pairs(context)
    if pairs:
        check_labels(labels, searched_documents(context))
    strings: dict[str, str] = {}
    for string, label in sorted(pairs):
        if string and (not labels or label in labels):
            strings.setdefault(string, label)
    exclusive = exclusive_strings(context, strings)
    strings = {string: label for string, label in strings.items() if string in exclusive}
    if not strings:
        option = "--prefixes" if context.victim is None else "--victim"
        raise InputError(
            f"There is no PII to look for: the file of {option} holds none of its own."
        )
    return strings
