"""Words before a number that say what it is: "card", "卡号"."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presidio_analyzer import EntityRecognizer, RecognizerResult

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
