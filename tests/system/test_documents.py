"""Whatever a small file holds, and whichever reader opens it, it takes little memory."""

import gzip
import json
import os
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import fork
import pytest

from fedaudit.api.errors import InputError
from fedaudit.api.templates import template
from fedaudit.config import profile
from fedaudit.data import corpus, tables
from fedaudit.engine.loading import checkpoint
from fedaudit.federation import adapters, manifest, watermark_keys
from fedaudit.report import document
from fedaudit.system import documents
from fedaudit.system.documents import MOST_VALUES, check_size, parse_json, parse_toml

MOST_MEMORY = 160 * 2**20
"""Bytes above those that the imports take."""
MANY = MOST_VALUES + 10
"""Values of a bomb: a list of as many empty lists takes 270 MB, if it is parsed."""

BOMBS: dict[str, bytes] = {
    "lists": b"[" + b"[]," * MANY + b"[]]",
    "names": b"{" + b",".join(b'"%x":0' % n for n in range(MANY // 2)) + b"}",
}


def _header(folder: Path, bomb: bytes) -> None:
    path = folder / adapters.WEIGHTS
    path.write_bytes(struct.pack("<Q", len(bomb)) + bomb)
    (folder / adapters.CONFIG).write_text("{}")
    adapters.check(folder)


def _read_as(name: str, read: Callable[[Path], object]) -> Callable[[Path, bytes], object]:
    def both(folder: Path, bomb: bytes) -> object:
        (folder / name).write_bytes(bomb)
        return read(folder)

    return both


def _records(name: str) -> Callable[[Path, bytes], object]:
    return _read_as(name, lambda folder: list(corpus.read(folder / name, template("fed_pii"))))


READERS: dict[str, Callable[[Path, bytes], object]] = {
    "report": _read_as("report.json", lambda folder: document.read(folder / "report.json")),
    "manifest": _read_as(manifest.NAME, manifest.read),
    "adapter": _read_as(adapters.CONFIG, adapters.read_config),
    "marks": _read_as("marks.json", lambda folder: watermark_keys.read(folder / "marks.json")),
    "base": _read_as("tokenizer.json", checkpoint.check_files),
    "header": _header,
    "profile": lambda folder, bomb: _read_as(
        "p.toml", lambda folder: profile.load(str(folder / "p.toml"))
    )(folder, b"a = " + bomb),
    "line": _records("line.jsonl"),
    "element": lambda folder, bomb: _records("array.json")(folder, b'[{"a": ' + bomb + b"}]"),
}
PARSERS = ("report", "profile", "line")
"""Readers of JSON, TOML and JSON Lines: the others read JSON as the first does."""
TRIALS = [("lists", name) for name in READERS] + [("names", name) for name in PARSERS]
TABLES = {
    "no line ends": b"text" + b",a" * MANY,
    "one cell": b"id,text\na," + b"a" * 2**20,
    "cells": b"id,text\n" + b"a," * MANY,
    "lines of one row": b"text\n" + b'"a\n",' * 2**17,
}


def test_no_bomb_takes_much_memory_and_each_is_one_line(tmp_path):
    """All in one process, whose peak is that of the worst."""
    place = str(Path(__file__).parent)
    code = f"import sys; sys.path[:0] = [{place!r}]; import test_documents as t; t.explode()"
    done = fork.program(code, real=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["peak"] < MOST_MEMORY
    assert len(said["lines"]) == len(TRIALS)
    assert all("\n" not in line and len(line) < 300 for line in said["lines"])


def explode() -> None:
    start, lines = _peak(), []
    for kind, reader in TRIALS:
        folder = Path(kind, reader)
        folder.mkdir(parents=True)
        with pytest.raises(InputError) as raised:
            READERS[reader](folder, BOMBS[kind])
        for path in folder.iterdir():
            path.unlink()
        lines.append(str(raised.value))
    print(json.dumps({"peak": _peak() - start, "lines": lines}))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_without_end_is_one_line(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(tables, "LONGEST_ROW", 2**19)
    with pytest.raises(InputError, match=r"r\.csv, line [12]: "):
        _records("r.csv")(tmp_path, TABLES[kind])


def test_a_huge_file_is_refused_by_its_size(tmp_path):
    path = tmp_path / "a.json"
    path.touch()
    os.truncate(path, 2**33)
    with pytest.raises(InputError, match="too large"):
        document.read(path)


def test_what_is_just_small_enough_is_read():
    most = b"[" + b"1," * (MOST_VALUES - 1) + b"1]"
    assert len(parse_json(most, "a")) == MOST_VALUES
    with pytest.raises(InputError, match=f"a has {MOST_VALUES + 1:,} values"):
        check_size(b"[" + most, "a")


@pytest.mark.parametrize("unit", [b"{},", b"[", b'{"":[],', b"0,"])
def test_values_of_every_kind_count(unit):
    with pytest.raises(InputError, match="values, and"):
        check_size(unit * MANY, "a")


@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "[[{}]]"])
def test_a_key_of_many_parts_is_refused_before_it_is_parsed(form):
    line = form.format("a." * documents.MOST_DOTS + "a")
    assert "a" in parse_toml(line.encode(), "p.toml")
    with pytest.raises(InputError, match=r"p\.toml has 101 dots in a line"):
        parse_toml(line.replace("a", "a.a", 1).encode(), "p.toml")


def test_an_array_is_read_element_by_element(tmp_path, monkeypatch):
    """Blocks end anywhere: within a name, a number, an escape, a character of four bytes."""
    rows = [{"id": f"r{n}", "text": f'A "b" \\ {n} 😀 李', "task": "t"} for n in range(40)]
    path = tmp_path / "a.json"
    for layout in (None, 1):
        path.write_text(json.dumps(rows, indent=layout, ensure_ascii=bool(layout)), "utf-8")
        for block in (1, 7, 50, 10**6):
            monkeypatch.setattr(corpus, "BLOCK", block)
            found = list(corpus.read(path, template("fed_pii")))
            assert [(d.id, d.text, d.task) for d in found] == [
                (row["id"], row["text"], "t") for row in rows
            ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[{"text": "a"} {"text": "b"}]', "record 2: not JSON"),
        ('[{"text": "a"},]', "record 2: not JSON"),
        ('[{"text": "a"}', "not JSON"),
        ('[{"text": "a"}] x', "not JSON"),
        ('[{"text": "a"}, 3]', "record 2: a JSON object is needed"),
        ('[{"text": "a", "text": "b"}]', "record 1: 'text' stands twice"),
        ('[{"text": 1e999}]', "not JSON"),
        ("[", "not JSON"),
        ("[]", "holds no record"),
    ],
)
def test_what_is_no_array_of_records_is_one_line(tmp_path, text, problem):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        list(corpus.read(path, template("fed_pii")))


def test_a_large_file_of_lines_is_still_read(tmp_path, monkeypatch):
    """The limits are of a line: a file may have any number."""
    monkeypatch.setattr(documents, "LARGEST_DOCUMENT", 2_000)
    monkeypatch.setattr(tables, "LONGEST_ROW", 2_000)
    rows = [{"id": str(n), "text": "a, b: [c] " * 20} for n in range(100)]
    for name, text in {
        "r.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "r.json": json.dumps(rows),
        "r.csv": "id,text\n" + "".join(f'{row["id"]},"{row["text"]}"\n' for row in rows),
    }.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(corpus, "BLOCK", 500)
        assert len(list(corpus.read(tmp_path / name, template("fed_pii")))) == 100


def test_every_report_of_the_tests_is_far_below_the_limits():
    content = gzip.decompress(
        (Path(__file__).parents[1] / "golden/demo_report.json.gz").read_bytes()
    )
    assert sum(content.count(c.encode()) for c in ",:[{") < MOST_VALUES / 50
