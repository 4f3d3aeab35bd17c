"""What a fuzzed file is: how one is made, changed in a case, read and put back."""

import csv
import io
import json
import shutil
import sqlite3
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import mutations

from fedaudit.report import document

Change = Callable[[bytes, Random], bytes]
OUT = "out"
"""The folder of a case in which its run may write; it is empty before each."""


@dataclass(frozen=True)
class Target:
    """Files of one kind."""

    make: Callable[[Path], None]
    """Writes valid files into a new folder."""
    run: Callable[[Path], object]
    """Reads them as the commands do."""
    files: Mapping[str, Change]
    """How each file is changed, by its name in that folder."""
    share: float
    """Of a hundred cases; fewer where one takes longer."""
    mixed: bool = True
    """Whether some files are refused; any text is read."""

    def case(
        self, folder: Path, rng: Random, read: Callable[[Path], object] | None = None
    ) -> tuple[Callable[[], object], Callable[[], object]]:
        """Change one file; return what runs the case, and what puts the file back."""
        read = read or self.run
        name = rng.choice(list(self.files))
        path = folder / name
        before = path.read_bytes()
        shutil.rmtree(folder / OUT, ignore_errors=True)
        (folder / OUT).mkdir()
        path.write_bytes(self.files[name](before, rng))
        return lambda: read(folder), lambda: path.write_bytes(before)


def structured(content: bytes, rng: Random) -> bytes:
    """Change what a JSON file says; one time in five its bytes."""
    if rng.random() < 0.2:
        return mutations.flipped(content, rng)
    return mutations.as_json(mutations.changed(_loaded(content), rng)).encode()


def rows(content: bytes, rng: Random) -> bytes:
    """Change the rows of a report, some of which are left, mostly as the schema allows."""
    report = dict(_loaded(content))
    found = report["measurements"]
    kept = [dict(row) for row in rng.sample(found, min(len(found), 20))]
    report["measurements"] = kept
    if rng.random() < 0.25:
        return structured(json.dumps(report).encode(), rng)
    for at in rng.sample(range(len(kept)), min(len(kept), 6)):
        row = _odd(kept[at], rng, kept)
        # One that no table would be made of says nothing of the tables.
        kept[at] = row if rng.random() < 0.05 or not document.schema_violation(row) else kept[at]
    for finding in report["findings"][:3] if rng.random() < 0.3 else ():
        finding["evidence"] = mutations.changed(finding["evidence"], rng)
    return mutations.as_json(report).encode()


def _odd(row: dict[str, Any], rng: Random, others: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a row with a number or two of another size, or anything in its scope."""
    row = dict(row)
    for name in rng.sample(NUMBERS, rng.choice((0, 1, 1, 2))):
        row[name] = rng.choice(COUNTS if name in ("n", "hits") else (None, *COUNTS, *SHARES))
    if row["value"] is None:
        row |= {"low": None, "high": None, "reason": row["reason"] or "not tried"}
    if rng.random() < 0.5:
        row["scope"] = mutations.changed(row["scope"], rng)
    if rng.random() < 0.1:
        other = rng.choice(others)
        row |= {"kind": other["kind"], "metric": other["metric"]}
    return row


NUMBERS = ("value", "low", "high", "n", "hits", "chance", "baseline")
COUNTS = (0, 1, 2, 3, 50, 10**6, 10**12, 2**53 - 1)
SHARES = (0.5, 1e-9, 5e-324, 1.0, -1.0, 1.5, 1e300, -1.7e308, 1.7e308, 10**300, 1 - 1e-12)


@cache
def _loaded(content: bytes) -> Any:
    return json.loads(content)


def lines(content: bytes, rng: Random) -> bytes:
    """Change one line of a JSONL file, or make an array of all."""
    if rng.random() < 0.2:
        return mutations.flipped(content, rng)
    records = [json.loads(line) for line in content.splitlines()]
    at = rng.randrange(len(records))
    records[at] = mutations.changed(records[at], rng)
    if rng.random() < 0.2:
        return mutations.as_json(records).encode()
    return "\n".join(map(mutations.as_json, records)).encode()


def toml(content: bytes, rng: Random) -> bytes:
    """Change what a profile says, which stands in a JSON file to begin with."""
    if rng.random() < 0.1:
        return mutations.flipped(content, rng)
    return mutations.as_toml(mutations.changed(_table(content), rng)).encode("utf-8")


@cache
def _table(content: bytes) -> Any:
    import tomllib

    return tomllib.loads(content.decode())


def tensors(content: bytes, rng: Random) -> bytes:
    """Change the header of a safetensors file, or its bytes."""
    if rng.random() < 0.3:
        return mutations.flipped(content, rng)
    size = int.from_bytes(content[:8], "little")
    header = mutations.as_json(mutations.changed(json.loads(content[8 : 8 + size]), rng)).encode()
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def caches(content: bytes, rng: Random) -> bytes:
    """Change the header of a cache of answers, or its bytes."""
    if rng.random() < 0.4:
        return mutations.flipped(content, rng)
    connection = sqlite3.connect(":memory:")
    connection.deserialize(content)
    [[said]] = connection.execute("SELECT value FROM audit WHERE name = 'header'")
    header = mutations.as_json(mutations.changed(json.loads(said), rng)).encode()
    connection.execute("UPDATE audit SET value = CAST(? AS TEXT) WHERE name = 'header'", [header])
    connection.commit()
    return connection.serialize()


def table(content: bytes, rng: Random) -> bytes:
    """Change a cell, the header or a separator of a CSV file; one time in five its bytes."""
    if rng.random() < 0.2:
        return mutations.flipped(content, rng)
    text = content.decode()
    separator = rng.choice(",;\t|") if rng.random() < 0.1 else ","
    made = list(csv.reader(io.StringIO(text)))
    at = rng.choice((0, rng.randrange(len(made))))
    changed = mutations.changed(made[at], rng)
    made[at] = list(map(str, changed)) if isinstance(changed, list) else [str(changed)]
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator=rng.choice(("\n", "\r\n"))).writerows(made)
    return out.getvalue().encode("utf-8", "surrogatepass")


def prose(content: bytes, rng: Random) -> bytes:
    """Repeat, cut and mix the words of a text, with marks and capitals of many scripts."""
    words = content.decode().split(" ")
    for _ in range(rng.choice((1, 2, 4, 8))):
        at = rng.randrange(len(words))
        count = rng.choice((1, 1, 3, 50, 1000))
        odd = rng.choice(ODD)
        words[at : at + rng.choice((0, 1))] = [
            rng.choice((odd, words[at], words[at].title(), words[at] + odd, odd + words[at]))
        ] * count
    joint = rng.choice((" ", " ", " ", "", "\n", "-", ". "))
    return joint.join(words).encode("utf-8", "surrogatepass")


ODD = (
    *("A", "a", "\u00c9", "\u1e9e", "\u0130", "\u674e", "\u5148\u751f", "\U00020000", "\u0301"),
    *(".", "-", "'", "\u2019", "(", ")", "@", "+", "0", "4111", "von", "Mr.", "O'", "Mc", "\t"),
    *("\u200b", "\x00", "\U0001f600", "\u202e", "1.1.1.1", "a@b", "http://", "\ufdfa"),
)
