"""Reads the annotation of a record in the forms that tools write, and checks it against the text.

Offsets may count code points, UTF-16 units or bytes, with an exclusive or an inclusive end, and in
a text whose line ends are two characters. The way of counting is taken in which all spans say what
they quote, and begin and end with words; a record in which none does the first is refused.
"""

import ast
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from fedaudit.api.errors import InputError
from fedaudit.api.records import PiiSpan
from fedaudit.data.conversation import text_of
from fedaudit.pii.normalized_search import normalize
from fedaudit.pii.spans import cuts_word
from fedaudit.pii.taxonomy import category

OTHER_NAMES = (
    *("entities", "privacy_mask", "annotations", "annotation", "label", "labels", "spans"),
    *("ner", "pii_spans", "pii_entities", "ner_tags", "ner_labels", "bio_tags", "bio_labels"),
    *("token_labels", "mbert_bio_labels"),
)
"""What others call the annotation of a record."""
TOKENS = ("tokens", "tokenized_text", "words")
"""What others call the words of a text, which some of them count in place of its characters."""
_START = (
    *("start", "start_offset", "start_position", "begin", "beginoffset", "start_char", "from"),
    "offset",
)
_END = ("end", "end_offset", "end_position", "endoffset", "end_char", "to")
_LENGTH = ("length", "len")
_LISTS = ("spans", "entities", "entity_mentions")
_LABEL = (
    *("label", "entity_type", "labels", "type", "tag", "entity", "category", "entity_group"),
    *("infotype", "info_type"),
)
_QUOTE = (
    *("text", "value", "surface", "entity_value", "entity_text", "word", "mention", "span_text"),
    *("quote", "string", "coveredtext", "covered_text", "mention_text", "surface_form"),
)
_TAG = re.compile(r"O|[BIESLUM][-_]\S+")
"""The label of a token: where it is in a name, and the kind."""
_LONGEST_QUOTE = 100

_Positions = Callable[[int, int], tuple[int, int]]
"""From written offsets to those in code points."""


class _Quoted(NamedTuple):
    """A span as it is written, with the text that it says it is."""

    start: int
    end: int
    label: str
    quote: str | None


def is_annotation(value: Any) -> bool:
    """Tell whether a value is the annotation of a text rather than the class of a record."""
    return isinstance(value, Mapping | list) and any(_has_offsets(item) for item in _items(value))


def names_people(value: Any) -> bool:
    """Tell whether a value is annotation whose labels the taxonomy knows, whatever its name."""
    if not isinstance(value, list) or not is_annotation(value):
        return False
    labels = [label for item in _items(value) for _, _, label, _ in [_fields(item)]]
    return any(isinstance(label, str) and category(label) is not None for label in labels)


def counts_tokens(annotation: Any, tokens: Any, text: str) -> bool:
    """Tell whether offsets count the words of a text: as characters they would cut words."""
    if not (isinstance(tokens, list) and tokens and all(isinstance(one, str) for one in tokens)):
        return False
    found = [_fields(item) for item in _items(annotation)]
    spans = [(start, end) for start, end, _, quote in found if quote is None]
    numbers = [(s, e) for s, e in spans if type(s) is int and type(e) is int]
    fit = bool(numbers) and all(0 <= s <= e <= len(tokens) for s, e in numbers)
    return fit and any(
        cuts_word(text, s) or cuts_word(text, e) or text[s:e].strip() != text[s:e] or s == e
        for s, e in numbers
    )


def would_be_lost(name: str, value: Any) -> bool:
    """Tell whether a field by its name and form is annotation that cannot be read."""
    if are_tags(value):
        return True
    if name.strip().casefold() in ("label", "labels", "ner") or is_annotation(value):
        return False
    return bool(value) and isinstance(value, Mapping | list | str) and not _is_list_text(value)


def are_tags(value: Any) -> bool:
    """Tell whether a value labels the tokens of a text: `["O", "B-PER", "I-PER"]`."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list) or not value:
        return False
    if all(isinstance(one, Mapping) for one in value):  # of which each has its label
        return any(are_tags([one.get(key) for one in value]) for key in value[0])
    labelled = all(isinstance(one, str) and _TAG.fullmatch(one) for one in value)
    return labelled and any(one != "O" for one in value)


def quotation(item: Any) -> tuple[str | int, str] | None:
    """Return under which key an item without offsets quotes a text, and the quotation's label.

    That is `{"text": "Ann Lee", "label": "PERSON"}`, or a list of both. None for another item: the
    label must be a person's or, as in no other list of texts, in capitals.
    """
    if isinstance(item, list) and len(item) == 2:
        item = {"text": item[0], "label": item[1]}
        keys: Mapping[str, str | int] = {"text": 0}
    elif isinstance(item, Mapping):
        keys = {str(key).strip().casefold(): key for key in item}
    else:
        return None
    _, _, label, quote = _fields(item)
    key = next((keys[name] for name in _QUOTE if name in keys), None)
    known = category(label) if isinstance(label, str) else None
    if key is None or known is None or not isinstance(quote, str) or len(quote) > _LONGEST_QUOTE:
        return None
    return (key, label) if label.isupper() or known.name == "Name" else None


def _is_list_text(value: Any) -> bool:
    return isinstance(value, str) and not value.lstrip().startswith(("[", "{"))


def parse(value: Any) -> Any:
    """Return annotation that a table has as text, as JSON or as Python writes lists."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    for read in (json.loads, ast.literal_eval):
        try:
            return read(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return value


def read_spans(annotation: Any, text: str, where: str) -> tuple[PiiSpan, ...]:
    """Return the spans of an annotation in code points of `text`, sorted and without overlap.

    Of spans that lie in one another, or are given twice, the outer one stays; of several
    annotators' spans that overlap, their union.

    Raises:
        InputError: for what is not a span, does not say what it quotes, lies outside of the text,
            or overlaps another one; no message has any of the text.
    """
    ways = _ways_of_counting(text)
    quoted = [_quoted(item, text, ways, where) for item in _items(annotation)]
    spans = _positioned(quoted, text, ways, where)
    for span in spans:
        if not 0 <= span.start < span.end <= len(text):
            raise InputError(
                f"{where}: the PII span {span.start}-{span.end} is not inside the text of "
                f"{len(text)} characters."
            )
    outer: list[PiiSpan] = []
    for span in sorted(set(spans), key=lambda span: (span.start, -span.end, span.label)):
        if outer and span.start < outer[-1].end < span.end and _annotators(annotation):
            outer[-1] = replace(outer[-1], end=span.end)
        elif not (outer and span.end <= outer[-1].end):
            outer.append(span)
    for before, after in pairwise(outer):
        if after.start < before.end:
            raise InputError(
                f"{where}: the PII spans {before.start}-{before.end} and "
                f"{after.start}-{after.end} overlap."
            )
    return tuple(outer)


def _items(annotation: Any) -> Iterator[Any]:
    """Yield the spans of a list, of Label Studio's results, of annotators, or under `spans`."""
    if isinstance(annotation, Mapping):
        inner = next((annotation[key] for key in _LISTS if key in annotation), None)
        people = _annotators(annotation)
        if isinstance(inner, list):
            yield from _items(inner)
        elif people:
            yield from (item for one in people for item in _items(one))
        else:
            yield annotation
        return
    for item in annotation:
        if isinstance(item, Mapping) and isinstance(item.get("result"), list):
            for result in item["result"]:
                value = result.get("value") if isinstance(result, Mapping) else None
                yield value if isinstance(value, Mapping) else result
        else:
            yield item


def _annotators(annotation: Any) -> list[Mapping[str, Any]]:
    """Return what each of several annotators marked, as TAB has it; empty for another form."""
    values = annotation.values() if isinstance(annotation, Mapping) else ()
    people = [one for one in values if isinstance(one, Mapping)]
    return people if all("entity_mentions" in one for one in people) else []


def _has_offsets(item: Any) -> bool:
    """Tell whether an item has offsets, be they in a form that is refused: text or decimals."""
    return all(
        type(value) in (int, float) or (isinstance(value, str) and value.strip().isdigit())
        for value in _fields(item)[:2]
    )


def _fields(item: Any) -> tuple[Any, Any, Any, Any]:
    """Return start, end, label and quotation of a span as tools write it."""
    if isinstance(item, list | tuple):
        numbers = [value for value in item if type(value) is int]
        strings = [value for value in item if isinstance(value, str)]
        if len(numbers) == 2 and len(strings) == 1 and len(item) == 3:
            return numbers[0], numbers[1], strings[0], None
        return None, None, None, None
    if not isinstance(item, Mapping):
        return None, None, None, None
    lower = {str(key).strip().casefold(): value for key, value in item.items()}
    start, end, label, quote = (
        next((lower[key] for key in keys if lower.get(key) is not None), None)
        for keys in (_START, _END, _LABEL, _QUOTE)
    )
    if end is None and type(start) is int:
        length = next((lower[key] for key in _LENGTH if lower.get(key) is not None), None)
        end = start + length if type(length) is int else None
    if isinstance(label, list) and len(label) == 1:
        label = label[0]
    if isinstance(label, Mapping):  # Google's infoType
        label = label.get("name")
    return start, end, label, quote


def _quoted(item: Any, text: str, ways: Sequence[_Positions], where: str) -> _Quoted:
    """Return a span with its quotation, be it under a key of any name that the text confirms."""
    start, end, label, quote = _fields(item)
    if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label:
        raise InputError(f"{where}: a PII span needs 'start' and 'end' (numbers) and 'label'.")
    others = item.values() if isinstance(item, Mapping) else ()
    strings = (one for one in others if isinstance(one, str) and one.strip() and one in text)
    if not (isinstance(quote, str) and quote.strip()):
        quoted = (_Quoted(start, end, label, one) for one in strings if one != label)
        said = (one.quote for one in quoted if any(_says(one, way, text) for way in ways))
        quote = next(said, None)
    return _Quoted(start, end, text_of(label, "label", where), quote)


def _positioned(
    spans: Sequence[_Quoted], text: str, ways: Sequence[_Positions], where: str
) -> list[PiiSpan]:
    """Return the spans in code points, in the way of counting that fits quotations and words."""
    checked = [span for span in spans if span.quote is not None]
    readings = (
        [PiiSpan(*position(span.start, span.end), span.label) for span in spans]
        for position in (ways if checked else ways[: len(ways) // 2])  # words show no inclusive end
        if all(_says(span, position, text) for span in checked)
    )
    usual = next(readings, None)
    if usual is None:
        first = next(span for span in checked if not _says(span, _as_written, text))
        raise InputError(
            f"{where}: the PII span {first.start}-{first.end} does not say what it quotes, nor do "
            "all spans as UTF-16 units, bytes, or with inclusive ends; the offsets belong to "
            "another text."
        )
    if not any(cuts_word(text, span.start) or cuts_word(text, span.end) for span in usual):
        return usual
    whole = {tuple(reading) for reading in readings if all(_is_whole(text, s) for s in reading)}
    if len(whole) > 1:
        raise InputError(
            f"{where}: the PII spans cut words, and more than one other way of counting gives "
            "whole ones: write offsets in characters."
        )
    return list(whole.pop()) if whole else usual


def _says(span: _Quoted, position: _Positions, text: str) -> bool:
    start, end = position(span.start, span.end)
    return 0 <= start < end <= len(text) and _same(text[start:end], span.quote or "")


def _is_whole(text: str, span: PiiSpan) -> bool:
    """Tell whether a span is of whole words, without white space around them."""
    string = text[span.start : span.end]
    cut = cuts_word(text, span.start) or cuts_word(text, span.end)
    return bool(string) and string == string.strip() and not cut


def _same(one: str, other: str) -> bool:
    """Tell whether two strings are equal but for their Unicode form and kind of white space."""
    return one == other or normalize(one) == normalize(other)


def _as_written(start: int, end: int) -> tuple[int, int]:
    return start, end


def _ways_of_counting(text: str) -> list[_Positions]:
    """Return the ways of counting, the usual one first, those with inclusive ends last."""
    units: list[Callable[[str], int]] = [
        lambda _: 1,
        lambda char: 2 if ord(char) > 0xFFFF else 1,
        lambda char: len(char.encode("utf-8", "surrogatepass")),
        lambda char: 2 if char == "\n" else 1,
        lambda char: 2 if ord(char) > 0xFFFF or char == "\n" else 1,
        lambda char: 0 if char == "\r" else 1,
    ]
    exclusive, inclusive = ([_counted(text, unit, more) for unit in units] for more in (0, 1))
    return [_as_written, *exclusive[1:], *inclusive]


def _counted(text: str, unit: Callable[[str], int], inclusive: int) -> _Positions:
    @cache
    def offsets() -> list[int]:
        return [0, *accumulate(map(unit, text))]

    def position(start: int, end: int) -> tuple[int, int]:
        written = start, end + inclusive
        first, last = (bisect_left(offsets(), offset) for offset in written)
        exact = written == tuple(offsets()[n] for n in (first, last) if n < len(offsets()))
        return (first, last) if exact else (0, 0)

    return position
