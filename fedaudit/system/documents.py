"""JSON and TOML that others may have written, parsed within limits on bytes and on values.

A small file can take gigabytes once it is parsed: `[]` is two bytes in a file and sixty in memory,
and a text with one emoji takes four bytes a character.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fedaudit.api.errors import InputError

LARGEST_DOCUMENT = 2**26
"""The maximum number of bytes of one document, and of one record: a report has some 400,000."""
MOST_VALUES = 2**22
"""The maximum number of values in it, each of which takes a hundred bytes of memory at most."""
MOST_DOTS = 100
"""The maximum number of dots in a line of TOML: a key of n parts takes n² bytes while parsed."""

_SEPARATORS = (",", ":", "[", "{")


def parse_json(content: bytes, source: object) -> Any:
    """Return the value that the bytes of a JSON file hold.

    Raises InputError, naming `source`, for bytes that are not JSON in UTF-8, for a name that stands
    twice in one object, since readers would differ, and as `check_size`.
    """
    check_size(content, source)
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_unique_object)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not JSON in UTF-8 ({error}).") from None


def parse_toml(content: bytes, source: object) -> dict[str, Any]:
    """Return the table in the bytes of a TOML file; raises InputError as `parse_json` does."""
    check_size(content, source)
    try:
        text = content.decode("utf-8")
        dots = max((line.count(".") for line in text.split("\n")), default=0)
        if dots > MOST_DOTS:
            raise InputError(
                f"{source} has {dots:,} dots in a line; {MOST_DOTS:,} at most are read."
            )
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not TOML in UTF-8 ({error}).") from None


def check_size(content: bytes | str, source: object) -> None:
    """Raise InputError, naming `source`, for JSON that would take too much memory once parsed.

    Values are counted by the characters that separate them, those within texts included.
    """
    if len(content) > LARGEST_DOCUMENT:
        raise InputError(f"{source} is too large: {LARGEST_DOCUMENT:,} bytes are read at most.")
    if isinstance(content, bytes):
        values = sum(content.count(separator.encode()) for separator in _SEPARATORS)
    else:
        values = sum(map(content.count, _SEPARATORS))
    if values > MOST_VALUES:
        raise InputError(f"{source} has {values:,} values, and {MOST_VALUES:,} are read at most.")


def too_large(source: object, limit: int = LARGEST_DOCUMENT) -> InputError:
    """Return the error for a file of more than `limit` bytes."""
    return InputError(f"{source} is too large: such a file has {limit:,} bytes at most.")


def _unique_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        [(repeated, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{repeated!r} stands twice in one object")
    return table
