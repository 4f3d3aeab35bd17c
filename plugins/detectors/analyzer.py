"""Presidio's analyzer as the detector uses it: offline, its rules for any language, cached."""

import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from fedaudit.api import UsageError

from .china import RULES
from .context import ContextWindow
from .iban import IBAN_CODE
from .ner import NerModel, load_spacy, load_transformers, our_label, spacy_labels
from .rules import EMAIL_ADDRESS, TELEPHONE, recognizer
from .scripts import ANY

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine, EntityRecognizer, RecognizerResult
    from presidio_analyzer.nlp_engine import NlpEngine
    from spacy.language import Language

REGIONS = {"en": ("US", "GB", "AU"), "zh": ("CN",)}
"""Where a telephone number without a country code may be from, by language."""

# Shorter ones (years, case numbers) are no telephone numbers that would lead to a person.
_FEWEST_DIGITS = 9
_ENOUGH_DIGITS = re.compile(rf"\d(?:[^\d\n]{{0,4}}\d){{{_FEWEST_DIGITS - 1}}}")
_DECIMAL, _GOES_ON = re.compile(r"\d+\.\d+"), re.compile(r"\.?\d")


@cache
def analyzers(
    languages: tuple[str, ...], models: tuple[NerModel, ...]
) -> "Mapping[str, AnalyzerEngine]":
    """Return the engines for these languages and models, by the language that each reads.

    The rules are in the engine for ANY, which every text goes through. Nothing is downloaded.
    """
    recognizers = {ANY: list(_rules(languages))}
    pipelines: dict[str, Language] = {}
    for model in models:
        added, pipeline = _load(model)
        language = added.supported_language
        if language not in (ANY, *languages):
            raise UsageError(f"NER model {model} reads {language!r}, not {' or '.join(languages)}.")
        if pipeline and language in pipelines:
            raise UsageError(f"NER model {model} is the second spaCy model for {language!r}.")
        if pipeline:
            pipelines[language] = pipeline
        recognizers.setdefault(language, []).append(added)
    return {
        language: _engine(language, filed, pipelines.get(language))
        for language, filed in recognizers.items()
    }


def _load(model: NerModel) -> "tuple[EntityRecognizer, Language | None]":
    with _quiet("presidio-analyzer"):
        if model.loader == "spacy":
            return load_spacy(model)
        return load_transformers(model), None


def _engine(
    language: str, recognizers: "list[EntityRecognizer]", pipeline: "Language | None"
) -> "AnalyzerEngine":
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry

    enhancer: Any = ContextWindow()
    return AnalyzerEngine(
        registry=RecognizerRegistry(recognizers=recognizers, supported_languages=[language]),
        nlp_engine=_nlp_engine(language, pipeline),
        supported_languages=[language],
        context_aware_enhancer=enhancer,
    )


def _nlp_engine(language: str, pipeline: "Language | None") -> "NlpEngine":
    """Return what runs `pipeline`; Presidio's default would download one.

    Without a pipeline nothing is tokenised: no rule asks for words, and a blank spaCy pipeline
    takes three quarters of the time.
    """
    from presidio_analyzer.nlp_engine import NerModelConfiguration, NoOpNlpEngine, SpacyNlpEngine

    names = [{"lang_code": language, "model_name": "none"}]
    if pipeline is None:
        return NoOpNlpEngine(models=names)
    labels = {label: our_label(label) for label in spacy_labels(pipeline)}
    configuration = NerModelConfiguration(model_to_presidio_entity_mapping=labels)
    engine = SpacyNlpEngine(models=names, ner_model_configuration=configuration)
    pipeline.max_length = sys.maxsize
    engine.nlp = {language: pipeline}  # type: ignore[assignment]
    return engine


def _rules(languages: Sequence[str]) -> "Iterator[EntityRecognizer]":
    """Yield the recognizers that need no model."""
    from presidio_analyzer import predefined_recognizers as predefined

    yield from map(recognizer, (EMAIL_ADDRESS, TELEPHONE, IBAN_CODE, *RULES))
    yield _telephone([region for language in languages for region in REGIONS[language]])
    yield predefined.CryptoRecognizer(supported_language=ANY)
    if "en" in languages:
        yield _predefined(predefined.UkNinoRecognizer, supported_entity="ID_CARD")
        yield _predefined(predefined.UsSsnRecognizer)
    yield _predefined(predefined.IpRecognizer)
    yield _predefined(predefined.MacAddressRecognizer)
    yield _predefined(predefined.UrlRecognizer)
    yield _predefined(predefined.DateRecognizer)


def _predefined(cls: Any, **options: Any) -> "EntityRecognizer":
    """Return Presidio's recognizer with ASCII word boundaries, which Han characters do not hide."""
    from presidio_analyzer import Pattern

    patterns = [Pattern(p.name, f"(?a){p.regex}", p.score) for p in cls.PATTERNS]
    entity_recognizer: EntityRecognizer = cls(patterns=patterns, supported_language=ANY, **options)
    return entity_recognizer


def _telephone(regions: Sequence[str]) -> "EntityRecognizer":
    """Return Presidio's telephone recognizer without short matches and parts of longer ones."""
    from presidio_analyzer.predefined_recognizers import PhoneRecognizer

    class Telephone(PhoneRecognizer):
        """Finds the valid numbers of some regions, and of all with a country code."""

        def analyze(self, text: str, *args: Any, **kwargs: Any) -> "list[RecognizerResult]":
            if not _ENOUGH_DIGITS.search(text):
                return []
            results = super().analyze(text, *args, **kwargs)
            for result in results:
                result.start = _after_bracket(text, result.start, result.end)
            return [result for result in results if _stands_alone(text, result.start, result.end)]

    return Telephone(
        context=list(TELEPHONE.context),
        supported_regions=tuple(regions),
        supported_language=ANY,
    )


def _after_bracket(text: str, start: int, end: int) -> int:
    """Return where the number begins if its first bracket is around all of it."""
    opens = text[start] in "(（" and not {")", "）"}.intersection(text[start:end])
    return start + 1 if opens else start


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Tell whether this is a number for itself: long enough, no decimals, no digits around it."""
    digits = sum(character.isdigit() for character in text[start:end])
    return (
        digits >= _FEWEST_DIGITS
        and not _DECIMAL.fullmatch(text, start, end)
        and not text[max(0, start - 1) : start].isdigit()
        and not _GOES_ON.match(text, end)
    )


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep a logger from printing at length what the user gets in one line."""
    logger = logging.getLogger(name)
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
