"""The detector of personal data in text: Presidio with rules of our own, and no network."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, ClassVar

from fedaudit.api import PiiDetector, PiiSpan, unknown_name_error
from fedaudit.pii.spans import resolve
from fedaudit.pii.taxonomy import category

from .custom import custom_patterns
from .ner import INSTALLED, NerModel, installed_models
from .readable_text import as_read
from .scripts import can_judge, can_read, fold, occurs, strip_span, whole_tokens

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine

LANGUAGES = ("en", "zh")
ON_REQUEST = frozenset({"DATE_TIME", "URL", "ORGANIZATION", "NRP", "MISC"})
"""What is found only when `entities` names it: seldom personal, and in nearly every sentence."""

_SYNONYMS = {"CREDIT_CARD": "BANK_CARD"}
_BATCH = 64
_GOES_ON = re.compile(r"[.:-]?[0-9A-Fa-f]{2}")
CERTAIN = 2.0
"""The score of what the user's own patterns find: more than any rule's."""


def _personal(labels: set[str]) -> set[str]:
    """Return the labels that are personal data: a model's CARDINAL or WORK_OF_ART is none."""
    return {label for label in labels - ON_REQUEST if category(label) is not None}


@dataclass(frozen=True)
class Presidio(PiiDetector):
    """Finds e-mail addresses, telephone, card and identity numbers by rules, names by a model.

    Without a model of the user's own (`ner`) no names and no places are found. Dates, web
    addresses, organisations and nationalities are found only when `entities` names them.
    """

    name: ClassVar[str] = "presidio"
    paper: ClassVar[str] = ""

    languages: tuple[str, ...] = LANGUAGES
    """The languages that texts may be in; several may be mixed in one text."""
    entities: tuple[str, ...] = ()
    """The labels to look for; if empty, all but those found only on request."""
    ner: tuple[str, ...] = ()
    """Models: "spacy:NAME", "transformers:FOLDER"; "zh=spacy:NAME" reads only Chinese. "installed"
    stands for the spaCy model of each language that is installed."""
    patterns: tuple[str, ...] = ()
    """Kinds of one's own: "NAME=REGEX", "NAME:CHECK=REGEX", or "@FILE" with one a line."""
    threshold: float = 0.4
    """The lowest score that counts: a telephone number reaches it without context, a vague number
    only with context."""

    def __post_init__(self) -> None:
        for language in self.languages:
            if language not in LANGUAGES:
                raise unknown_name_error("language", language, LANGUAGES)
        if not self.languages:
            raise ValueError("languages is empty; there are en and zh.")
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold is {self.threshold}, but a score is between 0 and 1.")
        self._models()
        custom_patterns(self.patterns)

    def detect(self, texts: Sequence[str]) -> list[tuple[PiiSpan, ...]]:
        """Return for each text its spans, sorted and without overlap."""
        return [resolve(finds) for finds in self.scored(texts)]

    def scored(self, texts: Sequence[str]) -> list[list[tuple[float, PiiSpan]]]:
        """Return for each text what rules, models and patterns find, with their scores."""
        engines, readable = self._engines(), [as_read(fold(text)) for text in texts]
        folded = [read.text for read in readable]
        scored_spans: list[list[tuple[float, PiiSpan]]] = [[] for _ in texts]
        for language, labels in self._labels_by_language(engines).items():
            self._search(engines[language], language, labels, folded, scored_spans)
        for pattern in custom_patterns(self.patterns):
            for text, finds in zip(folded, scored_spans, strict=True):
                finds += [(CERTAIN, span) for span in pattern.find(text)]
        return [
            [(score, PiiSpan(*read.bounds(s.start, s.end), s.label)) for score, s in finds]
            for read, finds in zip(readable, scored_spans, strict=True)
        ]

    def describe(self) -> str:
        """Say what found the spans (tool, version, models, languages), for the report."""
        tool = f"presidio-analyzer {version('presidio-analyzer')}"
        languages = ", ".join(self.languages)
        named = ", ".join(map(str, self._models()))
        models = f"NER by {named}" if self.ner else "rules only: no names, no places"
        custom = [pattern.label for pattern in custom_patterns(self.patterns)]
        kinds = f"; patterns {', '.join(dict.fromkeys(custom))}" if custom else ""
        return f"{tool}; languages {languages}; {models}; scores from {self.threshold}{kinds}"

    def labels(self, texts: Sequence[str]) -> frozenset[str]:
        """Return the labels that it looks for in a language that `texts` are written in."""
        languages: dict[str, list[str]] = {}
        for language, labels in self._labels_by_language(self._engines()).items():
            for label in labels:
                languages.setdefault(label, []).append(language)
        custom = frozenset(pattern.label for pattern in custom_patterns(self.patterns))
        return custom | {label for label, read in languages.items() if can_read(read, texts)}

    def _search(
        self,
        engine: "AnalyzerEngine",
        language: str,
        labels: list[str],
        texts: Sequence[str],
        scored_spans: list[list[tuple[float, PiiSpan]]],
    ) -> None:
        """Add to `scored_spans` what the recognizers of `language` find in the texts in it."""
        from presidio_analyzer import BatchAnalyzerEngine

        numbers = [number for number, text in enumerate(texts) if occurs(language, text)]
        results = BatchAnalyzerEngine(engine).analyze_iterator(
            [texts[number] for number in numbers],
            language=language,
            batch_size=_BATCH,
            entities=labels,
            score_threshold=self.threshold,
        )
        for number, finds in zip(numbers, results, strict=True):
            text = texts[number]
            scored_spans[number] += [
                (
                    find.score,
                    PiiSpan(*whole_tokens(text, *strip_span(text, find.start, find.end)), label),
                )
                for find in finds
                for label in [find.entity_type]
                if find.entity_type in labels
                and (piece := text[find.start : find.end]).strip()
                and can_judge(language, piece)
                and not (label == "MAC_ADDRESS" and _GOES_ON.match(text, find.end))
            ]

    def _engines(self) -> "Mapping[str, AnalyzerEngine]":
        from .analyzer import analyzers

        return analyzers(self.languages, self._models())

    def _models(self) -> tuple[NerModel, ...]:
        named = [text for text in self.ner if text != INSTALLED]
        if INSTALLED in self.ner:
            named += installed_models(self.languages)
        return tuple(NerModel.parse(text, self.languages) for text in dict.fromkeys(named))

    def _labels_by_language(self, engines: "Mapping[str, AnalyzerEngine]") -> dict[str, list[str]]:
        """Return the labels to look for by language; raises UsageError for an unsupported one."""
        supported = {name: set(engine.get_supported_entities()) for name, engine in engines.items()}
        every = set[str]().union(*supported.values())
        custom = {pattern.label for pattern in custom_patterns(self.patterns)}
        selected = {_SYNONYMS.get(label, label) for label in self.entities} or _personal(every)
        selected -= custom - every
        for label in sorted(selected - every):
            if label == "PERSON":
                raise unknown_name_error("entity (no names without ner)", label, every)
            raise unknown_name_error("entity", label, every | {"PERSON"})
        return {
            name: sorted(labels & selected)
            for name, labels in supported.items()
            if labels & selected
        }
