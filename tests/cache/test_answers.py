"""The cache of answers: what goes in comes out, and a batch is there as a whole or not at all."""

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest

from fedaudit.api.errors import InputError, Interrupted
from fedaudit.cache import answers
from fedaudit.cache.answers import (
    FILE,
    AnswerCache,
    BrokenCache,
    CacheHeader,
    OtherQuestions,
    Shard,
    UnfinishedBatch,
    load,
    merged_cache,
)

HEADER = CacheHeader(run="abc", config={"seed": "1"})
TEXT = "Ann Lee sued Bob Low."


def question(number):
    return str(number).encode()


def begun(place, batches=3, shard=None):
    """Return a cache with `batches` batches of two answers each, closed."""
    made = AnswerCache(place, HEADER, shard)
    for number in range(batches):
        pair = [question(2 * number), question(2 * number + 1)]
        assert made.get("pass", pair) == [None, None]
        made.add("pass", pair, [[TEXT, number], 0.1], 2)
    made.close()
    return made


def kept(place):
    """Return how many batches a cache has."""
    found = load(place, write=False)
    count = 0
    while found.get("pass", [question(2 * count)]) == [[TEXT, count]]:
        assert found.get("pass", [question(2 * count + 1)]) == [0.1]
        count += 1
    found.close()
    assert found.loaded_answers == 2 * count
    return count


def test_what_was_kept_is_there_again(tmp_path):
    begun(tmp_path)
    found = load(tmp_path, write=False)
    assert (found.header, found.loaded_answers, found.finished) == (HEADER, 6, False)
    asked = [question(4), question(9), question(0), question(0)]
    assert found.get("pass", asked) == [[TEXT, 2], None, [TEXT, 0], [TEXT, 0]]
    assert found.get("another pass", asked[:1]) == [None]
    found.close()


def test_a_finished_cache_has_all_answers_in_one_file(tmp_path):
    begun(tmp_path, 1)
    found = load(tmp_path, write=True)
    found.add("pass", [question(2)], ["more"], 3)
    found.finish()
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    again = load(tmp_path, write=True)
    assert (again.loaded_answers, again.finished) == (5, True)
    assert again.get("pass", [question(2)]) == ["more"]
    with pytest.raises(OtherQuestions, match="lacks the answers to some questions"):
        again.get("pass", [question(2), question(3)])
    again.remove()
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_before_the_first_answer(tmp_path):
    made = AnswerCache(tmp_path / "out", HEADER)
    made.record_fact("base", "1")
    made.get("pass", [question(0)])
    made.close()
    assert not (tmp_path / "out").exists()
    assert load(tmp_path / "out", write=True) is None


@pytest.mark.parametrize("begin", ["", "PRAGMA journal_mode = WAL"])
def test_a_file_without_answers_is_begun_again(tmp_path, begin):
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute(begin)
    connection.close()
    (tmp_path / FILE).touch()
    assert load(tmp_path, write=False) is None
    assert load(tmp_path, write=True) is None
    assert not (tmp_path / FILE).exists()
    begun(tmp_path)
    assert kept(tmp_path) == 3


def test_only_the_owner_can_read_it(tmp_path):
    made = AnswerCache(tmp_path, HEADER)
    made.add("pass", [question(0)], [TEXT], 1)
    files = list(tmp_path.iterdir())
    assert {path.suffix for path in files} == {".sqlite", ".sqlite-wal", ".sqlite-shm"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    made.remove()


def test_late_facts_must_be_the_same(tmp_path):
    made = AnswerCache(tmp_path, HEADER)
    made.record_fact("the base", "1" * 64)
    made.add("pass", [question(0)], [0], 1)
    made.close()
    found = load(tmp_path, write=False)
    found.record_fact("the base", "1" * 64)
    with pytest.raises(InputError, match=r"the base is 2{16} now, 1{16} then"):
        found.record_fact("the base", "2" * 64)


def test_the_time_of_all_processes_is_counted(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr(answers.time, "monotonic", lambda: now)
    made = AnswerCache(tmp_path, HEADER)
    for now in (103.0, 105.0):
        made.add("pass", [question(now)], [0], 1)
    made.close()
    now = 200.0
    found = load(tmp_path, write=True)
    assert found.earlier_seconds == 5
    now = 207.0
    found.add("pass", [question(0)], [0], 1)
    found.close()
    assert load(tmp_path, write=False).earlier_seconds == 5 + 7


# what is not a cache


def altered(place, *statements):
    """Change a cache as another program can."""
    with sqlite3.connect(place / FILE) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA user_version = 2",
        "DROP TABLE audit",
        "DELETE FROM audit WHERE name = 'state'",
        "UPDATE audit SET value = x'ff00'",
        "UPDATE audit SET value = '[]'",
        f"UPDATE audit SET value = '{'[' * 100_000}'",
        """UPDATE audit SET value = '{"run": 7}' WHERE name = 'header'""",
        """UPDATE audit SET value = '{"run": "a", "config": {}, "shard": "3/2"}'""",
        """UPDATE audit SET value = '{"answers": "many"}' WHERE name = 'state'""",
    ],
)
def test_another_version_and_another_content_are_refused(tmp_path, statement, write):
    begun(tmp_path).finish()
    altered(tmp_path, statement)
    with pytest.raises(InputError, match=r"answers\.sqlite was not written by this version"):
        load(tmp_path, write=write)
    assert (tmp_path / FILE).exists()


@pytest.mark.parametrize("content", ["something else altogether\n", "SQLite format 3\0 or not"])
def test_what_is_not_a_database_is_refused(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(InputError, match="was not written by this version of fedaudit"):
        load(tmp_path, write=True)
    assert (tmp_path / FILE).read_text() == content


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE answers SET answer = '{'",
        "UPDATE answers SET answer = x'ff'",
        f"UPDATE answers SET answer = '{'[' * 100_000}'",
        "DROP TABLE answers",
    ],
)
def test_a_corrupt_answer_is_refused(tmp_path, statement):
    begun(tmp_path).finish()
    altered(tmp_path, statement)
    with pytest.raises(BrokenCache, match=r"answers\.sqlite is corrupt"):
        load(tmp_path, write=False).get("pass", [question(0)])


# a disk that is full, and a process that is killed


def test_a_full_disk_interrupts_and_loses_nothing(tmp_path):
    begun(tmp_path, 1)
    found = load(tmp_path, write=True)
    pages = found.opened().execute("PRAGMA page_count").fetchone()[0]
    found.opened().execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Interrupted, match="cannot be written: No space left on device"):
        found.add("pass", [question(2), question(3)], ["x" * 10_000, 0.1], 2)
    assert found.answers == 2
    found.close()
    assert kept(tmp_path) == 1
    found = load(tmp_path, write=True)
    found.add("pass", [question(2), question(3)], [[TEXT, 1], 0.1], 2)
    found.close()
    assert kept(tmp_path) == 2


def test_a_disk_that_is_full_from_the_start(tmp_path, monkeypatch):
    made = AnswerCache(tmp_path, HEADER)
    with monkeypatch.context() as patched:
        patched.setattr(answers, "_ANSWERS", "SELECT * FROM nowhere")
        with pytest.raises(InputError, match="cannot be written"):
            made.add("pass", [question(0)], [0], 1)
    assert list(tmp_path.iterdir()) == []
    made.add("pass", [question(0)], [0], 1)  # and it begins again when there is room
    made.close()
    assert load(tmp_path, write=False).loaded_answers == 1


LIMITED = """
import resource, sys
from pathlib import Path
from fedaudit.api.errors import Interrupted
from fedaudit.cache.answers import AnswerCache, CacheHeader
made = AnswerCache(Path(sys.argv[1]), CacheHeader(run="abc", config={"seed": "1"}))
made.add("begin", [b""], [0], 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
number = 0
try:
    while True:
        pair = [str(2 * number + n).encode() for n in (0, 1)]
        made.add("pass", pair, [["Ann Lee sued Bob Low.", number], 0.1], 2)
        number += 1
except Interrupted as error:
    print(number)
"""


def test_a_file_that_the_system_lets_grow_no_further(tmp_path):
    assert resource.RLIMIT_FSIZE  # what stands for a full disk: the kernel refuses the write
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=True
    )
    written = int(done.stdout)
    assert written > 1
    assert kept(tmp_path) == written


@pytest.mark.parametrize("when", ["before", "within"])
def test_a_killed_process_leaves_whole_batches(tmp_path, when):
    begun(tmp_path, 2)
    if not (child := os.fork()):
        found = load(tmp_path, write=True)
        found.add("pass", [question(4), question(5)], [[TEXT, 2], 0.1], 2)
        if when == "within":
            found.opened().execute("BEGIN IMMEDIATE")
            found.opened().execute("DELETE FROM answers")
            found.opened().execute("PRAGMA cache_spill = 1")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert kept(tmp_path) == 3
    found = load(tmp_path, write=True)
    found.add("pass", [question(6), question(7)], [[TEXT, 3], 0.1], 2)
    found.close()
    assert kept(tmp_path) == 4


# shards, and batches that failed


def test_merged_shards_have_all_answers_and_take_none(tmp_path):
    for number in (1, 2):
        shard = Shard(number, 2)
        made = AnswerCache(
            tmp_path / str(number), CacheHeader(run="abc", config={}, shard=str(shard)), shard
        )
        made.record_fact("the base", "1")
        made.add("pass", [question(number)], [number], 5)
        made.finish()
    parts = [load(tmp_path / str(number), write=False) for number in (1, 2)]
    before = [part.path.read_bytes() for part in parts]
    merged = merged_cache(parts)
    assert merged.get("pass", [question(2), question(1)]) == [2, 1]
    assert (merged.answers, merged.covers_all, merged.resumed) == (10, True, None)
    assert [part.shard for part in merged.parts] == ["1/2", "2/2"]
    with pytest.raises(InputError, match="the base is 2 now"):
        merged.record_fact("the base", "2")
    with pytest.raises(OtherQuestions):
        merged.get("pass", [question(3)])
    merged.close()
    assert [part.path.read_bytes() for part in parts] == before
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["1", "2", FILE, FILE]


def test_a_corrupt_shard_is_named(tmp_path):
    begun(tmp_path, shard=Shard(1, 1)).finish()
    altered(tmp_path, "DROP TABLE answers")
    with pytest.raises(BrokenCache, match=rf"{tmp_path}.*is corrupt"):
        merged_cache([load(tmp_path, write=False)])


def test_answers_of_a_batch_that_failed_are_kept_by_name(tmp_path):
    made = AnswerCache(tmp_path, HEADER)
    UnfinishedBatch(made).keep({"a": [1], "b": "text"})
    UnfinishedBatch(made).keep({})
    made.close()
    found = load(tmp_path, write=True)
    batch = UnfinishedBatch(found)
    assert [batch.recall(name) for name in ("b", "a", "c")] == ["text", [1], None]
    found.finish()
    assert UnfinishedBatch(found).recall("a") is None  # nothing is asked any more
    assert UnfinishedBatch(None).recall("a") is None
