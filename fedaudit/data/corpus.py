"""The corpus format: one JSON record a line, streamed in, checked line by line."""

import codecs
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document, PiiSpan
from fedaudit.api.templates import PromptTemplate
from fedaudit.data import annotated_spans, formats, tables
from fedaudit.data.conversation import text_of
from fedaudit.data.formats import RecordContent
from fedaudit.pii.field_names import shown_name
from fedaudit.pii.spans import cuts_word
from fedaudit.system.documents import LARGEST_DOCUMENT, check_size
from fedaudit.system.files import atomic_text, existing_path, open_regular

TEXT_FIELDS = ("text", "instruction", "input", "output", "task", "group")

BLANK = b"\xef\xbb\xbf \t\r\n"
"""Bytes beside records: a byte-order mark and white space."""

DERIVED = re.compile(r"sha-[0-9a-f]{12}(?:-\d+)?")
"""The id of a record that came without one: a hash of its content, by which guesses can be tested.

It is for this process, and for files that hold the content too; no report has it.
"""

BLOCK = 2**20
"""Bytes of an array that are read at once."""
_WHITE_SPACE = re.compile(r"[ \t\n\r]*")
LONGEST_LOOK = 2**16
"""Bytes of a line that are read to tell records from an array."""

CONTENT = frozenset(
    name for name, role in formats.ALIASES.items() if role in {"text", "prefix", "turns"}
) | {"instruction", "prompt", "question", "chosen"}
"""Names of fields of which a record has at least one."""

EMPTY = "id"
"""The key under which records without any text are counted, beside the names of unread fields:
the id is always read."""

LONGEST_TEXT = 2**20
"""Characters of the longest text that a model is asked about: a tokenizer takes some 500 bytes for
each of them."""
MOST_NESTED = 200
"""The deepest nesting of a record."""
MAX_LISTED = 12
"""The most fields that are named as not read."""


@dataclass(frozen=True, slots=True)
class CorpusRecord:
    """A record as it stands in its file, and what it says."""

    fields: Mapping[str, Any]
    content: RecordContent
    document: Document
    position: str
    """Its file and line."""


OpenFile = Callable[[Path], BinaryIO]
"""Opens a file of records, as `open_regular` does."""


def read(
    path: Path,
    template: PromptTemplate,
    unread: Counter[str] | None = None,
    open_file: OpenFile = open_regular,
) -> Iterator[Document]:
    """Yield the documents of a file of records; those without `text` are rendered by `template`.

    Raises InputError naming file and line for anything that is not a record, and for a file
    without any. Blank lines are passed over; a byte-order mark and CRLF are accepted. A record
    without an id gets one from its content, so the order of the lines changes no id. `unread`
    counts the records that have an unknown field, by its name. A text of over LONGEST_TEXT
    characters is refused.
    """
    for record in read_records(path, template, unread, open_file):
        if unread is not None:
            unread.update(set(record.content.unread))
        if len(record.document.text) > LONGEST_TEXT:
            raise InputError(
                f"{record.position} has a text of {len(record.document.text):,} characters; "
                f"{LONGEST_TEXT:,} are read at most: cut it into records."
            )
        yield record.document


def read_records(
    path: Path,
    template: PromptTemplate,
    unread: Counter[str] | None = None,
    open_file: OpenFile = open_regular,
) -> Iterator[CorpusRecord]:
    """Yield the records that `read` takes its documents from; `unread` counts empty ones only."""
    lines: dict[str, str] = {}
    empty: InputError | None = None
    copies: Counter[str] = Counter()
    for position, fields in read_objects(path, open_file):
        where = f"{path}, {position}"
        try:
            content = formats.content(fields, template, where)
        except formats.EmptyRecordError as error:
            empty = empty or error
            if unread is not None:
                unread[EMPTY] += 1
            continue
        document = _document(fields, content, where)
        if not _given_id(fields, content, where):
            copies[document.id] += 1
            if (copy := copies[document.id]) > 1:
                document = replace(document, id=f"{document.id}-{copy}")
        if document.id in lines:
            raise InputError(
                f"{where}: the id of this record stands in {lines[document.id]} already; "
                "ids must differ."
            )
        lines[document.id] = position
        yield CorpusRecord(fields, content, document, where)
    if not lines and empty:
        raise empty
    if not lines:
        raise InputError(f"{path} holds no record; it needs one JSON object a line.")


def existing_file(path: Path, needed: str = "a JSONL file") -> Path:
    """Return the path of a file of records, or of what else is `needed`.

    Raises InputError where there is no regular file.
    """
    if not existing_path(path, "file").is_file():
        kind = "a folder" if path.is_dir() else "no regular file"
        raise InputError(f"{path} is {kind}; {needed} is needed.")
    return path


def parse_document(fields: Mapping[str, Any], template: PromptTemplate, where: str) -> Document:
    """Return the document of one record, as `read` would; `where` names it in errors."""
    return _document(fields, formats.content(fields, template, where), where)


def unread_caveat(path: Path, unread: Mapping[str, int]) -> list[str]:
    """Return lines on the empty records and the fields of a file that were not read, if any."""
    named = sorted((name, n) for name, n in unread.items() if name != EMPTY)
    listed = [f"{name!r} ({n:,} record{'s' * (n != 1)})" for name, n in named]
    names = ", ".join(listed[:MAX_LISTED])
    if len(listed) > MAX_LISTED:
        names += f" and {len(listed) - MAX_LISTED} more"
    return [
        *empty_caveat(path, unread),
        *[f"{path.name} has fields that are not read: {names}"] * bool(listed),
    ]


def empty_caveat(path: Path, unread: Mapping[str, int]) -> list[str]:
    """Return a line on the records of a file without any text, if there are some."""
    number = unread.get(EMPTY, 0)
    text = f"{path.name} has {number:,} record{'s' * (number != 1)} without any text, left out"
    return [text] * bool(number)


def cut_spans(document: Document) -> int:
    """Return how many spans of a document begin or end inside a word."""
    text = document.text
    return sum(
        cuts_word(text, span.start) or cuts_word(text, span.end) for span in document.pii or ()
    )


def cut_caveat(path: Path, documents: Iterable[Document]) -> list[str]:
    """Return a line on annotated spans that begin or end inside a word; none where none does."""
    known = list(documents)
    spans = sum(len(document.pii or ()) for document in known)
    cut = sum(map(cut_spans, known))
    verbs = ("begins or ends", "its") if cut == 1 else ("begin or end", "their")
    return [
        f"{path.name}: {cut:,} of {spans:,} annotated spans {verbs[0]} inside a word; check "
        f"{verbs[1]} offsets"
    ] * bool(cut)


def write(path: Path, documents: Iterable[Document]) -> None:
    """Write `documents` to `path` as JSONL, whole or not at all; only its owner can read it."""
    write_fields(path, map(_record, documents))


def write_fields(path: Path, fields: Iterable[Mapping[str, Any]], *, array: bool = False) -> None:
    """Write JSON objects to `path` as JSONL or as one array, whole or not at all, for its owner."""
    lines = map(tables.json_text, fields)
    text = "".join(
        ["[\n", ",\n".join(lines), "\n]\n"] if array else [f"{line}\n" for line in lines]
    )
    atomic_text(path, text, mode=0o600)


def is_array(path: Path) -> bool:
    """Tell whether a file is one JSON array of records, as Shepherd writes it."""
    with open_regular(path) as file:
        return _is_array(file)


def _is_array(file: BinaryIO) -> bool:
    lines = iter(lambda: file.readline(LONGEST_LOOK), b"")
    first = next((line for line in lines if line.strip(BLANK)), b"")
    file.seek(0)
    return first.lstrip(BLANK).startswith(b"[")


def is_empty(path: Path, open_file: OpenFile = open_regular) -> bool:
    """Tell whether a file holds nothing but blank lines."""
    with open_file(path) as file:
        return not any(chunk.strip(BLANK) for chunk in iter(lambda: file.read(2**20), b""))


def read_objects(
    path: Path, open_file: OpenFile = open_regular
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (where it stands, JSON object) of every record: a line, an array's element, a row."""
    try:
        with open_file(path) as file:
            tables.check_uncompressed(path, file)
            if tables.is_csv(path):
                rows = tables.read_csv(path, file)
            elif tables.is_parquet(file):
                rows = tables.read_parquet(path, file)
            else:
                rows = _elements(path, file) if _is_array(file) else _objects(path, file)
            for position, fields in rows:
                _check_depth(fields, f"{path}, {position}")
                yield position, fields
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; a JSONL file is needed.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def _check_depth(fields: Mapping[str, Any], where: str) -> None:
    """Refuse a record that recursive functions could not walk through."""
    level: list[Any] = [fields]
    for _ in range(MOST_NESTED):
        lists = (value.values() if isinstance(value, Mapping) else value for value in level)
        level = [one for values in lists for one in values if isinstance(one, Mapping | list)]
        if not level:
            return
    raise InputError(f"{where}: nested too deeply; {MOST_NESTED} levels are read at most.")


def _objects(path: Path, file: BinaryIO) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a JSONL file, or the one object that a file holds on several lines.

    An object alone that holds nothing but a list of records is read as that list.
    """
    lines = iter(lambda: file.readline(LONGEST_LOOK), b"")
    first = next((line for line in lines if line.strip(BLANK)), b"")
    file.seek(0)
    begun = first.strip(BLANK)
    is_line = _is_json(begun)
    if not begun.startswith(b"{") or (is_line and not _lists_of_records(json.loads(begun))):
        yield from _records(path, file)
        return
    text = _UnparsedText(path, file)
    try:
        value = text.parse_value(str(path))
        rest = text.next_character()
    except InputError:
        value, rest = None, "?"
    file.seek(0)
    if value is not None and not rest:
        lists = _lists_of_records(value)
        if lists and len(value) > 1:
            raise InputError(
                f"{path}: the records are in {shown_name(lists[0])!r} beside other fields, which "
                "would be lost; write one object a line, or an array."
            )
        for number, record in enumerate(value[lists[0]] if lists else [value], start=1):
            yield f"record {number}", record
    elif value is not None and first.endswith(b"\n") and not is_line:
        raise InputError(
            f"{path}: a JSON object goes over several lines; write one object a line, or an array."
        )
    else:
        yield from _records(path, file)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _lists_of_records(value: Any) -> list[str]:
    """Return the keys under which an object, not itself a record, holds lists of objects."""
    if not isinstance(value, dict) or any(name.strip().casefold() in CONTENT for name in value):
        return []
    return [
        name
        for name, inner in value.items()
        if isinstance(inner, list) and inner and all(isinstance(one, dict) for one in inner)
    ]


def _records(path: Path, file: BinaryIO) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(_lines(file, path), start=1):
        if text := _decode_line(line, number, path).strip():
            yield f"line {number}", _parse_record(text, f"{path}, line {number}")


def _elements(path: Path, file: BinaryIO) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the elements of an array, of which only one at a time is in memory."""
    text, number = _UnparsedText(path, file), 0
    text.expect("[", "")
    while text.next_character() != "]":
        number += 1
        where = f"{path}, record {number}"
        if number > 1:
            text.expect(",", where)
        yield f"record {number}", _object(text.parse_value(where), where)
    text.expect("]", "")
    text.expect("", "")


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the lines of a file; raises InputError for one that is too large to be a record."""
    number = 0
    while line := file.readline(LARGEST_DOCUMENT + 1):
        number += 1
        check_size(line, f"{path}, line {number}")
        yield line


def _decode_line(line: bytes, number: int, path: Path) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: not UTF-8 (byte {error.start + 1}); "
            "convert the file, with iconv for example."
        ) from None


class _UnparsedText:
    """The text of a file of JSON, of which only what is not yet parsed is in memory."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file, self._lines = path, file, 1
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._position = "", 0

    def next_character(self) -> str:
        """Return the next character that is not white space; empty at the end of the file."""
        while True:
            blank = _WHITE_SPACE.match(self._text, self._position)
            self._position = blank.end() if blank else self._position
            if self._position < len(self._text) or not self._read_more(str(self._path)):
                return self._text[self._position : self._position + 1]

    def expect(self, character: str, where: str) -> None:
        """Step over the next character; raises InputError unless it is this one."""
        if self.next_character() != character:
            needed = f"{character!r} is missing" if character else "text behind the array"
            raise InputError(f"{where or self._path}: not JSON ({needed}).")
        self._position += len(character)

    def parse_value(self, where: str) -> Any:
        """Step over a value and return it; `where` names it in errors."""
        with _json_errors(where):
            self.next_character()
            decoder = json.JSONDecoder(**_hooks(where))
            while True:
                try:
                    value, self._position = decoder.raw_decode(self._text, self._position)
                    return value
                except ValueError:  # it may be cut off
                    if not self._read_more(where):
                        raise

    def _read_more(self, where: str) -> bool:
        """Read as much again as there is, so that a long value is parsed a few times only."""
        kept = self._text[self._position :]
        block = self._file.read(max(BLOCK, len(kept)))
        try:
            text = self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            line = self._lines + error.object[: error.start].count(b"\n")
            raise InputError(
                f"{self._path}, line {line}: not UTF-8; convert the file, with iconv for example."
            ) from None
        self._lines += text.count("\n")
        self._text, self._position = kept + text, 0
        if kept:
            check_size(self._text, where)
        return bool(block)


def _parse_record(text: str, where: str) -> Mapping[str, Any]:
    return _object(_parse_json(text, where), where)


def _parse_json(text: str, where: str) -> Any:
    with _json_errors(where):
        return json.loads(text, **_hooks(where))


def _hooks(where: str) -> dict[str, Any]:
    return {
        "object_pairs_hook": partial(_unique_object, where),
        "parse_constant": _no_constant,
        "parse_float": _finite,
    }


@contextmanager
def _json_errors(where: str) -> Iterator[None]:
    """Raise InputError, naming `where`, for what is not JSON."""
    try:
        yield
    except OverflowError:
        raise InputError(f"{where}: not JSON (NaN, Infinity or a number beyond 1e308).") from None
    except RecursionError:
        raise InputError(f"{where}: not JSON (nested too deeply).") from None
    except ValueError as error:  # JSONDecodeError, or a number of thousands of digits
        reason = getattr(error, "msg", "a number is too long")
        raise InputError(f"{where}: not JSON ({reason}).") from None


def _no_constant(_name: str) -> float:
    raise OverflowError


def _finite(digits: str) -> float:
    """Return a number; one that would be written as Infinity is refused."""
    if math.isinf(number := float(digits)):
        raise OverflowError
    return number


def _unique_object(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; one with a repeated name is refused: a value would be lost."""
    result = dict(pairs)
    if len(result) < len(pairs):
        names = Counter(name for name, _ in pairs)
        name = shown_name(names.most_common(1)[0][0])
        raise InputError(f"{where}: {name!r} stands twice in one object.")
    return result


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: a JSON object is needed, one a line.")
    return value


def _document(fields: Mapping[str, Any], content: RecordContent, where: str) -> Document:
    identity = _given_id(fields, content, where) or _derived_id(fields, content)
    document = Document(
        id=identity,
        text=content.text,
        instruction=content.fields["instruction"],
        input=content.fields["input"],
        output=content.fields["output"],
        task=content.fields["task"],
        group=content.fields["group"],
        is_prompt=content.is_prompt,
    )
    return replace(document, pii=_spans(fields, document, content, where))


def _given_id(fields: Mapping[str, Any], content: RecordContent, where: str) -> str:
    """Return the record's own id, a number as text; empty when it has none."""
    value = fields.get(content.names.get("id", "id"))
    return str(value) if type(value) in (int, float) else text_of(value, "id", where)


def _derived_id(fields: Mapping[str, Any], content: RecordContent) -> str:
    bare = {name: value for name, value in fields.items() if name != content.names.get("pii")}
    text = json.dumps({**bare, "pii": None}, sort_keys=True)
    return f"sha-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _spans(
    fields: Mapping[str, Any], document: Document, content: RecordContent, where: str
) -> tuple[PiiSpan, ...] | None:
    """Return the record's annotation, sorted; None when it has none."""
    name = content.names.get("pii", "pii")
    if (annotation := annotated_spans.parse(fields.get(name))) is None:
        return None
    if formats.ALIASES.get(name.strip().casefold()) and not isinstance(annotation, list):
        raise InputError(f"{where}: 'pii' must be a list of spans.")
    tokens = (value for key, value in fields.items() if key in annotated_spans.TOKENS)
    if any(annotated_spans.counts_tokens(annotation, one, document.text) for one in tokens):
        raise InputError(
            f"{where}: {name!r} counts words rather than characters; write offsets of the text."
        )
    spans = annotated_spans.read_spans(annotation, document.text, where)
    for span in spans:
        if not content.holds(span):
            raise InputError(
                f"{where}: the PII span {span.start}-{span.end} lies in what the template writes; "
                "offsets count in the rendered text."
            )
    return spans


def _record(document: Document) -> dict[str, Any]:
    """Return `document` as the JSON object that `read` would read it from."""
    fields = {name: getattr(document, name) for name in TEXT_FIELDS if getattr(document, name)}
    if document.is_prompt:
        fields["prefix"] = fields.pop("text")
    record: dict[str, Any] = {"id": document.id, **fields}
    if document.pii is not None:
        record["pii"] = [
            {"start": span.start, "end": span.end, "label": span.label} for span in document.pii
        ]
    return record
