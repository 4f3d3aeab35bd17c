"""Shards from somebody else: what they say is asked again, and what they hold is not trusted."""

import json
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import fake_audit
import pytest
from command import Command
from test_merge import AUDITS, asked, out, prompts, report

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


def first_of(value):
    """Return the same answers, the first text, hit or number in them another one."""
    if isinstance(value, dict):
        return {**value, "best": first_of(value["best"])}
    if isinstance(value, list) and value:
        return [first_of(value[0]), *value[1:]]
    if isinstance(value, str):
        return value + " It was Ann Lee."
    return value / 2 - 0.125 if isinstance(value, float) else value


def fewer(hits):
    """Return hits without the first one."""
    return hits[4:]


# what is asked again


def test_at_least_one_question_of_every_shard_is_asked_again(run, sharded):
    parts = sharded("one attack", 3)
    run("merge", *parts, "--recheck", "0", "--out", out("believed"))
    weighed = len(prompts(asked()))
    done = run("merge", *parts, "--out", out("merged"))
    assert done.code in (0, 1, 7), done.err
    rows = json.loads(Path("merged/report.json").read_text())["run"]["shards"]
    assert [row["shard"] for row in rows] == ["1/3", "2/3", "3/3"]
    said = " ".join(done.out.split())
    for row in rows:
        assert 1 <= row["asked_again"] <= row["questions"]
        assert row["answered_otherwise"] == 0
        assert f"Shard {row['shard']}: {row['asked_again']} of {row['questions']} quest" in said
    assert len(prompts(asked())) == weighed + sum(row["asked_again"] for row in rows)
    assert len({row["draw"] for row in rows}) == 1


@pytest.mark.parametrize("name", ["several", "no victim", "infer", "exact", "matrix"])
def test_honest_shards_are_asked_again_and_believed(run, sharded, name):
    assert run(*AUDITS[name], "--out", out("one")).code in (0, 1, 7)
    done = run("merge", *sharded(name), "--recheck", "100", "--out", out("merged"))
    assert done.code in (0, 1, 7), done.err
    rows = json.loads(Path("merged/report.json").read_text())["run"]["shards"]
    assert all(row["asked_again"] == row["questions"] > 0 and row["seen"] == 1 for row in rows)
    assert report("merged") == report("one")


def test_nothing_is_asked_again_where_nobody_wants_it(run, sharded):
    done = run("merge", *sharded("one attack"), "--recheck", "0", "--out", out("merged"))
    assert "No answer of the shards was asked again (--recheck 0)" in " ".join(done.out.split())
    found = json.loads(Path("merged/report.json").read_text())
    assert [row["asked_again"] for row in found["run"]["shards"]] == [0, 0]
    assert [row["seen"] for row in found["run"]["shards"]] == [0.0, 0.0]
    assert all(line.startswith(("base ", "tuned scores ")) for line in asked())


@pytest.mark.parametrize("share", ["101", "nan"])
def test_what_is_no_percentage_is_refused(run, sharded, share):
    run.refused(2, "merge", *sharded("one attack"), f"--recheck={share}", says="--recheck")


# what is forged


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("one attack", fewer),
        ("several", fewer),
        ("no victim", first_of),
        ("verbatim", first_of),
        ("infer", first_of),
        ("memorize", first_of),
        ("exact", first_of),
        ("matrix", fewer),
    ],
)
def test_a_forged_shard_is_named(run, sharded, name, change):
    parts = sharded(name)
    forged("part2", change)
    words = ("merge", *parts, "--recheck", "100", "--out", "merged", "--quiet")
    done = run.refused(3, *words, says="Shard 2/2")
    assert "in part2 does not hold what the model answers" in done.err
    assert not Path("merged/report.json").exists()
    assert run("merge", *parts, "--recheck", "0", "--out", "believed").code in (0, 1, 7)


def test_an_answer_of_another_device_accuses_nobody(run, sharded):
    parts = sharded("one attack")
    forged("part2", fewer, lambda header: {**header, "device": "cuda:0: NVIDIA H100, torch 2.4"})
    done = run("merge", *parts, "--recheck", "100", "--out", out("merged"))
    assert done.code in (0, 1, 7), done.err
    said = " ".join(done.out.split())
    assert "answered otherwise, on another device" in said
    assert "the shard's: cuda:0: NVIDIA H100, torch 2.4" in said
    rows = json.loads(Path("merged/report.json").read_text())["run"]["shards"]
    assert [row["answered_otherwise"] > 0 for row in rows] == [False, True]


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
    run.refused(
        3, "merge", *parts, "--recheck", "0", says="of shard 1/2 holds what no audit writes"
    )


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


def test_a_shard_cannot_turn_the_check_off(run, sharded):
    parts = sharded("one attack")
    for part in parts:
        forged(
            part,
            fewer,
            lambda header: {**header, "request": {**header["request"], "recheck": 0.0}},
        )
    run.refused(3, "merge", *parts, "--recheck", "100", says="holds no request")
