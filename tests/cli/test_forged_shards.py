"""Shards that are broken or were made by other programs are refused in one line."""

import json
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import fake_audit
import pytest
from command import Command
from test_merge import AUDITS, asked

from fedaudit.journal import encryption, journal
from fedaudit.journal.journal import FIRST, KEY

SCRIPT = Path(fake_audit.__file__)
PLENTY = 2**26
END = b"\0" * encryption.NAME


@pytest.fixture
def here(tmp_path, monkeypatch):
    fake_audit.written(tmp_path)
    monkeypatch.chdir(tmp_path)
    fake_audit.replace(monkeypatch.setattr, "log", fake_audit.Chances("SIGKILL", sys.maxsize))
    return tmp_path


@pytest.fixture
def run(monkeypatch, capfd):
    return Command(monkeypatch, capfd)


@pytest.fixture
def sharded(here, run):
    def shards(name, of=2):
        for number in range(1, of + 1):
            done = run(*AUDITS[name], "--shard", f"{number}/{of}", "--out", f"part{number}")
            assert done.code == 0, done.err
        asked()
        return [f"part{number}" for number in range(1, of + 1)]

    return shards


def forged(place, change=lambda content: content, head=lambda header: header, packed=None):
    """Write a journal anew, with other answers, as whoever made it can.

    `change` makes other content of each record's, `head` another header, and `packed` other bytes.
    """
    path = Path(place, journal.FILE)
    key = bytes.fromhex(Path(place, KEY).read_text())
    with path.open("rb") as file:
        file.read(len(FIRST))
        first = next(encryption.frames(file, head_size=PLENTY))
        header = head(json.loads(first.begin))
        file.seek(first.start + first.length)
        records = [
            encryption.read(encryption.decrypt(frame.begin, key), PLENTY)
            for frame in encryption.frames(file, key, head_size=PLENTY)
        ]
    with path.open("wb") as file:
        file.write(FIRST + encryption.frame(json.dumps(header).encode()))
        for one in records:
            other = one if one.name == END else replace(one, content=change(one.content))
            plain = packed(other) if packed and one.name != END else other.packed()
            file.write(encryption.frame(encryption.encrypt(plain, key), key))


# what is no shard at all


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("one attack", [0, 0, 10**9, 1]),
        ("no victim", [["a", []]]),
        ("verbatim", {"best": []}),
        ("infer", [float("nan")]),
        ("exact", [[]] * 40),
    ],
)
def test_answers_of_another_shape_are_refused(run, sharded, name, content):
    parts = sharded(name)
    forged("part1", lambda _: content)
    run.refused(3, "merge", *parts, says="of shard 1/2 holds what no audit writes")


def bomb(record, text):
    """Return a record as bytes whose content is another one."""
    head = replace(record, content=0).packed()[: -len(zlib.compress(b"0"))]
    return head + text


# Linux counts what a process held before exec as its own: this one is small, these tests are not.
MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def test_a_bomb_is_refused_with_little_memory(here, sharded):
    parts, packer = sharded("verbatim"), zlib.compressobj(9)
    text = b"".join(packer.compress(b" " * 2**20) for _ in range(1024)) + packer.flush()
    forged("part1", packed=lambda one: bomb(one, text))
    words = [sys.executable, SCRIPT, "SIGKILL", 0, "log", "merge", *parts]
    measured = [sys.executable, "-c", MEASURED, *map(str, words)]
    done = subprocess.run(measured, capture_output=True, text=True, check=False)
    [line] = done.stderr.splitlines()
    assert done.returncode == 3, line
    assert "of shard 1/2 holds what no audit writes" in line
    # In kB; what fedaudit takes anyway is a few hundred MB.
    assert int(done.stdout) < 0.8e6


@pytest.mark.parametrize(
    "packed",
    [
        lambda one: b"short",
        lambda one: one.packed()[:-3],
        lambda one: one.packed() + b"more",
        lambda one: replace(one, seconds=float("nan")).packed(),
        lambda one: bomb(one, zlib.compress(b"no JSON")),
    ],
)
def test_broken_records_are_refused(run, sharded, packed):
    parts = sharded("verbatim")
    forged("part1", packed=packed)
    run.refused(3, "merge", *parts, says="holds what no audit writes")


@pytest.mark.parametrize(
    "head",
    [
        lambda header: [],
        lambda header: {**header, "request": [1]},
        lambda header: {**header, "request": None},
        lambda header: {**header, "words": ["extract"]},
        lambda header: {**header, "config": {"seed": 7}},
        lambda header: {**header, "facts": 7},
        lambda header: {**header, "shard": "7/2"},
        lambda header: {**header, "shard": "x"},
        lambda header: {**header, "device": []},
        lambda header: {name: value for name, value in header.items() if name != "config"},
    ],
)
def test_broken_headers_are_refused(run, sharded, head):
    parts = sharded("one attack")
    forged("part1", head=head)
    run.refused(3, "merge", *parts)


@pytest.mark.parametrize("key", ["zz", "00" * 200])
def test_a_broken_key_is_refused(run, sharded, key):
    parts = sharded("one attack")
    Path("part1", KEY).write_text(key)
    run.refused(3, "merge", *parts, says="cannot be read without its key")


def test_a_shard_says_on_what_it_was_made(run, sharded):
    sharded("one attack")
    found = journal.load(Path("part1"), write=False)
    assert ", torch " in found.header["device"]
