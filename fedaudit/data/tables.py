"""Records in tables: CSV, and Parquet where pyarrow is installed."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from fedaudit.api.errors import InputError
from fedaudit.data.conversation import SURROGATE
from fedaudit.data.formats import ALIASES
from fedaudit.pii.field_names import shown_name
from fedaudit.system import sandbox
from fedaudit.system.documents import MOST_VALUES, check_size
from fedaudit.system.files import open_regular

Row = tuple[str, Mapping[str, Any]]

CSV, PARQUET = (".csv", ".tsv"), b"PAR1"
"""Suffixes of CSV files, and the first bytes of Parquet files."""
PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh")
"""First bytes of gzip, zip (and so XLSX), zstd and bzip2."""
SEPARATORS = ",;\t"
SEP_LINE = re.compile(r'\ufeff?"?sep=(.)"?\r?\n?')
"""The line before a header by which Excel is told the separator."""
SAMPLE = 2**20
"""Characters at the beginning of a CSV file by which it is told how quotes are written."""
LONGEST_CELL = 2**24
"""The maximum number of characters of a cell, each of which takes four bytes while it is read."""
LONGEST_HEADER = 2**16
LONGEST_ROW = 2**25
"""The maximum number of characters of a row, which may have many lines."""
PARQUET_MEMORY = 2**29
"""Bytes that unpacking a Parquet file may take, some rows at a time."""
PARQUET_SECONDS, PARQUET_BYTES_PER_SECOND = 60, 2**20
STRUCTURED = ("pii", "turns")
"""Fields that are lists; a cell of CSV has them as JSON."""
CONTENT = ("text", "prefix", "instruction", "turns")
"""Fields of which a header must name at least one."""


def is_csv(path: Path) -> bool:
    """Tell by its name whether a file is CSV."""
    return path.suffix.lower() in CSV


def is_table(path: Path) -> bool:
    """Tell whether a file is a table, by its name or, if it exists, by its first bytes."""
    if is_csv(path) or path.suffix.lower() == ".parquet":
        return True
    if not path.is_file():
        return False
    with open_regular(path) as file:
        return is_parquet(file)


def is_parquet(file: BinaryIO) -> bool:
    """Tell whether a file by its first bytes is Parquet."""
    return _first_bytes(file) == PARQUET


def check_uncompressed(path: Path, file: BinaryIO) -> None:
    """Raise InputError for a file that by its first bytes is compressed, or a spreadsheet."""
    if _first_bytes(file).startswith(PACKED):
        raise InputError(
            f"{path} is compressed or a spreadsheet: unpack it, or save it as CSV or JSONL."
        )


def _first_bytes(file: BinaryIO) -> bytes:
    first = file.read(4)
    file.seek(0)
    return first


def read_csv(path: Path, file: BinaryIO) -> Iterator[Row]:
    """Yield (where it stands, record) of every row below the header.

    Cells are separated by what a line `sep=` before the header says, or else by commas, semicolons
    or tabs, whichever gives the header most columns. A quote within a cell is doubled, or stands
    behind a backslash if the file cannot be read otherwise.
    Raises InputError, naming the line, for a row that the header does not fit. No message has the
    text of a cell.
    """
    csv.field_size_limit(LONGEST_CELL)
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        try:
            header, rows = _rows(text, path)
            for line, cells in rows:
                where = f"{path}, line {line}"
                if len(cells) != len(header):
                    raise InputError(
                        f"{where}: {len(cells)} cells under a header of {len(header)}."
                    )
                record = {
                    name: _cell(name, cell, where) for name, cell in zip(header, cells, strict=True)
                }
                yield f"line {line}", record
        except UnicodeDecodeError:
            raise InputError(
                f"{path} is not UTF-8; convert the file, with iconv for example."
            ) from None


def csv_text(source: Path, records: Iterable[Mapping[str, Any]]) -> str:
    """Return records that were read from the CSV file `source` as CSV again.

    They get its first line, so that columns and separator are told as before. Lines end in CRLF.
    """
    with open_regular(source) as file:
        lines = io.TextIOWrapper(file, encoding="utf-8", newline="")
        first = lines.readline(LONGEST_HEADER)
        told = SEP_LINE.fullmatch(first)
        header = lines.readline(LONGEST_HEADER) if told else first
    text = io.StringIO(newline="")
    separator = told[1] if told else _separator(first.removeprefix("\ufeff"))
    writer = csv.writer(text, delimiter=separator)
    writer.writerows(map(_cell_text, record.values()) for record in records)
    beginning = "".join(f"{line.rstrip()}\r\n" for line in ((first, header) if told else (first,)))
    return beginning + text.getvalue()


def json_text(value: Any) -> str:
    """Return a JSON value in one line, in the characters that it has."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # Half a surrogate pair, which may stand in a field that is not read, is not UTF-8.
    return json.dumps(value) if SURROGATE.search(text) else text


def _rows(text: io.TextIOWrapper, path: Path) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the header, and the rows that are not blank, each with the line that it begins in."""
    first = text.readline(LONGEST_HEADER + 1)
    told, above = SEP_LINE.fullmatch(first), 1
    if told:
        first, above = text.readline(LONGEST_HEADER + 1), 2
    if len(first) > LONGEST_HEADER:
        raise InputError(
            f"{path}, line {above}: a header of over {LONGEST_HEADER:,} characters; is it CSV?"
        )
    separator = told[1] if told else _separator(first)
    header = [name.strip() for name in next(csv.reader([first], delimiter=separator), [])]
    _check_header(header, path)
    form: dict[str, Any] = {"delimiter": separator, "strict": True}
    if _has_backslashes(path, form, len(header), above):
        form |= {"escapechar": "\\", "doublequote": False}
    return header, _numbered_rows(text, form, path, above)


def _has_backslashes(path: Path, form: Mapping[str, Any], columns: int, above: int) -> bool:
    """Tell whether quotes within cells are behind backslashes: nothing else fits the header."""
    with (
        open_regular(path) as file,
        io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="") as beginning,
    ):
        text = beginning.read(SAMPLE)
    if '\\"' not in text:
        return False
    lines = text.splitlines(keepends=True)[above:]
    lines = lines[:-1] if len(text) == SAMPLE else lines
    escaped = {**form, "escapechar": "\\", "doublequote": False}
    return not _fits(lines, form, columns) and _fits(lines, escaped, columns)


def _fits(lines: Sequence[str], form: Mapping[str, Any], columns: int) -> bool:
    try:
        return all(len(cells) in (0, columns) for cells in csv.reader(lines, **form))
    except csv.Error:
        return False


def _separator(header: str) -> str:
    return max(SEPARATORS, key=lambda sep: len(next(csv.reader([header], delimiter=sep), [])))


def _numbered_rows(
    text: io.TextIOWrapper, form: Mapping[str, Any], path: Path, above: int
) -> Iterator[tuple[int, list[str]]]:
    remaining = LONGEST_ROW

    def lines() -> Iterator[str]:
        nonlocal remaining
        while line := text.readline(remaining + 1):
            remaining -= len(line)
            if remaining < 0 or line.count(form["delimiter"]) > MOST_VALUES:
                raise InputError(
                    f"{path}, line {start}: a row of over {LONGEST_ROW:,} characters, or of over "
                    f"{MOST_VALUES:,} cells; is it CSV?"
                )
            yield line

    reader = csv.reader(lines(), **form)
    while True:
        start = reader.line_num + above + 1  # the header is not the reader's
        remaining = LONGEST_ROW
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{path}, line {start}: no CSV ({error}).") from None
        if cells:
            yield start, cells


def _check_header(header: Sequence[str], path: Path) -> None:
    """Refuse what is not a header: it may be a record, so nothing of it is shown."""
    if not any(ALIASES.get(name.casefold()) in CONTENT for name in header):
        raise InputError(
            f"{path}, line 1: a header is needed that names the columns, with 'text', "
            "'instruction', 'messages' or 'prefix' among them."
        )
    if (name := Counter(header).most_common(1)[0])[1] > 1:
        raise InputError(f"{path}, line 1: the header has {shown_name(name[0])!r} twice.")


def _cell(name: str, cell: str, where: str) -> Any:
    """Return a cell's text, or the list in it where the field is a list."""
    if ALIASES.get(name.casefold()) not in STRUCTURED:
        return cell
    check_size(cell, where)
    try:
        return json.loads(cell, parse_constant=_no_constant) if cell.strip() else None
    except (ValueError, RecursionError):
        raise InputError(f"{where}: {name!r} must be a JSON list.") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _cell_text(value: Any) -> str:
    """Return what a cell holds so that `_cell` gives the value back."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def read_parquet(path: Path, file: BinaryIO) -> Iterator[Row]:
    """Yield (where it stands, record) of every row; raises InputError without pyarrow.

    A small file may unpack to gigabytes, so it is read in a process with limits first.
    """
    try:
        import pyarrow
    except ImportError:
        raise InputError(
            f"{path} is Parquet, and pyarrow is not installed: pip install 'fedaudit[parquet]'."
        ) from None
    from fedaudit.data import parquet_rows

    seconds = PARQUET_SECONDS + path.stat().st_size / PARQUET_BYTES_PER_SECOND
    try:
        sandbox.attempt(
            "fedaudit.data.parquet_rows.check", str(path), seconds=seconds, memory=PARQUET_MEMORY
        )
    except sandbox.TrialEnded as ended:
        raise InputError(f"{path} cannot be unpacked: {ended.reason}.") from None
    try:
        yield from parquet_rows.read(file, path)
    except pyarrow.ArrowException as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{path} is not a valid Parquet file ({reason}).") from None
