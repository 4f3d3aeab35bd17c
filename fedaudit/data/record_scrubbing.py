"""One record without its personal data, in the fields that it has: no string is passed over."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedaudit.api.records import Document, PiiSpan, Place
from fedaudit.data.conversation import SURROGATE
from fedaudit.data.corpus import CorpusRecord
from fedaudit.data.formats import ALIASES
from fedaudit.pii import masking
from fedaudit.pii.lookalikes import folded_readings, forms
from fedaudit.pii.masking import Substitute
from fedaudit.pii.normalized_search import find_strings, normalize
from fedaudit.pii.spans import resolve

FIELDS = ("instruction", "input", "output")
Chosen = Callable[[str], bool]
"""Whether a label is to be masked."""

_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


@dataclass(frozen=True, slots=True)
class MarkedRecord:
    """A record with its personal data marked: in the text, and in every string beside it."""

    record: CorpusRecord
    document: Document
    beside: Mapping[Place, Document]
    """The strings of the record that are no part of its text, each as a document of its own."""

    def documents(self) -> list[Document]:
        """Return everything that is marked."""
        return [self.document, *self.beside.values()]


@dataclass(frozen=True, slots=True)
class MaskedRecord:
    """A record after scrubbing."""

    fields: dict[str, Any]
    text: str
    masked: Sequence[tuple[str, str]]
    """(string, label) of every piece of personal data that was masked."""
    kept: Sequence[str]
    """The labels of those that were not to be."""


def other_strings(record: CorpusRecord) -> dict[Place, str]:
    """Return the strings of a record that neither its text holds nor say how to read it."""
    content = record.content
    within = {piece.place for piece in content.pieces} | content.fixed
    within |= set(_copies(record))
    return {
        place: SURROGATE.sub("\ufffd", value)
        for place, value in json_strings(record.given)
        if value and place not in within and place[:1] not in content.fixed
    }


def json_strings(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield every string of a JSON value, with its place in it; names are none."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from json_strings(inner, (*place, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from json_strings(inner, (*place, number))


def mask_record(marked: MarkedRecord, written: Substitute, chosen: Chosen) -> MaskedRecord:
    """Return the record with what is to be masked in any string of it masked in all of them."""
    everywhere = _spread(marked, chosen)
    written = _as_marked(marked, written)
    changed, text, left = _within(marked.record, everywhere.document, written, chosen)
    same = {value: changed[place] for place, value in _texts(marked.record) if place in changed}
    for place, document in everywhere.beside.items():
        spans = [span for span in document.pii or () if chosen(span.label)]
        if spans:
            original = _at(marked.record.given, place)
            changed[place] = masking.rewrite_spans(original, spans, written)
        if (repeated := same.get(document.text)) is not None:
            changed[place] = repeated
    fields = _changed(marked.record.given, changed)
    if (name := marked.record.content.names.get("pii")) is not None:
        fields[name] = [{"start": s.start, "end": s.end, "label": s.label} for s in left]
    found = [pair for document in everywhere.documents() for pair in document.strings()]
    return MaskedRecord(
        fields=fields,
        text=text,
        masked=[(string.strip(), label) for string, label in found if chosen(label)],
        kept=[label for _, label in found if not chosen(label)],
    )


def readable_strings(record: CorpusRecord, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield everything of a scrubbed record in which personal data may still stand.

    Names of fields and numbers are left as they were; ids, tasks and groups are counted apart.
    """
    fixed = record.content.fixed
    for name, value in fields.items():
        if (name,) not in fixed:
            yield from [] if name.strip().casefold() in ALIASES else [name]
            yield from _scalars(value)


def names_masked_string(marked: MarkedRecord, chosen: Chosen) -> bool:
    """Tell whether a record's id, group or task holds what is masked in it, however spelt."""
    found = [pair for document in marked.documents() for pair in document.strings()]
    known = {normalize(string) for string, label in found if chosen(label)}
    sought = {form for string in known for form in (string, *forms(string)) if form}
    document = marked.document
    around = [value for value in (document.id, document.group, document.task) if value]
    read = "\n".join(
        form for value in around for form in (normalize(value), *folded_readings(value))
    )
    return any(form in read for form in sought)


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield name
            yield from _scalars(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _scalars(inner)
    elif value is not None and not isinstance(value, bool):
        yield SURROGATE.sub("\ufffd", str(value))


def _copies(record: CorpusRecord) -> dict[Place, str]:
    """Return the fields that repeat a part of the record's text, which it has of its own."""
    names, own = record.content.names, {piece.place for piece in record.content.pieces}
    fields = {(names[r],): getattr(record.document, r) for r in FIELDS if r in names}
    return {
        place: value
        for place, value in fields.items()
        if value and place not in own and value == record.given[place[0]]
        if value in record.content.text
    }


def _texts(record: CorpusRecord) -> Iterator[tuple[Place, str]]:
    yield from ((piece.place, piece.text) for piece in record.content.pieces if piece.place)
    yield from _copies(record).items()


def _spread(marked: MarkedRecord, chosen: Chosen) -> MarkedRecord:
    """Return the record with what is marked in any string of it marked in all of them.

    In its text a string counts as a word of its own: "Lee" is not in "Leeds".
    """
    known = {
        string.strip(): label
        for document in reversed(marked.documents())
        for string, label in document.strings()
        if chosen(label) and string.strip()
    }
    return replace(
        marked,
        document=_also(marked.document, known, whole=True),
        beside={place: _also(one, known, whole=False) for place, one in marked.beside.items()},
    )


def _also(document: Document, known: Mapping[str, str], *, whole: bool) -> Document:
    """Return a document with the strings that are known marked, where nothing else is."""
    text = document.text
    found = [
        (1.0, PiiSpan(start, end, known[string]))
        for string, start, end in (find_strings(known, text) if known else ())
        if not whole or _is_word(text, start, end)
    ]
    own = [(2.0, span) for span in document.pii or ()]
    return document.annotated(resolve([*own, *found]))


def _is_word(text: str, start: int, end: int) -> bool:
    return not any(
        0 < at < len(text)
        and text[at - 1].isalnum()
        and text[at].isalnum()
        and not _HAN.search(text[at - 1 : at + 1])
        for at in (start, end)
    )


def _as_marked(marked: MarkedRecord, written: Substitute) -> Substitute:
    """Return `written` for a record: another spelling of what is marked becomes what that does."""
    own = [pair for document in marked.documents() for pair in document.strings()]
    first = {(normalize(string), label): string.strip() for string, label in reversed(own)}

    def spelled(string: str, label: str) -> str:
        known = first.get((normalize(string), label))
        return written(string if known is None or (string, label) in own else known, label)

    return spelled


def _within(
    record: CorpusRecord, document: Document, written: Substitute, chosen: Chosen
) -> tuple[dict[Place, str], str, tuple[PiiSpan, ...]]:
    """Return the changed strings of the text and its copies, the text, and what is left marked."""
    pieces = record.content.pieces
    texts, left = masking.masked_pieces(document, pieces, written, chosen)
    changed = {piece.place: text for piece, text in zip(pieces, texts, strict=True) if piece.place}
    if copies := _copies(record):
        names = {name: role for role, name in record.content.names.items()}
        result = masking.mask_document(document, written, chosen)
        changed |= {(name,): getattr(result, names[str(name)]) for (name,) in copies}
    return changed, "".join(texts), left


def _at(value: Any, place: Place) -> str:
    for step in place:
        value = value[step]
    return str(value)


def _changed(value: Any, changed: Mapping[Place, str], place: Place = ()) -> Any:
    """Return a JSON value with other strings in some places."""
    if isinstance(value, Mapping):
        return {name: _changed(inner, changed, (*place, name)) for name, inner in value.items()}
    if isinstance(value, list):
        return [_changed(inner, changed, (*place, n)) for n, inner in enumerate(value)]
    return changed.get(place, value)
