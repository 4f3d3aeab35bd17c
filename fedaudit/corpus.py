"""The corpus format: one JSON record a line, streamed in, checked line by line."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedaudit.errors import InputError
from fedaudit.files import atomic_text
from fedaudit.prompts import PromptTemplate
from fedaudit.records import Document, PiiSpan

TEXT_FIELDS = ("text", "instruction", "input", "output", "task", "group", "prefix")


def read(path: Path, template: PromptTemplate) -> Iterator[Document]:
    """Yield the documents of a JSONL file; those without `text` are rendered by `template`.

    Raises InputError naming file and line for anything that is not a record, and for a file
    without any. Blank lines are passed over; a byte-order mark and CRLF are accepted.
    """
    lines: dict[str, int] = {}
    for number, record in _records(path):
        document = _document(record, template, f"{path}, line {number}")
        if document.id in lines:
            if "id" not in record:  # the same text twice: told apart by a count
                document = _document(
                    {**record, "id": f"{document.id}-{number}"}, template, f"{path}, line {number}"
                )
            else:
                raise InputError(
                    f"{path}, line {number}: id {document.id!r} stands in line "
                    f"{lines[document.id]} already; ids must differ."
                )
        lines[document.id] = number
        yield document
    if not lines:
        raise InputError(f"{path} holds no record; it needs one JSON object a line.")


def write(path: Path, documents: Iterable[Document]) -> None:
    """Write `documents` to `path` as JSONL, whole or not at all."""
    atomic_text(path, "".join(json.dumps(_record(d), ensure_ascii=False) + "\n" for d in documents))


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (line number, JSON object) of every line that is not blank."""
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
    except (json.JSONDecodeError, RecursionError) as error:
        reason = getattr(error, "msg", "nested too deeply")
        raise InputError(f"{path}, line {number}: not JSON ({reason}).") from None
    if not isinstance(record, dict):
        raise InputError(f"{path}, line {number}: a JSON object is needed, one a line.")
    return record


def _document(record: Mapping[str, Any], template: PromptTemplate, where: str) -> Document:
    fields = {name: record.get(name) or "" for name in TEXT_FIELDS}
    for name, value in fields.items():
        if not isinstance(value, str):
            raise InputError(f"{where}: {name!r} must be a string.")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise InputError(f"{where}: {name!r} holds half a surrogate pair, which is no text.")
    prefix = fields.pop("prefix")
    if prefix and not fields["text"]:
        fields["text"] = prefix
    elif not (fields["text"] or fields["instruction"]):
        raise InputError(f"{where}: a record needs 'text', 'instruction' and 'output', or 'prefix'.")
    text = json.dumps({**record, "pii": None}, sort_keys=True)
    identity = record.get("id") or f"sha-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    document = template.render(Document(id=str(identity), **fields, is_prompt=bool(prefix)))
    return document.annotated(spans) if (spans := _spans(record, document, where)) is not None else document


def _spans(record: Mapping[str, Any], document: Document, where: str) -> tuple[PiiSpan, ...] | None:
    """Return the record's annotation, sorted; None when it has none."""
    given = record.get("pii")
    if given is None:
        return None
    if not isinstance(given, list):
        raise InputError(f"{where}: 'pii' must be a list of spans.")
    spans = sorted(_span(item, len(document.text), where) for item in given)
    for before, after in zip(spans, spans[1:], strict=False):
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
    return PiiSpan(start, end, label)


def _record(document: Document) -> dict[str, Any]:
    """Return `document` as the JSON object that `read` would read it from."""
    if document.is_prompt:
        return {"id": document.id, "prefix": document.text}
    optional = {
        name: getattr(document, name)
        for name in ("instruction", "input", "output", "task", "group")
        if getattr(document, name)
    }
    record: dict[str, Any] = {"id": document.id, "text": document.text, **optional}
    if document.pii is not None:
        record["pii"] = [
            {"start": span.start, "end": span.end, "label": span.label} for span in document.pii
        ]
    return record
