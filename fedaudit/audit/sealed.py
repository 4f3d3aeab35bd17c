"""The records of a journal as bytes: framed, checked, and sealed under a key.

A frame is a length (4 bytes, little-endian), a check (16 bytes, BLAKE2b under the key) and the
content of that length. Sealed content is a nonce (16 bytes) and what was sealed, under the key
stream of SHAKE-256 over key and nonce.
"""

import json
import os
import secrets
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b, shake_256
from typing import Any, BinaryIO

NAME = 16
"""Bytes of the digest that names a pass."""

_FRAME = struct.Struct("<I16s")
_HEAD = struct.Struct(f"<{NAME}sI16sIId")
_NONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The answers to one piece of one pass of questions."""

    name: bytes
    """A digest of what the pass asks, and of whom."""
    number: int = 0
    """How many passes of this name came before it."""
    piece: bytes = b""
    """A digest of the questions, 16 bytes."""
    answers: int = 0
    session: int = 0
    """A number that tells the process from others that write to the journal."""
    seconds: float = 0.0
    """Since that process opened the journal."""
    content: Any = None

    def packed(self) -> bytes:
        """Return the record as bytes."""
        content = json.dumps(self.content, separators=(",", ":")).encode()
        times = self.session, self.seconds
        head = self.name, self.number, self.piece, self.answers, *times
        return _HEAD.pack(*head) + zlib.compress(content)


def read(packed: bytes, *, whole: bool = True) -> Record:
    """Return the record again; its content only where the `whole` is wanted."""
    name, number, piece, answers, session, seconds = _HEAD.unpack_from(packed)
    return Record(
        name=name,
        number=number,
        piece=piece,
        answers=answers,
        session=session,
        seconds=seconds,
        content=json.loads(zlib.decompress(packed[_HEAD.size :])) if whole else None,
    )


def framed(content: bytes, key: bytes = b"") -> bytes:
    """Return content behind its length and check."""
    return _FRAME.pack(len(content), _check(content, key)) + content


def frames(file: BinaryIO, key: bytes = b"") -> Iterator[tuple[int, bytes]]:
    """Yield where each content begins, and the content, up to the first that is not whole."""
    start = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(start)
    while len(frame := file.read(_FRAME.size)) == _FRAME.size:
        length, check = _FRAME.unpack(frame)
        if length > end - start - _FRAME.size:  # room would be made for what is not there
            return
        content = file.read(length)
        if len(content) < length or check != _check(content, key):
            return
        start += _FRAME.size
        yield start, content
        start += length


def sealed(content: bytes, key: bytes) -> bytes:
    """Return content that only the key opens."""
    nonce = secrets.token_bytes(_NONCE)
    return nonce + _mixed(content, key + nonce)


def opened(content: bytes, key: bytes) -> bytes:
    """Return what was sealed."""
    return _mixed(content[_NONCE:], key + content[:_NONCE])


def _check(content: bytes, key: bytes) -> bytes:
    return blake2b(content, digest_size=16, key=key).digest()


def _mixed(content: bytes, key: bytes) -> bytes:
    stream = shake_256(key).digest(len(content))
    mixed = int.from_bytes(content, "little") ^ int.from_bytes(stream, "little")
    return mixed.to_bytes(len(content), "little")
