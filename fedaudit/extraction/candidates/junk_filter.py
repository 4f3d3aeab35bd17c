"""Filtering out what no attacker would take for others' personal data, judged by its own."""

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
    """Return the candidates that look like the attacker's own strings of their kind.

    Left out are broken bytes, strings of another form (words of other shapes, more or fewer of
    them, check digits or dates that do not hold where the attacker's all do), and strings all
    whose words the attacker's texts use outside of PII: they are the template's.
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
    """Return the words that stand in the documents outside of PII, as they are written."""
    words: set[str] = set()
    for document in documents:
        start = 0
        for span in (*sorted(document.pii or ()), None):
            end = len(document.text) if span is None else span.start
            words.update(_WORD.findall(document.text[start:end]))
            start = end if span is None else max(start, span.end)
    return frozenset(words)


def first_word(text: str) -> str:
    """Return what a string begins with: its first word, or the first half of a single one."""
    first, _, remainder = text.partition(" ")
    return first if remainder else text[: -(-len(text) // 2)]


def number_variants(text: str) -> str:
    """Return what strings of the same words and other numbers have in common.

    Of these at most one is true. A string of fewer than two words has no such variants.
    """
    words = [word for word in _WORD.findall(text) if len(word) > 2]
    numbers = any(map(str.isdigit, text))
    return re.sub(r"\d+", "0", text) if numbers and len(words) > 1 else text
