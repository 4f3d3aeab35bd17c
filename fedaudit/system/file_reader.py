"""Files read for one command: each byte once, however many steps need the content or its hash."""

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fedaudit.system.documents import LARGEST_DOCUMENT
from fedaudit.system.files import open_regular, read_regular
from fedaudit.system.tensor_files import check_open_header

KEPT = 2**20
"""The largest content kept in memory, in bytes: manifests, configurations, small corpora."""
UNPARSED = ".safetensors"
"""Files that are never parsed from the bytes read here, so that only their hash is kept."""

_Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Known:
    size: int
    changed: int
    sha256: str
    content: bytes | None


class FileReader:
    """Reads and hashes files, each once as long as its size, time and inode stay the same.

    It lives as long as one command: nothing is remembered across commands.
    """

    def __init__(self) -> None:
        self._known: dict[_Place, _Known] = {}

    def sha256(self, path: Path) -> str:
        """Return the SHA-256 of a file's bytes, in hexadecimal; raises as `open_regular`."""
        return self._read(path).sha256

    def open(self, path: Path) -> BinaryIO:
        """Return the content of a file as a stream; raises as `open_regular`."""
        content = self._read(path).content
        return open_regular(path) if content is None else io.BytesIO(content)

    def read(self, path: Path, limit: int = LARGEST_DOCUMENT) -> bytes:
        """Return the bytes of a file; raises as `open_regular`, and InputError above `limit`."""
        content = None if path.stat().st_size > limit else self._read(path).content
        return read_regular(path, limit) if content is None else content

    def _read(self, path: Path) -> _Known:
        stat = path.stat()
        known = self._known.get(place := (stat.st_dev, stat.st_ino))
        if known is None or (known.size, known.changed) != (stat.st_size, stat.st_mtime_ns):
            known = self._known[place] = _read_once(path)
        return known


def _read_once(path: Path) -> _Known:
    digest = hashlib.sha256()
    with open_regular(path) as file:
        if path.suffix == UNPARSED:
            check_open_header(file, path)  # a sparse file takes minutes to hash
        stat = os.fstat(file.fileno())
        kept = path.suffix != UNPARSED and stat.st_size <= KEPT
        blocks = []
        while block := file.read(2**20):
            digest.update(block)
            if kept:
                blocks.append(block)
    content = b"".join(blocks) if kept else None
    return _Known(stat.st_size, stat.st_mtime_ns, digest.hexdigest(), content)
