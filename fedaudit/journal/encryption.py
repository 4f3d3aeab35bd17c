"""Journal records as bytes: framed, checked and encrypted under a key.

A frame is a length (4 bytes, little-endian), a check (16 bytes, BLAKE2b under the key) and the
content of that length. Sealed content is a nonce (16 bytes) and the content encrypted by the key
stream of SHAKE-256 over key and nonce.

A journal may come from somebody else, so no size that it states is trusted: frames are checked
block by block, and a record is unpacked only up to the size that its reader has room for.
"""

import json
import math
import secrets
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b, shake_256
from typing import Any, BinaryIO

NAME = 16
"""Bytes of the digest that identifies a pass."""

_FRAME = struct.Struct("<I16s")
_HEAD = struct.Struct(f"<{NAME}sI16sIId")
_NONCE = 16
_BLOCK = 2**20
"""Bytes that are read from the file at a time."""
_VALUE = 32
"""Bytes of room charged for each list or table in a record, as these take the most memory."""
BEGINNING = _NONCE + _HEAD.size
"""Bytes at the start of a sealed record that say which pass its answers are of and how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """The answers to one piece of one pass of questions."""

    name: bytes
    """A digest of what the pass asks and of the target that is asked."""
    number: int = 0
    """How many passes with the same name came before this one."""
    piece: bytes = b""
    """A digest of the piece's questions, 16 bytes."""
    answers: int = 0
    session: int = 0
    """A number that distinguishes the writing process from other writers of the journal."""
    seconds: float = 0.0
    """Seconds since that process opened the journal."""
    content: Any = None

    def packed(self) -> bytes:
        """Return the record as bytes."""
        content = json.dumps(self.content, separators=(",", ":")).encode()
        times = self.session, self.seconds
        head = self.name, self.number, self.piece, self.answers, *times
        return _HEAD.pack(*head) + zlib.compress(content)


def read(packed: bytes, room: int) -> AnswerRecord:
    """Return the unpacked record; raises ValueError where it is invalid or exceeds `room` bytes.

    Without `room`, the content is left out.
    """
    if len(packed) < _HEAD.size:
        raise ValueError("a record is too short")
    name, number, piece, answers, session, seconds = _HEAD.unpack_from(packed)
    if not 0 <= seconds < math.inf:
        raise ValueError("a record took no finite time")
    return AnswerRecord(
        name=name,
        number=number,
        piece=piece,
        answers=answers,
        session=session,
        seconds=seconds,
        content=_content(packed[_HEAD.size :], room) if room else None,
    )


def largest_sealed(room: int) -> int:
    """Return the largest size in bytes of a sealed record with `room` bytes of content.

    zlib stores incompressible content in blocks of 16 KiB, with 5 more bytes each.
    """
    return BEGINNING + room + room // 1000 + 64


def _content(compressed: bytes, room: int) -> Any:
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(compressed, room + 1)
    except zlib.error as error:
        raise ValueError(f"its compression is broken ({error})") from None
    if len(text) > room:
        raise ValueError(f"a record unpacks to more than the {room:,} bytes that it may need")
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("its compression is broken (another length)")
    if text.count(b"[") + text.count(b"{") > room // _VALUE:
        raise ValueError("a record has more parts than answers")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("a record is nested too deeply") from None


@dataclass(frozen=True, slots=True)
class Frame:
    """The position and length of a frame's content, and its first bytes."""

    start: int
    length: int
    begin: bytes


def frame(content: bytes, key: bytes = b"") -> bytes:
    """Return a frame: the content preceded by its length and check."""
    return _FRAME.pack(len(content), _check(content, key)) + content


def frames(file: BinaryIO, key: bytes = b"", head_size: int = BEGINNING) -> Iterator[Frame]:
    """Yield each frame up to the first incomplete one, with `head_size` bytes of its content."""
    start = file.tell()
    while len(frame := file.read(_FRAME.size)) == _FRAME.size:
        length, check = _FRAME.unpack(frame)
        digest, begin, remaining = blake2b(digest_size=16, key=key), b"", length
        while remaining and (block := file.read(min(remaining, _BLOCK))):
            digest.update(block)
            begin += block[: head_size - len(begin)]
            remaining -= len(block)
        if remaining or check != digest.digest():
            return
        start += _FRAME.size
        yield Frame(start, length, begin)
        start += length


def encrypt(content: bytes, key: bytes) -> bytes:
    """Return content encrypted under the key."""
    nonce = secrets.token_bytes(_NONCE)
    return nonce + _xor_stream(content, key + nonce)


def decrypt(content: bytes, key: bytes) -> bytes:
    """Return the decrypted content."""
    return _xor_stream(content[_NONCE:], key + content[:_NONCE])


def _check(content: bytes, key: bytes) -> bytes:
    return blake2b(content, digest_size=16, key=key).digest()


def _xor_stream(content: bytes, key: bytes) -> bytes:
    stream = shake_256(key).digest(len(content))
    mixed = int.from_bytes(content, "little") ^ int.from_bytes(stream, "little")
    return mixed.to_bytes(len(content), "little")
