"""Shards that are corrupt or were made by other programs are refused in one line."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from test_merge import AUDITS, asked

from fedaudit.cache.answers import FILE, load


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return where shards are kept; the first test that needs an audit's makes them."""
    return tmp_path_factory.mktemp("shards")


@pytest.fixture
def sharded(here, run, kept):
    def shards(name):
        if not (kept / name).exists():
            for number in (1, 2):
                words = ("--shard", f"{number}/2", "--out", kept / name / f"part{number}")
                done = run(*AUDITS[name], *words)
                assert done.code == 0, done.err
            asked()
        shutil.copytree(kept / name, here, dirs_exist_ok=True)
        return ["part1", "part2"]

    return shards


def altered(place, statement, *values):
    """Change a shard as another program can."""
    with closing(sqlite3.connect(Path(place, FILE))) as connection, connection:
        connection.execute(statement, values)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("one attack", [0, 10**9, 1]),
        ("no victim", ["a", []]),
        ("verbatim", {"best": []}),
        ("infer", [float("nan")]),
        ("exact", [[]] * 40),
    ],
)
def test_answers_of_another_shape_are_refused(run, sharded, name, content):
    parts = sharded(name)
    altered("part1", "UPDATE answers SET answer = ?", json.dumps(content))
    run.refused(3, "merge", *parts, says="One of the shards is corrupt")


@pytest.mark.parametrize(
    "change",
    [
        lambda header: [],
        lambda header: {**header, "request": [1]},
        lambda header: {**header, "request": None},
        lambda header: {**header, "request": {**header["request"], "recheck": 0.0}},
        lambda header: {**header, "words": ["extract"]},
        lambda header: {**header, "config": {"seed": 7}},
        lambda header: {**header, "shard": "7/2"},
        lambda header: {**header, "shard": "x"},
        lambda header: {**header, "device": []},
        lambda header: {name: value for name, value in header.items() if name != "config"},
    ],
)
def test_broken_headers_are_refused(run, sharded, change):
    parts = sharded("one attack")
    with closing(sqlite3.connect(Path("part1", FILE))) as connection:
        [[text]] = connection.execute("SELECT value FROM audit WHERE name = 'header'")
    header = json.dumps(change(json.loads(text)))
    altered("part1", "UPDATE audit SET value = ? WHERE name = 'header'", header)
    run.refused(3, "merge", *parts)


def test_shards_that_are_whole_are_merged_and_say_on_what_they_were_made(run, sharded):
    parts = sharded("one attack")
    assert ", torch " in load(Path("part1"), write=False).header.device
    assert run("merge", *parts, "--out", "whole").code in (0, 1, 7)
