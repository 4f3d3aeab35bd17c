"""Masking the personal data in all strings of one record, whatever its fields are."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedaudit.api.records import Document, PiiSpan, Place
from fedaudit.data import annotated_spans
from fedaudit.data.conversation import SURROGATE
from fedaudit.data.corpus import CorpusRecord
from fedaudit.data.formats import ALIASES
from fedaudit.pii import masking
from fedaudit.pii.everyday_words import everyday_words
from fedaudit.pii.field_names import label_of_value, shown_name
from fedaudit.pii.masking import Substitute
from fedaudit.pii.normalized_search import find_strings, normalize
from fedaudit.pii.spans import cuts_word, resolve
from fedaudit.pii.spellings import decodings, forms, readings
from fedaudit.pii.taxonomy import category

FIELDS = ("instruction", "input", "output")
_JOINTS = re.compile(r"^(?:##|[▁Ġ])|(?:@@|</w>)$|\s+")
"""What tokenizers add to pieces of words, and white space."""
_CONTINUED, _WORD_BORDER = re.compile(r" ##|@@ "), re.compile(r"[▁Ġ]|</w>")
_NAME_WORDS = re.compile(r"[^\W\d_]+(?:[-'’‐‑][^\W\d_]+)*\.?(?P<comma>,)?")
_SHORTEST_PART, _MOST_PARTS = 4, 5
"""Letters of a part of a name that is looked for alone, and words of a string that is a name."""
_LONGEST_ITEM = 100
"""Characters of the longest item of a list that may be a part of a text."""
Chosen = Callable[[str], bool]
"""Whether a label is to be masked."""


@dataclass(frozen=True, slots=True)
class MarkedRecord:
    """A record with its personal data marked: in the text, and in every string beside it."""

    record: CorpusRecord
    document: Document
    other_strings: Mapping[Place, Document]
    """The strings of the record that are not part of its text, each as a document of its own."""

    def documents(self) -> list[Document]:
        """Return everything that is marked."""
        return [self.document, *self.other_strings.values()]


@dataclass(frozen=True, slots=True)
class MaskedRecord:
    """A record after scrubbing."""

    fields: dict[str, Any]
    text: str
    masked: Sequence[tuple[str, str]]
    """(string, label) of every piece of personal data that was masked."""
    kept_labels: Sequence[str]
    """The labels of the pieces that were not to be masked."""


def other_strings(record: CorpusRecord) -> dict[Place, str]:
    """Return the strings of a record outside its text, but for ids, tasks, groups and speakers."""
    content = record.content
    within = {piece.place for piece in content.pieces} | content.fixed
    within |= set(_copies(record))
    return {
        key_path: SURROGATE.sub("\ufffd", value)
        for key_path, value in json_strings(record.fields)
        if value and key_path not in within and key_path[:1] not in content.fixed
    }


def personal_numbers(record: CorpusRecord, chosen: Chosen) -> Iterator[str]:
    """Yield the names of fields that say their value is personal, and have a number, not text."""
    for key_path, number in _numbers(record.fields):
        names = [step for step in key_path if isinstance(step, str)]
        if key_path[:1] not in record.content.fixed and names:
            label = label_of_value(names, number)
            if label is not None and chosen(label):
                yield ".".join(map(shown_name, names))


def _numbers(value: Any, key_path: Place = ()) -> Iterator[tuple[Place, str]]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield key_path, str(value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _numbers(inner, (*key_path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _numbers(inner, (*key_path, number))


def quotations(value: Any, key_path: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield where a JSON value quotes personal data with its label, and the label."""
    if (quoted := annotated_spans.quotation(value)) is not None:
        yield (*key_path, quoted[0]), quoted[1]
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from quotations(inner, (*key_path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from quotations(inner, (*key_path, number))


def with_field_name(key_path: Place, document: Document, label: str | None = None) -> Document:
    """Return a string of a record marked as `label`, or as what the name of its field says."""
    text = document.text.strip()
    label = label or label_of_value([step for step in key_path if isinstance(step, str)], text)
    if label is None:
        return document
    start = document.text.index(text)
    span = PiiSpan(start, start + len(text), label)
    given = [(1.0, span) for span in document.pii or ()]
    return document.annotated(resolve([(2.0, span), *given]))


def with_parts_of_names(marked: MarkedRecord) -> MarkedRecord:
    """Return the record with its people marked where a part of their name stands for them.

    That is a surname in the text, and a first name too in other strings. What is an everyday word
    as well may be just that. In a value of one word, as in a file's name, case does not matter.
    """
    surnames, parts = dict[str, str](), dict[str, str]()
    names = dict[str, str]()
    for document in marked.documents():
        for string, label in document.strings():
            words = list(_NAME_WORDS.finditer(string))
            if 1 < len(words) <= _MOST_PARTS and _is_name(label):
                names.setdefault(string.strip(), label)
                last = next((word for word in words if word["comma"]), words[-1])
                for word in words:
                    part = word[0].rstrip(",")
                    if _stands_for_a_person(part):
                        parts.setdefault(part, label)
                        surnames |= {part: label} if word == last else {}
    if not parts:
        return marked
    small = {part.casefold(): label for part, label in (parts | names).items()}
    others = {
        key_path: _also(document, parts | names, whole_words=True)
        if re.search(r"\s", document.text)
        else _also(document, small, whole_words=True, folded=document.text.lower())
        for key_path, document in marked.other_strings.items()
    }
    # Masking a part of an encoded name would hide from the last search that the rest is left.
    others |= {
        key_path: document
        for key_path, document in marked.other_strings.items()
        if any(name in said for said in _encoded(document.text) for name in names)
    }
    text = _also(marked.document, surnames | names, whole_words=True)
    return replace(marked, document=text, other_strings=others)


def _encoded(text: str) -> list[str]:
    """Return what a text says only once it is decoded."""
    return [said for said in decodings(text) if said != text]


def _is_name(label: str) -> bool:
    known = category(label)
    return known is not None and known.name == "Name"


def _stands_for_a_person(word: str) -> bool:
    """Tell whether a word of a name, long enough and with a capital, means nothing else."""
    is_part = len(word) >= _SHORTEST_PART and word[0].isupper() and not word.endswith(".")
    return is_part and word.casefold() not in everyday_words()


def json_strings(value: Any, key_path: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield every string of a JSON value with its key path; names of fields are left out."""
    if isinstance(value, str):
        yield key_path, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from json_strings(inner, (*key_path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from json_strings(inner, (*key_path, number))


def field_names(value: Any) -> Iterator[str]:
    """Yield the names of all fields in a JSON value."""
    if isinstance(value, Mapping):
        yield from value
    if isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from field_names(inner)


def mask_record(marked: MarkedRecord, written: Substitute, chosen: Chosen) -> MaskedRecord:
    """Return the record with whatever is to be masked in one of its strings masked in all."""
    everywhere = _spread(marked, chosen)
    written = _as_marked(marked, written)
    changed, text, remaining = _mask_text(marked.record, everywhere.document, written, chosen)
    same = {
        value: changed[key_path] for key_path, value in _texts(marked.record) if key_path in changed
    }
    in_lists = _over_items(everywhere, chosen)
    for key_path, document in everywhere.other_strings.items():
        spans = [span for span in document.pii or () if chosen(span.label)]
        if parts := in_lists.get(key_path):
            spans = list(resolve([*((2.0, span) for span in spans), *((1.0, s) for s in parts)]))
        if spans:
            original = _value_at(marked.record.fields, key_path)
            changed[key_path] = masking.rewrite_spans(original, spans, written)
        if (repeated := same.get(document.text)) is not None:
            changed[key_path] = repeated
    fields = _set_strings(marked.record.fields, changed)
    if (name := marked.record.content.names.get("pii")) is not None:
        fields[name] = [{"start": s.start, "end": s.end, "label": s.label} for s in remaining]
    pairs = [pair for document in everywhere.documents() for pair in document.strings()]
    return MaskedRecord(
        fields=fields,
        text=text,
        masked=[(string.strip(), label) for string, label in pairs if chosen(label)],
        kept_labels=[label for _, label in pairs if not chosen(label)],
    )


def readable_strings(record: CorpusRecord, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield all parts of a scrubbed record in which personal data may remain.

    Field names and numbers were not masked; ids, tasks and groups are counted separately. What
    the items of a list say together is a part too.
    """
    fixed = record.content.fixed
    for name, value in fields.items():
        if (name,) not in fixed:
            yield from [] if name.strip().casefold() in ALIASES else [name]
            yield from _scalars(value)
    for items in _lists(dict(json_strings(fields))):
        strings = [item for _, item in items]
        yield _CONTINUED.sub("", " ".join(strings))
        yield _WORD_BORDER.sub(" ", "".join(strings))


def names_masked_string(marked: MarkedRecord, chosen: Chosen) -> bool:
    """Tell whether a record's id, group or task contains a string masked in it, however spelt."""
    pairs = [pair for document in marked.documents() for pair in document.strings()]
    masked_strings = {normalize(string) for string, label in pairs if chosen(label)}
    sought = {form for string in masked_strings for form in (string, *forms(string)) if form}
    given = marked.record.content.names  # a record without an id is called by its digest
    fields = (getattr(marked.document, f) for f in ("id", "group", "task") if f in given)
    around = [value for value in fields if value]
    read = "\n".join(form for value in around for form in (normalize(value), *readings(value)))
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
    """Return the fields beside a record's text that repeat a part of it."""
    names, piece_paths = record.content.names, {piece.place for piece in record.content.pieces}
    fields = {(names[r],): getattr(record.document, r) for r in FIELDS if r in names}
    return {
        key_path: value
        for key_path, value in fields.items()
        if value and key_path not in piece_paths and value == record.fields[key_path[0]]
        if value in record.content.text
    }


def _texts(record: CorpusRecord) -> Iterator[tuple[Place, str]]:
    yield from ((piece.place, piece.text) for piece in record.content.pieces if piece.place)
    yield from _copies(record).items()


def _spread(marked: MarkedRecord, chosen: Chosen) -> MarkedRecord:
    """Return the record with whatever is marked in one of its strings marked in all.

    In its text only whole words count: "Lee" is not in "Leeds".
    """
    labels = {
        string.strip(): label
        for document in reversed(marked.documents())
        for string, label in document.strings()
        if chosen(label) and string.strip()
    }
    return replace(
        marked,
        document=_also(marked.document, labels, whole_words=True),
        other_strings={
            key_path: _also(document, labels, whole_words=False)
            for key_path, document in marked.other_strings.items()
        },
    )


def _also(
    document: Document, labels: Mapping[str, str], *, whole_words: bool, folded: str = ""
) -> Document:
    """Return a document with the strings of `labels` marked too, where no span is yet.

    A surname that is an everyday word as well is marked only where it is the whole text: May.
    """
    text = document.text
    read = folded if len(folded) == len(text) else text
    matches = [
        (1.0, PiiSpan(start, end, labels[string]))
        for string, start, end in (find_strings(labels, read) if labels else ())
        if not whole_words or (not (cuts_word(text, start) or cuts_word(text, end)))
        if text[start:end] == text.strip() or not _is_everyday(string, labels[string])
    ]
    existing = [(2.0, span) for span in document.pii or ()]
    return document.annotated(resolve([*existing, *matches]))


def _is_everyday(string: str, label: str) -> bool:
    return _is_name(label) and string.casefold() in everyday_words()


def _lists(strings: Mapping[Place, str]) -> Iterator[list[tuple[Place, str]]]:
    """Yield the short strings that stand at one place of the elements of a list, in order."""
    lists: dict[Place, list[tuple[Place, str]]] = defaultdict(list)
    for key_path, string in strings.items():
        depth = next((i for i, step in enumerate(reversed(key_path), 1) if type(step) is int), 0)
        if depth and len(string) <= _LONGEST_ITEM:
            rest = key_path[len(key_path) - depth + 1 :]
            lists[*key_path[: len(key_path) - depth], "", *rest].append((key_path, string))
    yield from (items for items in lists.values() if len(items) > 1)


def _over_items(marked: MarkedRecord, chosen: Chosen) -> dict[Place, list[PiiSpan]]:
    """Return the parts of marked strings in the items of lists, as in a text's list of tokens."""
    pairs = [pair for document in marked.documents() for pair in document.strings()]
    labels = {"".join(string.split()): label for string, label in pairs if chosen(label)}
    texts = {key_path: document.text for key_path, document in marked.other_strings.items()}
    spans: dict[Place, list[PiiSpan]] = defaultdict(list)
    for items in _lists(texts) if labels else ():
        places: list[tuple[Place, int]] = []
        for key_path, item in items:
            left_out = {n for match in _JOINTS.finditer(item) for n in range(*match.span())}
            places += [(key_path, n) for n in range(len(item)) if n not in left_out]
        joined = "".join(texts[key_path][n] for key_path, n in places)
        for string, start, end in find_strings(labels, joined):
            (first, begin), (last, stop) = places[start], places[end - 1]
            if first == last or cuts_word(texts[first], begin) or cuts_word(texts[last], stop + 1):
                continue
            for key_path in dict.fromkeys(key_path for key_path, _ in places[start:end]):
                bounds = [n for path, n in places[start:end] if path == key_path]
                spans[key_path].append(PiiSpan(bounds[0], bounds[-1] + 1, labels[string]))
    return spans


def _as_marked(marked: MarkedRecord, written: Substitute) -> Substitute:
    """Return `written` for a record: other spellings of a marked string get its substitute."""
    pairs = [pair for document in marked.documents() for pair in document.strings()]
    first = {(normalize(string), label): string.strip() for string, label in reversed(pairs)}

    def spelled(string: str, label: str) -> str:
        spelling = first.get((normalize(string), label))
        return written(string if spelling is None or (string, label) in pairs else spelling, label)

    return spelled


def _mask_text(
    record: CorpusRecord, document: Document, written: Substitute, chosen: Chosen
) -> tuple[dict[Place, str], str, tuple[PiiSpan, ...]]:
    """Return the changed strings of the text and its copies, the text, and the remaining spans."""
    pieces = record.content.pieces
    texts, remaining = masking.masked_pieces(document, pieces, written, chosen)
    changed = {piece.place: text for piece, text in zip(pieces, texts, strict=True) if piece.place}
    if copies := _copies(record):
        names = {name: role for role, name in record.content.names.items()}
        result = masking.mask_document(document, written, chosen)
        changed |= {(name,): getattr(result, names[str(name)]) for (name,) in copies}
    return changed, "".join(texts), remaining


def _value_at(value: Any, key_path: Place) -> str:
    for step in key_path:
        value = value[step]
    return str(value)


def _set_strings(value: Any, changed: Mapping[Place, str], key_path: Place = ()) -> Any:
    """Return a JSON value with the strings of `changed` at their key paths."""
    if isinstance(value, Mapping):
        return {
            name: _set_strings(inner, changed, (*key_path, name)) for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_set_strings(inner, changed, (*key_path, n)) for n, inner in enumerate(value)]
    return changed.get(key_path, value) if isinstance(value, str) else value  # null stays
