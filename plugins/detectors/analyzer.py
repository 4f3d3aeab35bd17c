"""Presidio's analyzer as the detector uses it: offline, its rules for any language, cached."""

import logging
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from fedaudit.api import UsageError
from fedaudit.pii.checksums import is_mod97

from .china import RULES
from .ner import NerModel, load_spacy, load_transformers, our_label, spacy_labels
from .rules import BREAK, EMAIL_ADDRESS, TELEPHONE, DetectionRule, recognizer
from .scripts import ANY

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine, EntityRecognizer, RecognizerResult
    from presidio_analyzer.nlp_engine import NlpEngine
    from spacy.language import Language

REGIONS = {"en": ("US", "GB", "AU"), "zh": ("CN",)}
"""Where a telephone number without a country code may be from, by language."""

# Shorter ones (years, case numbers) are not telephone numbers that would lead to a person.
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
        yield _predefined(predefined.UkNinoRecognizer, " ?", supported_entity="ID_CARD")
        yield _predefined(predefined.UsSsnRecognizer, "[- .]")
    yield _predefined(predefined.IpRecognizer)
    yield _predefined(predefined.MacAddressRecognizer)
    yield _predefined(predefined.UrlRecognizer)
    yield _predefined(predefined.DateRecognizer)


def _predefined(cls: Any, gap: str = "", **options: Any) -> "EntityRecognizer":
    """Return Presidio's recognizer with ASCII word boundaries, which Han characters do not hide.

    Its `gap` between groups may be any BREAK.
    """
    from presidio_analyzer import Pattern

    breaks = BREAK + "?" * gap.endswith("?")
    patterns = [
        Pattern(p.name, f"(?a){p.regex.replace(gap, breaks) if gap else p.regex}", p.score)
        for p in cls.PATTERNS
    ]
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


_WINDOW, _BONUS, _AT_LEAST = 40, 0.35, 0.4


class ContextWindow:
    """Raises the score of what a context word precedes, by as much as Presidio's own enhancer.

    Presidio's enhancer compares lemmas, which only a trained spaCy model has, and tokens, which
    would have to be Chinese words; this one reads the 40 characters before the match.
    """

    def enhance_using_context(
        self,
        *,
        text: str,
        raw_results: "Sequence[RecognizerResult]",
        recognizers: "Iterable[EntityRecognizer]",
        **_: object,
    ) -> "Sequence[RecognizerResult]":
        """Return `raw_results` with the scores that their recognizers' context words give them."""
        words = {recognizer.id: tuple(recognizer.context) for recognizer in recognizers}
        for result in raw_results:
            expected = words.get((result.recognition_metadata or {}).get("recognizer_identifier"))
            before = text[max(0, result.start - _WINDOW) : result.start]
            if expected and _any_of(expected).search(before):
                result.score = min(1.0, max(_AT_LEAST, result.score + _BONUS))
        return raw_results


@cache
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds one of `words`: English ones whole or in the plural, Chinese anywhere."""
    choices = (
        rf"(?<![a-z]){re.escape(word.strip())}(?:e?s)?(?![a-z])" if word.isascii() else word
        for word in words
    )
    return re.compile("|".join(choices), re.IGNORECASE)


_LENGTHS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 "
    "DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 "
    "HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 "
    "MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 "
    "RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 "
    "VA22 VG24 XK20 YE30"
)
"""Country codes with the number of characters, by SWIFT's registry."""


_GAP = rf"(?:{BREAK}|[ \t]{{1,8}})"


def _pattern() -> str:
    countries = defaultdict[int, list[str]](list)
    for entry in _LENGTHS.split():
        countries[int(entry[2:])].append(entry[:2])
    forms = (
        rf"(?:{'|'.join(codes)})(?:{_GAP}?\d){{2}}(?:{_GAP}?[A-Z0-9]){{{length - 4}}}"
        for length, codes in countries.items()
    )
    return rf"(?<![0-9A-Za-z])(?:{'|'.join(forms)})(?![0-9A-Za-z])"


def check_iban(text: str) -> bool:
    """Tell whether the check digits of a number hold."""
    return is_mod97("".join(filter(str.isalnum, text)).upper())


IBAN_CODE = DetectionRule(
    label="IBAN_CODE", patterns=((_pattern(), 0.5),), check=check_iban, context=("iban",)
)
