"""The detector that finds names as well, without a model: by titles, lists of names and endings."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from fedaudit.api import PiiSpan
from fedaudit.pii.spans import resolve

from .chinese_names import chinese_names
from .custom import custom_patterns
from .latin_names import latin_names
from .presidio import CERTAIN, Presidio
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
        other_spans = self._detect_other_entities(texts)
        if self.entities and PERSON not in self.entities:
            return other_spans
        return [
            resolve([*((CERTAIN, span) for span in spans), *self._people(text)])
            for text, spans in zip(texts, other_spans, strict=True)
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

    def _detect_other_entities(self, texts: Sequence[str]) -> list[tuple[PiiSpan, ...]]:
        """Return what the rules find, and the user's own model where there is one."""
        rules = self._rules()
        return rules.detect(texts) if rules else [() for _ in texts]

    def _rules(self) -> Presidio | None:
        """Return what finds all but names; None where names alone are looked for."""
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.ner and PERSON in self.entities:  # nothing of Presidio's finds it
            options["entities"] = tuple(label for label in self.entities if label != PERSON)
            options["entities"] += tuple(one.label for one in custom_patterns(self.patterns))
            if not options["entities"]:
                return None
        return Presidio(**options)

    def _people(self, text: str) -> list[tuple[float, PiiSpan]]:
        folded = fold(text)
        names = list(latin_names(folded)) if "en" in self.languages else []
        names += chinese_names(folded) if "zh" in self.languages else []
        return [
            (name.score, PiiSpan(name.start, name.end, PERSON))
            for name in names
            if name.score >= self.threshold
        ]
