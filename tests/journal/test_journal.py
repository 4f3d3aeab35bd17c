"""The file of answers: what goes in comes out, and whatever is cut off is only asked again."""

import errno
import json
import os
import resource
import stat
import subprocess
import sys
from hashlib import blake2b

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, Interrupted
from fedaudit.journal import journal
from fedaudit.journal.journal import FILE, KEY, Journal, OtherQuestions, load

HEADER = {"run": "abc", "config": {"seed": "1"}}
ROOM = 2**16
TEXT = "Ann Lee sued Bob Low."


def piece(number):
    """Return what stands for the digest of some questions."""
    return str(number).encode().ljust(16)


def begun(place, pieces=3):
    """Return a journal with the pieces b"0", b"1", ... of one pass, closed."""
    made = Journal(place, HEADER)
    journal_pass = made.open_pass("pass")
    for number in range(pieces):
        assert journal_pass.next(piece(number), ROOM) is None
        journal_pass.add(piece(number), 2, [TEXT, number])
    made.close()
    return made


def kept(place):
    """Return what a journal holds of that pass."""
    found = load(place, write=False)
    if found is None:
        return None
    journal_pass, pieces = found.open_pass("pass"), []
    while (content := journal_pass.next(piece(len(pieces)), ROOM)) is not None:
        pieces.append(content[1])
    return pieces


def test_what_was_kept_is_there_again(tmp_path):
    begun(tmp_path)
    found = load(tmp_path, write=False)
    assert (found.header, found.loaded_answers, found.finished) == (HEADER, 6, False)
    journal_pass = found.open_pass("pass")
    assert [journal_pass.next(piece(n), ROOM) for n in range(4)] == [
        [TEXT, 0],
        [TEXT, 1],
        [TEXT, 2],
        None,
    ]


def test_a_journal_goes_on_where_it_stopped(tmp_path):
    begun(tmp_path, 1)
    found = load(tmp_path, write=True)
    journal_pass = found.open_pass("pass")
    assert journal_pass.next(piece(0), ROOM) == [TEXT, 0]
    assert journal_pass.next(piece(1), ROOM) is None
    journal_pass.add(piece(1), 1, [TEXT, 1])
    found.finish()
    again = load(tmp_path, write=True)
    assert (again.loaded_answers, again.finished) == (3, True)
    journal_pass = again.open_pass("pass")
    assert [journal_pass.next(piece(0), ROOM), journal_pass.next(piece(1), ROOM)] == [
        [TEXT, 0],
        [TEXT, 1],
    ]
    with pytest.raises(OtherQuestions, match="other questions"):  # it should have had everything
        journal_pass.next(piece(2), ROOM)
    again.close()


def test_equal_passes_have_their_own_answers(tmp_path):
    made = Journal(tmp_path, HEADER)
    for which in range(2):
        made.open_pass("pass").add(piece(0), 1, which)
    made.open_pass("other").add(piece(0), 1, 2)
    made.close()
    found = load(tmp_path, write=False)
    assert [found.open_pass("pass").next(piece(0), ROOM) for _ in range(3)] == [0, 1, None]
    assert found.open_pass("other").next(piece(0), ROOM) == 2


def test_nothing_is_written_before_the_first_answer(tmp_path):
    made = Journal(tmp_path / "out", HEADER)
    made.record_fact("base", "1")
    made.open_pass("pass").next(piece(0), ROOM)
    made.close()
    assert not (tmp_path / "out").exists()
    assert load(tmp_path / "out", write=True) is None


def test_nobody_else_can_read_it_and_it_says_nothing_plainly(tmp_path):
    begun(tmp_path)
    for name in (FILE, KEY):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    raw = (tmp_path / FILE).read_bytes()
    assert b"Ann" not in raw
    import zlib

    for start in range(len(raw)):  # nor behind compression alone
        try:
            found = zlib.decompressobj().decompress(raw[start:])
        except zlib.error:
            continue
        assert b"Ann" not in found


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(st.data())
def test_whatever_is_cut_off_the_pieces_before_it_stay(tmp_path, data):
    for path in tmp_path.iterdir():
        path.unlink()
    begun(tmp_path)
    raw = (tmp_path / FILE).read_bytes()
    ends = lengths(raw)
    cut = data.draw(st.integers(0, len(raw)))
    rest = [b"", b"\0" * 50] + ([b"\xff" * 5, raw[:30]] if cut >= 19 else [])
    torn = raw[:cut] + data.draw(st.sampled_from(rest))
    (tmp_path / FILE).write_bytes(torn)
    whole = sum(end <= cut for end in ends[1:])
    assert kept(tmp_path) == (None if cut < ends[0] else list(range(whole)))
    found = load(tmp_path, write=True)
    if found is None:
        assert not (tmp_path / FILE).exists()
        return
    assert (tmp_path / FILE).read_bytes() == torn  # who only looks changes nothing
    journal_pass = found.open_pass("pass")
    for number in range(whole):
        journal_pass.next(piece(number), ROOM)
    journal_pass.add(piece(whole), 1, [TEXT, whole])
    found.close()
    after = (tmp_path / FILE).read_bytes()
    assert after.startswith(raw[: ends[whole]])
    assert len(lengths(after)) == whole + 2  # the header, and nothing torn
    assert kept(tmp_path) == list(range(whole + 1))


def lengths(raw):
    """Return where the header and each record end, read as the documentation says."""
    place, ends = len(b"fedaudit journal 2\n"), []
    while place < len(raw):
        place += 20 + int.from_bytes(raw[place : place + 4], "little")
        ends.append(place)
    return ends


@pytest.mark.parametrize("place", [25, 120, -5])
def test_a_changed_byte_ends_what_is_read(tmp_path, place):
    begun(tmp_path)
    raw = bytearray((tmp_path / FILE).read_bytes())
    raw[place] ^= 1
    (tmp_path / FILE).write_bytes(raw)
    assert kept(tmp_path) in (None, [], [0, 1])


def test_other_questions_than_were_asked_are_refused(tmp_path):
    begun(tmp_path)
    journal_pass = load(tmp_path, write=False).open_pass("pass")
    with pytest.raises(OtherQuestions, match="answers to other questions"):
        journal_pass.next(piece(1), ROOM)


def test_late_facts_must_be_the_same(tmp_path):
    made = Journal(tmp_path, HEADER)
    made.record_fact("the base", "1" * 64)
    made.open_pass("pass").add(piece(0), 1, 0)
    made.close()
    found = load(tmp_path, write=False)
    found.record_fact("the base", "1" * 64)
    with pytest.raises(InputError, match=r"the base is 2{16} now, 1{16} then"):
        found.record_fact("the base", "2" * 64)


def test_the_time_of_all_processes_is_counted(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr(journal.time, "monotonic", lambda: now)
    made = Journal(tmp_path, HEADER)
    for now in (103.0, 105.0):  # noqa: B007 - read by the clock
        made.open_pass("pass").add(piece(0), 1, 0)
    made.close()
    now = 200.0
    found = load(tmp_path, write=True)
    assert found.earlier_seconds == 5
    now = 207.0
    found.open_pass("other").add(piece(0), 1, 0)
    found.close()
    assert load(tmp_path, write=False).earlier_seconds == 5 + 7


def test_what_is_no_journal_is_refused(tmp_path):
    (tmp_path / FILE).write_text("something else altogether\n")
    with pytest.raises(InputError, match=r"is no journal of this version"):
        load(tmp_path, write=True)
    assert (tmp_path / FILE).read_text() == "something else altogether\n"


def test_without_its_key_it_is_refused(tmp_path):
    begun(tmp_path)
    (tmp_path / KEY).unlink()
    with pytest.raises(InputError, match="cannot be read without its key"):
        load(tmp_path, write=True)


@pytest.mark.parametrize("key", ["", "abcd", "ab" * 32, "ab" * 100, "no hexadecimal"])
def test_with_a_wrong_key_it_is_refused_and_kept(tmp_path, key):
    begun(tmp_path)
    right, before = (tmp_path / KEY).read_text(), (tmp_path / FILE).read_bytes()
    (tmp_path / KEY).write_text(key + "\n")
    with pytest.raises(InputError, match="cannot be read without its key"):
        load(tmp_path, write=True)
    assert (tmp_path / FILE).read_bytes() == before
    assert right.strip().encode() not in before
    (tmp_path / KEY).write_text(right)
    assert kept(tmp_path) == [0, 1, 2]


def test_two_processes_do_not_write_one_journal(tmp_path):
    begun(tmp_path)
    first = load(tmp_path, write=True)
    with pytest.raises(InputError, match="Another process is auditing into"):
        load(tmp_path, write=True)
    assert load(tmp_path, write=False).loaded_answers == 6  # who only reads may
    first.close()
    load(tmp_path, write=True).close()


# a disk that is full


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_interrupts_and_loses_nothing(tmp_path, monkeypatch, code):
    made = Journal(tmp_path, HEADER)
    journal_pass = made.open_pass("pass")
    journal_pass.add(piece(0), 1, [TEXT, 0])
    real = os.write

    def half(handle, data):
        real(handle, data[: len(data) // 2])
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(journal.os, "write", half)
        with pytest.raises(Interrupted, match=r"journal\.bin cannot be written"):
            journal_pass.add(piece(1), 1, [TEXT, 1])
    made.close()
    assert kept(tmp_path) == [0]
    found = load(tmp_path, write=True)
    journal_pass = found.open_pass("pass")
    assert journal_pass.next(piece(0), ROOM) == [TEXT, 0]
    journal_pass.add(piece(1), 1, [TEXT, 1])
    found.close()
    assert kept(tmp_path) == [0, 1]


def test_a_disk_that_is_full_from_the_start(tmp_path, monkeypatch):
    made = Journal(tmp_path, HEADER)
    journal_pass = made.open_pass("pass")
    with monkeypatch.context() as patched:
        patched.setattr(journal.os, "write", lambda handle, data: 0)
        with pytest.raises(Interrupted):
            journal_pass.add(piece(0), 1, [TEXT, 0])
    assert not (tmp_path / FILE).exists()
    made.open_pass("pass")
    made.open_pass("other").add(piece(0), 1, [TEXT, 0])  # and it begins anew when there is room
    made.close()
    assert load(tmp_path, write=False).loaded_answers == 1


def test_a_short_write_is_a_full_disk(tmp_path, monkeypatch):
    made = Journal(tmp_path, HEADER)
    journal_pass = made.open_pass("pass")
    journal_pass.add(piece(0), 1, 0)
    real = os.write
    with monkeypatch.context() as patched:
        patched.setattr(journal.os, "write", lambda handle, data: real(handle, data[:9]))
        with pytest.raises(Interrupted):
            journal_pass.add(piece(1), 1, 1)
    journal_pass.add(piece(1), 1, [TEXT, 1])
    made.close()
    assert load(tmp_path, write=False).loaded_answers == 2


LIMITED = """
import resource, sys
from pathlib import Path
from fedaudit.journal.journal import Journal
from fedaudit.api.errors import Interrupted
made = Journal(Path(sys.argv[1]), {"run": "abc", "config": {}})
journal_pass = made.open_pass("pass")
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
number = 0
try:
    while True:
        journal_pass.add(str(number).encode().ljust(16), 1, ["x", number])
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
    assert written > 5
    assert kept(tmp_path) == list(range(written))


def test_the_header_is_plain_for_a_person_to_read(tmp_path):
    begun(tmp_path)
    raw = (tmp_path / FILE).read_bytes()
    assert raw.startswith(b"fedaudit journal 2\n")
    start = len(b"fedaudit journal 2\n") + 20
    said = json.loads(raw[start : lengths(raw)[0]])
    key = blake2b(bytes.fromhex((tmp_path / KEY).read_text()), digest_size=8).hexdigest()
    assert said == {**HEADER, "key": key}


@pytest.mark.parametrize(
    "said",
    [
        b"[]",
        b"7",
        b"{",
        b"[" * 100_000,
        b"1" * 5000,
        b'{"run": "abc"}',
        b'{"run": "abc", "config": {"seed": 1}}',
        b'{"run": "abc", "config": {}, "shard": ["1/2"]}',
        b'{"run": "abc", "config": {}, "words": [1.5]}',
        b'{"run": "abc", "config": {}, "facts": {"a": null}}',
        b'{"run": "abc", "config": {}, "unheard-of": 1}',
    ],
    ids=lambda said: said[:40].decode(),
)
def test_a_header_that_says_other_things_is_refused(tmp_path, said):
    check = blake2b(said, digest_size=16).digest()
    frame = len(said).to_bytes(4, "little") + check + said
    (tmp_path / FILE).write_bytes(journal.FIRST + frame)
    (tmp_path / KEY).write_text("00" * 32)
    with pytest.raises(InputError, match="is no journal of this version"):
        load(tmp_path, write=False)


@pytest.mark.parametrize("write", [True, False])
def test_a_journal_of_an_earlier_version_is_refused_and_stays(tmp_path, write):
    begun(tmp_path)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(b"fedaudit journal 2", b"fedaudit journal 1", 1))
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"journal\.bin is of an earlier version of fedaudit"):
        load(tmp_path, write=write)
    assert path.read_bytes() == before
