"""The corpus format: one JSON record a line, streamed in, checked line by line."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedaudit.errors import InputError
from fedaudit.files import atomic_text
from fedaudit.prompts import PromptTemplate
from fedaudit.records import Document, PiiSpan

TEXT_FIELDS = ("text", "instruction", "input", "output", "task", "group")

_SURROGATE = re.compile("[\ud800-\udfff]")


def read(path: Path, template: PromptTemplate) -> Iterator[Document]:
    """Yield the documents of a JSONL file; those without `text` are rendered by `template`.

    Raises InputError naming file and line for anything that is not a record, and for a file
    without any. Blank lines are passed over; a byte-order mark and CRLF are accepted. A record
    without an id gets one from its content, so the order of the lines changes no id.
    """
    lines: dict[str, int] = {}
    copies: Counter[str] = Counter()
    for number, record in _records(path):
        where = f"{path}, line {number}"
        document = _document(record, template, where)
        if not _given_id(record, where):
            copies[document.id] += 1
            if (copy := copies[document.id]) > 1:
                document = replace(document, id=f"{document.id}-{copy}")
        if document.id in lines:
            raise InputError(
                f"{where}: id {document.id!r} stands in line {lines[document.id]} already; "
                "ids must differ."
            )
        lines[document.id] = number
        yield document
    if not lines:
        raise InputError(f"{path} holds no record; it needs one JSON object a line.")


def write(path: Path, documents: Iterable[Document]) -> None:
    """Write `documents` to `path` as JSONL, whole or not at all; only its owner can read it."""
    lines = (json.dumps(_record(d), ensure_ascii=False) + "\n" for d in documents)
    atomic_text(path, "".join(lines), mode=0o600)


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (line number, JSON object) of every line that is not blank."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"{path} is no regular file.")
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if text := _decoded(line, number, path).strip():
                    yield number, _parsed(text, number, path)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; a JSONL file is needed.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def _decoded(line: bytes, number: int, path: Path) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: not UTF-8 (byte {error.start + 1}); "
            "convert the file, with iconv for example."
        ) from None


def _parsed(text: str, number: int, path: Path) -> Mapping[str, Any]:
    try:
        record = json.loads(text)
    except RecursionError:
        raise InputError(f"{path}, line {number}: not JSON (nested too deeply).") from None
    except ValueError as error:  # JSONDecodeError, or a number of thousands of digits
        reason = getattr(error, "msg", "a number is too long")
        raise InputError(f"{path}, line {number}: not JSON ({reason}).") from None
    if not isinstance(record, dict):
        raise InputError(f"{path}, line {number}: a JSON object is needed, one a line.")
    return record


def _document(record: Mapping[str, Any], template: PromptTemplate, where: str) -> Document:
    fields: dict[str, Any] = {name: _string(record.get(name), name, where) for name in TEXT_FIELDS}
    prefix = _string(record.get("prefix"), "prefix", where)
    if prefix and (fields["text"] or fields["instruction"]):
        raise InputError(f"{where}: 'prefix' is a whole prompt, without 'text' or 'instruction'.")
    fields["text"] = fields["text"] or prefix
    if not (fields["text"] or fields["instruction"]):
        raise InputError(
            f"{where}: a record needs 'text', 'instruction' and 'output', or 'prefix'."
        )
    identity = _given_id(record, where) or _derived_id(record)
    document = template.render(Document(id=identity, **fields, is_prompt=bool(prefix)))
    return replace(document, pii=_spans(record, document, where))


def _string(value: Any, name: str, where: str) -> str:
    """Return a field's text, empty when it is absent or null."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{where}: {name!r} must be a string.")
    if _SURROGATE.search(value):
        raise InputError(f"{where}: {name!r} holds half a surrogate pair, which is no text.")
    return value


def _given_id(record: Mapping[str, Any], where: str) -> str:
    """Return the record's own id, a number as text; empty when it has none."""
    value = record.get("id")
    return str(value) if type(value) is int else _string(value, "id", where)


def _derived_id(record: Mapping[str, Any]) -> str:
    text = json.dumps({**record, "pii": None}, sort_keys=True)
    return f"sha-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _spans(record: Mapping[str, Any], document: Document, where: str) -> tuple[PiiSpan, ...] | None:
    """Return the record's annotation, sorted; None when it has none."""
    given = record.get("pii")
    if given is None:
        return None
    if not isinstance(given, list):
        raise InputError(f"{where}: 'pii' must be a list of spans.")
    spans = sorted(_span(item, len(document.text), where) for item in given)
    for before, after in pairwise(spans):
        if after.start < before.end:
            raise InputError(
                f"{where}: the PII spans {before.start}-{before.end} and "
                f"{after.start}-{after.end} overlap."
            )
    return tuple(spans)


def _span(item: Any, length: int, where: str) -> PiiSpan:
    start, end, label = (
        (item.get(key) for key in ("start", "end", "label"))
        if isinstance(item, dict)
        else (None, None, None)
    )
    if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label:
        raise InputError(f"{where}: a PII span needs 'start' and 'end' (numbers) and 'label'.")
    if not 0 <= start < end <= length:
        raise InputError(
            f"{where}: the PII span {start}-{end} is not inside the text of {length} characters."
        )
    return PiiSpan(start, end, _string(label, "label", where))


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
