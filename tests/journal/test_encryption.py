"""Records of a journal that somebody else made: no more is unpacked than there may be."""

import json
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.journal import chunk_size, encryption
from fedaudit.journal.encryption import AnswerRecord

JSON = st.recursive(st.none() | st.floats(allow_nan=False) | st.text(), st.lists, max_leaves=20)
HEAD = AnswerRecord(name=b"").packed()[: -len(zlib.compress(b"null"))]


def packed(text):
    return HEAD + zlib.compress(text, 9)


@given(JSON, st.integers(0, 40))
def test_what_was_packed_is_there_again_where_there_is_room(content, spare):
    record = AnswerRecord(name=b"n" * 16, piece=b"p" * 16, content=content)
    room = len(json.dumps(content, separators=(",", ":"))) + 32 * 60 + spare
    assert encryption.read(record.packed(), room) == record
    assert len(encryption.encrypt(record.packed(), b"k" * 32)) <= encryption.largest_sealed(room)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b" " * 2**28, "unpacks to more than the 2,000 bytes"),
        (b'"' + b"a" * 1999 + b'"', "unpacks to more than the 2,000 bytes"),
        (b"[" * 1900, "more parts than answers"),
        # Of 32 bytes of room one may be a list: 62 of 2,000.
        (b"[" + b",".join([b"[]"] * 62) + b"]", "more parts than answers"),
        (b"[" * 60, "Expecting value"),
        (b"9" * 1990, ""),
        (b"\xff", "codec"),
    ],
)
def test_what_is_too_much_is_refused_with_little_memory(text, says):
    bytes_ = packed(text)
    tracemalloc.start()
    try:
        if text.startswith(b"9"):  # a number is a number: whoever reads it knows what it should be
            assert encryption.read(bytes_, 2000).content > 0
        else:
            with pytest.raises(ValueError, match=says):
                encryption.read(bytes_, 2000)
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


def test_61_lists_in_2000_bytes_are_read():
    text = b"[" + b",".join([b"[]"] * 61) + b"]"
    assert encryption.read(packed(text), 2000).content == [[]] * 61


def test_the_room_of_a_piece_by_hand():
    # 4,096 and, for each answer, 128 and 256 for each of its tokens.
    assert chunk_size.journal_bytes(2, 10) == 4096 + 2 * 128 + 10 * 256


@pytest.mark.parametrize("cut", [1, 5])
def test_what_is_cut_off_or_goes_on_is_refused(cut):
    whole = packed(b"[1,2]")
    for broken in (whole[:-cut], whole + b"x" * cut, whole[: len(HEAD) - cut]):
        with pytest.raises(ValueError, match=r"compression is broken|too short"):
            encryption.read(broken, 2000)
