"""Filtering out candidates that do not look like PII, judged by the attacker's own PII."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from fedaudit.api.records import Document
from fedaudit.extraction.candidates.observations import Key, StringObservation
from fedaudit.pii.shape import Form, form, is_broken

_WORD = re.compile(r"[^\W\d_]{2,}")


def well_formed(
    candidates: Mapping[Key, StringObservation], documents: Sequence[Document]
) -> dict[Key, StringObservation]:
    """Return the candidates that look like the attacker's own strings of the same kind.

    Left out are strings with broken bytes; strings of another form (other shapes or numbers of
    words, or invalid check digits or dates if all of the attacker's are valid); and strings without
    digits whose words all occur outside of PII in the attacker's texts, as in a template.
    """
    forms, used = _forms(documents), _vocabulary(documents)
    return {
        (text, label): observation
        for (text, label), observation in candidates.items()
        if _has_form(text, forms.get(label)) and not _is_template(text, used)
    }


def _has_form(text: str, expected_form: Form | None) -> bool:
    return not is_broken(text) if expected_form is None else expected_form.matches(text)


def _is_template(text: str, used: frozenset[str]) -> bool:
    words = _WORD.findall(text)
    return bool(words) and not any(map(str.isdigit, text)) and used.issuperset(words)


def _forms(documents: Sequence[Document]) -> dict[str, Form]:
    strings: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        for string, label in document.strings():
            strings[label].add(string)
    forms = ((label, form(group)) for label, group in strings.items())
    return {label: f for label, f in forms if f is not None}


def _vocabulary(documents: Sequence[Document]) -> frozenset[str]:
    """Return the words in the documents outside of PII, case-sensitive."""
    words: set[str] = set()
    for document in documents:
        start = 0
        for span in (*sorted(document.pii or ()), None):
            end = len(document.text) if span is None else span.start
            words.update(_WORD.findall(document.text[start:end]))
            start = end if span is None else max(start, span.end)
    return frozenset(words)


def first_word(text: str) -> str:
    """Return the first word of a string, or the first half of a string of one word."""
    first, _, remainder = text.partition(" ")
    return first if remainder else text[: -(-len(text) // 2)]


def number_variants(text: str) -> str:
    """Return a key that is equal for strings with the same words and different numbers.

    At most one of such strings is true. For a string of fewer than two words, it is the string.
    """
    words = [word for word in _WORD.findall(text) if len(word) > 2]
    numbers = any(map(str.isdigit, text))
    return re.sub(r"\d+", "0", text) if numbers and len(words) > 1 else text
