"""Rows of Parquet files, a few at a time; where pyarrow is installed."""

import json
from collections.abc import Generator, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import pyarrow
from pyarrow import parquet

from fedaudit.api.errors import InputError
from fedaudit.pii.field_names import shown_name
from fedaudit.system.documents import check_size

BATCH = 100
"""Rows that are unpacked at once."""
MOST_UNPACKED, MOST_TIMES = 2**26, 50
"""Characters that a file may unpack to, beside so many for each of its bytes: text has ten."""

_CONSTANTS = {"NaN": None}
"""What JSON does not have; an empty cell of pandas is NaN."""


def read(file: BinaryIO, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where it stands, record) of every row; raises InputError if they are too large."""
    remaining = MOST_UNPACKED + MOST_TIMES * path.stat().st_size
    pages = parquet.ParquetFile(file, pre_buffer=False, buffer_size=2**20)
    number = 0
    for batch in pages.iter_batches(batch_size=BATCH, use_threads=False):
        for place in range(batch.num_rows):
            number += 1
            [row] = batch.slice(place, 1).to_pylist()
            text = _row_text(row, f"{path}, row {number}")
            check_size(text, f"{path}, row {number}")
            remaining -= len(text)
            if remaining < 0:
                raise InputError(
                    f"{path} unpacks to over {MOST_TIMES} times its size: is it what it seems?"
                )
            try:
                yield f"row {number}", json.loads(text, parse_constant=_CONSTANTS.__getitem__)
            except KeyError:
                raise InputError(f"{path}, row {number}: a number is infinite.") from None


def _row_text(row: Mapping[str, Any], where: str) -> str:
    """Return a row as JSON; raises InputError, naming the column, for what JSON cannot say."""
    cells = []
    for name, value in row.items():
        try:
            cells.append(f"{json.dumps(name)}: {json.dumps(value, default=_text)}")
        except UnicodeDecodeError:
            raise InputError(
                f"{where}: column {shown_name(name)!r} holds bytes that are not UTF-8; convert it "
                "to text, or leave it out."
            ) from None
        except TypeError:
            raise InputError(
                f"{where}: column {shown_name(name)!r} holds values that are neither text, numbers "
                "nor lists; convert it to text, or leave it out."
            ) from None
    return f"{{{', '.join(cells)}}}"


def _text(value: object) -> str:
    """Return what JSON has no type for as text: bytes are text without that annotation."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, date | time | timedelta | Decimal | UUID):
        return str(value)
    raise TypeError


def check(path: str) -> Generator[str, None, int]:
    """Return the number of rows, having unpacked all of them; run it as a trial."""
    yield "unpacking it"
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # others reserve more than they use
    with Path(path).open("rb") as file:
        return sum(1 for _ in read(file, Path(path)))
