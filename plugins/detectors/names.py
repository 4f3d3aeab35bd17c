"""The detector that finds names as well, without a model: by titles, lists of names and endings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from fedaudit.api import PiiSpan
from fedaudit.pii.spans import resolve

from .analyzer import analyzers
from .chinese_names import chinese_names
from .custom import custom_patterns
from .latin_names import AT_TITLE, FoundName, latin_names, name_within
from .name_lists import name_key, name_lists
from .presidio import CERTAIN, Presidio
from .readable_text import as_read
from .scripts import can_read, fold

PERSON = "PERSON"


@dataclass(frozen=True)
class Names(Presidio):
    """Finds what `presidio` finds, and most names of people, without a model.

    A name is what follows a title (Mr, Dr, 原告), what begins with a first name that Faker lists
    for one of some eighty countries, and what ends like a surname. Places and employers are not
    found.
    """

    name: ClassVar[str] = "names"

    def detect(self, texts: Sequence[str]) -> list[tuple[PiiSpan, ...]]:
        """Return for each text its spans, sorted and without overlap."""
        finds = rules.scored(texts) if (rules := self._rules()) else [[] for _ in texts]
        if self.entities and PERSON not in self.entities:
            return [resolve(scored) for scored in finds]
        by_rules = self._labels_of_rules()
        return [
            resolve(self._ranked(fold(text), scored, by_rules))
            for text, scored in zip(texts, finds, strict=True)
        ]

    def describe(self) -> str:
        """Say what found the spans, for the report."""
        rules = super().describe().replace("rules only: no names, no places", "no places")
        return f"{rules}; names by titles, lists and endings"

    def labels(self, texts: Sequence[str]) -> frozenset[str]:
        """Return the labels that it looks for; names if `texts` are in its languages' scripts."""
        rules = self._rules()
        others = rules.labels(texts) if rules else frozenset[str]()
        wanted = not self.entities or PERSON in self.entities
        return others | {PERSON} if wanted and can_read(self.languages, texts) else others

    def _rules(self) -> Presidio | None:
        """Return what finds all but names; None where names alone are looked for."""
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.ner and PERSON in self.entities:  # nothing of Presidio's finds it
            options["entities"] = tuple(label for label in self.entities if label != PERSON)
            options["entities"] += tuple(one.label for one in custom_patterns(self.patterns))
            if not options["entities"]:
                return None
        return Presidio(**options)

    def _labels_of_rules(self) -> frozenset[str]:
        engines = analyzers(self.languages, ()).values()
        return frozenset(label for one in engines for label in one.get_supported_entities())

    def _ranked(
        self, text: str, scored: list[tuple[float, PiiSpan]], by_rules: frozenset[str]
    ) -> Iterator[tuple[float, PiiSpan]]:
        """Yield all finds, ranked: patterns and rules for numbers, names by rules, a model's.

        The rules see where a name ends at a line, a cell or a title, which a model does not.
        """
        for score, span in scored:
            if score == CERTAIN or span.label in by_rules:
                yield CERTAIN + score, span
            elif span.label != PERSON:
                yield score, span
            elif bounds := name_within(text, span.start, span.end):
                yield score, PiiSpan(*bounds, PERSON)
        for name in self._people(text):
            yield 1 + name.score, PiiSpan(name.start, name.end, PERSON)

    def _people(self, folded: str) -> list[FoundName]:
        read = as_read(folded, _is_half_name)
        names = list(latin_names(read.text)) if "en" in self.languages else []
        names += chinese_names(read.text) if "zh" in self.languages else []
        return [
            FoundName(*read.bounds(start, end), score)
            for start, end, score in names
            if score >= self.threshold
        ]


def _is_half_name(word: str) -> bool:
    """Tell whether a word is a title or a first name: two spaces behind it do not end a name."""
    return bool(AT_TITLE.fullmatch(word)) or name_key(word) in name_lists().first
