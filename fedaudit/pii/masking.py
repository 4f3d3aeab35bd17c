"""Replaces personal data, in a record's text and in its fields alike."""

import hashlib
import hmac
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from fedaudit.api.records import Document, PiiSpan, TextPiece
from fedaudit.pii.normalized_search import find_strings
from fedaudit.pii.spans import resolve
from fedaudit.pii.surrogates import surrogate_like

Style = Literal["mask", "asterisks", "label", "pseudonym"]
"""[MASK]; asterisks of the same length; the label in angle brackets; something of the same kind."""

STYLES: tuple[str, ...] = get_args(Style)

Substitute = Callable[[str, str], str]
"""What stands in the place of a (string, label)."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """A replacement in a text: half-open, in code points."""

    start: int
    end: int
    label: str
    new: str


def substitution(style: Style, documents: Iterable[Document], key: str) -> Substitute:
    """Return the substitute of `style` for the personal data of `documents`.

    Only pseudonyms depend on the documents and on the key; equal strings of one label get equal
    ones. Whoever knows the key can test whom a pseudonym stands for.
    """
    if style == "pseudonym":
        pairs = (pair for document in documents for pair in document.strings())
        return partial(_looked_up, assign_pseudonyms(pairs, key=key))
    return {"mask": _mask, "asterisks": _asterisks, "label": _tag}[style]


def mask_document(
    document: Document,
    written: Substitute,
    chosen: Callable[[str], bool] = lambda label: True,
) -> Document:
    """Return `document` with `written` in the place of its personal data of the `chosen` labels.

    What stands in the text at a field's place stands in the field too. A field that is not in the
    text has every masked string replaced wherever it holds one, be it with other white space. The
    annotation that is left is of the labels that were not chosen.
    """
    text = document.text
    edits = [_edit(text, span, written) for span in document.pii or () if chosen(span.label)]

    def field(name: str) -> str:
        value = getattr(document, name)
        return _field(value, _field_offset(name, document), text, edits, written)

    return replace(
        document,
        text=_apply_edits(text, edits),
        instruction=field("instruction"),
        input=field("input"),
        output=field("output"),
        pii=_shift_spans([span for span in document.pii or () if not chosen(span.label)], edits),
    )


def masked_pieces(
    document: Document,
    pieces: Sequence[TextPiece],
    written: Substitute,
    chosen: Callable[[str], bool] = lambda label: True,
) -> tuple[list[str], tuple[PiiSpan, ...]]:
    """Return the pieces of a document's text masked, and the annotation that is left of it.

    What the template wrote between them stays, even in the middle of personal data.
    """
    offset, texts, edits = 0, [], []
    spans = [span for span in document.pii or () if chosen(span.label)]
    for piece in pieces:
        end = offset + len(piece.text)
        inside = [span for span in spans if piece.place and span.start < end and span.end > offset]
        clipped = [
            PiiSpan(max(0, span.start - offset), min(end, span.end) - offset, span.label)
            for span in inside
        ]
        new_edits = [_edit(piece.text, span, written) for span in clipped if span.start < span.end]
        texts.append(_apply_edits(piece.text, new_edits))
        edits += [
            replace(edit, start=edit.start + offset, end=edit.end + offset) for edit in new_edits
        ]
        offset = end
    remaining = [span for span in document.pii or () if not chosen(span.label)]
    return texts, _shift_spans(remaining, edits)


def rewrite_spans(text: str, spans: Iterable[PiiSpan], written: Substitute) -> str:
    """Return `text` with `written` in the place of `spans`, sorted and without overlap."""
    return _apply_edits(text, [_edit(text, span, written) for span in spans])


def _mask(_string: str, _label: str) -> str:
    return "[MASK]"


def _asterisks(string: str, _label: str) -> str:
    return "*" * len(string)


def _tag(_string: str, label: str) -> str:
    return f"<{label}>"


def _looked_up(table: dict[tuple[str, str], str], string: str, label: str) -> str:
    """Return a string's pseudonym, or the label for a piece of a string, which has none."""
    core = string.strip()
    if (core, label) not in table:
        return f"<{label}>"
    start = string.index(core)
    return string[:start] + table[core, label] + string[start + len(core) :]


def _edit(text: str, span: PiiSpan, written: Substitute) -> _Edit:
    new = written(text[span.start : span.end], span.label)
    return _Edit(span.start, span.end, span.label, new)


def _apply_edits(text: str, edits: Sequence[_Edit]) -> str:
    """Return `text` after `edits`, which are sorted and without overlap."""
    pieces, position = [], 0
    for edit in edits:
        pieces += [text[position : edit.start], edit.new]
        position = edit.end
    return "".join([*pieces, text[position:]])


def _shift_spans(spans: Sequence[PiiSpan], edits: Sequence[_Edit]) -> tuple[PiiSpan, ...]:
    """Return `spans` where they stand after `edits`; both are sorted, and none overlap."""
    moved, shift, following = [], 0, iter(edits)
    edit = next(following, None)
    for span in spans:
        while edit is not None and edit.end <= span.start:
            shift += len(edit.new) - (edit.end - edit.start)
            edit = next(following, None)
        moved.append(PiiSpan(span.start + shift, span.end + shift, span.label))
    return tuple(moved)


def _field_offset(name: str, document: Document) -> int:
    """Return where in the text a field stands: the output ends it, the input follows; -1 nowhere.

    A text need not have been made by a template that is known here.
    """
    text, value = document.text, getattr(document, name)
    if name == "output" and text.endswith(value):
        return len(text) - len(value)
    if name == "input":
        before = document.instruction
        after = text.find(value, max(0, text.find(before)) + len(before))
        return after if after >= 0 else text.find(value)
    return text.find(value)


def _field(value: str, start: int, text: str, edits: Sequence[_Edit], written: Substitute) -> str:
    """Return a field masked as the text is at its position.

    The same words may stand elsewhere in the text as well: what is personal data there is masked
    in the field too, since its place is only the likeliest one.
    """
    if not value or not edits:
        return value
    if start < 0:
        return _replace_masked(value, text, edits)
    candidates = {
        _clip_span(edit, start, len(value)) for edit in edits if _meets(edit, start, value)
    }
    repeat = text.find(value)
    while repeat >= 0:
        inside = (e for e in edits if repeat <= e.start and e.end <= repeat + len(value))
        candidates |= {PiiSpan(e.start - repeat, e.end - repeat, e.label) for e in inside}
        repeat = text.find(value, repeat + 1)
    spans = resolve((1.0, span) for span in candidates)
    return _apply_edits(value, [_edit(value, span, written) for span in spans])


def _meets(edit: _Edit, start: int, value: str) -> bool:
    return edit.start < start + len(value) and edit.end > start


def _clip_span(edit: _Edit, start: int, length: int) -> PiiSpan:
    return PiiSpan(max(0, edit.start - start), min(length, edit.end - start), edit.label)


def _replace_masked(value: str, text: str, edits: Sequence[_Edit]) -> str:
    """Return `value` with each masked string replaced, longer ones first, none twice.

    A field that is not in the text may spell the string differently: see `find_strings`.
    """
    edit_of = {text[edit.start : edit.end].strip(): edit for edit in edits}
    replacements = {
        PiiSpan(start, end, edit_of[string].label): edit_of[string].new.strip()
        for string, start, end in find_strings(edit_of, value)
    }
    spans = resolve((1.0, span) for span in replacements)
    return _apply_edits(value, [_Edit(s.start, s.end, s.label, replacements[s]) for s in spans])


ATTEMPTS = 50
"""How often something is invented before a label has to do."""

DIGITS = 8
"""Hexadecimal digits behind such a label: of a thousand strings two share theirs once in 8,600."""


def assign_pseudonyms(pairs: Iterable[tuple[str, str]], *, key: str) -> dict[tuple[str, str], str]:
    """Return a pseudonym for each (string, label) of a data set, without white space around it.

    None equals a string of the data set, of whatever label and case, and no two are equal, so what
    was told apart still is. What cannot be invented becomes a label with digits that follow from
    the key, such as <GENDER-7f3a2c91>. All follow from the string, its label and `key`; the order
    does not matter, and other strings only where two would have got the same pseudonym, or where
    one would be what another is.
    """
    distinct_pairs = sorted({(string.strip(), label) for string, label in pairs})
    reserved = {string.casefold() for string, _ in distinct_pairs}
    result = {}
    for string, label in distinct_pairs:
        new = _invent_unused(string, label, reserved, key) or _pseudonym(
            string, label, reserved, key
        )
        reserved.add(new.casefold())
        result[string, label] = new
    return result


def _invent_unused(string: str, label: str, reserved: set[str], key: str) -> str | None:
    """Return the first invention that is nobody's yet, if there is one."""
    for attempt in range(ATTEMPTS):
        new = surrogate_like(
            string, label, random.Random(_digest(key, label, string, str(attempt)))
        )
        if new is None:
            return None
        if new.casefold() not in reserved:
            return new
    return None


def _pseudonym(string: str, label: str, reserved: set[str], key: str) -> str:
    """Return the label with the first digits of a hash, more of them where those are taken.

    Counting up would reveal the alphabetical order, and depend on which strings there are.
    """
    digest = _digest(key, "tag", label, string).hex()
    tags = (f"<{label}-{digest[:size]}>" for size in range(DIGITS, len(digest) + 1))
    return next(tag for tag in tags if tag.casefold() not in reserved)


def _digest(key: str, *fields: str) -> bytes:
    """Return the HMAC-SHA256 of `fields`, which nobody can foretell who does not know `key`."""
    message = "\x00".join(fields).encode("utf-8", "surrogatepass")
    return hmac.digest(key.encode(), message, hashlib.sha256)
