"""Files that are whole or absent, and their fingerprints."""

import errno
import hashlib
import json
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO

from fedaudit.api.errors import InputError
from fedaudit.system import staging
from fedaudit.system.documents import LARGEST_DOCUMENT, parse_json, too_large
from fedaudit.system.failures import raise_unwritable, write_error

LARGEST = 2**38
"""Bytes of the largest file that is read in pieces; a model's files have less."""

_UMASK = threading.Lock()


def open_regular(path: Path) -> BinaryIO:
    """Open a file to be read; raises InputError where it is a pipe or a device.

    Those may never end, and may make anyone who opens them wait; what is larger than LARGEST,
    sparse as it may be, is refused too. A link to a file is followed. Raises
    OSError as `open` does.
    """
    _check_kind(path, path.stat())  # some devices do something when they are opened
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        file_stat = os.fstat(handle)
        _check_kind(path, file_stat)
        if file_stat.st_size > LARGEST:
            raise too_large(path, LARGEST)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, limit: int = LARGEST_DOCUMENT) -> bytes:
    """Return what a file holds; raises as `open_regular`, and InputError above `limit` bytes."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > limit or len(data := file.read(limit + 1)) > limit:
            raise too_large(path, limit)
        return data


Read = Callable[[Path, int], bytes]
"""Returns the bytes of a file, up to a limit, as `read_regular` does."""


def check_target(path: Path) -> None:
    """Raise InputError unless a file can be written to `path`: it is free or a regular file.

    A device, a pipe or a folder is refused, and so are a link and what it leads to.
    """
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if stat.S_ISLNK(mode):
        raise InputError(f"{path} cannot be written: it is a link. Name the file itself.")
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} cannot be written: it is a folder.")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path} cannot be written: it is not a regular file.")


def _check_kind(path: Path, file_stat: os.stat_result) -> None:
    if stat.S_ISDIR(file_stat.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(file_stat.st_mode):
        raise InputError(f"{path} is not a regular file.")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def json_sha256(value: object, default: Callable[[Any], str] | None = None) -> str:
    """Return the SHA-256 of a value as sorted JSON; `default` is as in `json.dumps`."""
    text = json.dumps(value, sort_keys=True, default=default)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_files(hashes: Mapping[str, str]) -> str:
    """Return one SHA-256 over files: of lines `HASH  NAME`, sorted by name."""
    lines = "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def lines_sha256(path: Path) -> str:
    """Return a SHA-256 of a file's lines that does not depend on their order."""
    with open_regular(path) as file:
        lines = sorted(hashlib.sha256(line.strip()).digest() for line in file)
    return hashlib.sha256(b"".join(lines)).hexdigest()


@contextmanager
def atomic(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """Give a temporary path; when the block ends well, the file there takes the place of `path`.

    It has the permissions `mode`, less those that the process's umask takes away.
    Raises, with nothing left behind, Interrupted when the disk is full or fails, and InputError
    when the place cannot be written to, or holds a link, a pipe or a device.
    """
    check_target(path)
    with raise_unwritable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with staging.stage(path.parent) as folder:
            temporary = folder / path.name
            temporary.touch(0o600)
            yield temporary
            temporary.chmod(mode & ~umask())
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)


@contextmanager
def atomic_folder(path: Path, mode: int = 0o755) -> Iterator[Path]:
    """Give a new folder, which becomes `path` when the block ends well.

    It has the permissions `mode`, less those that the umask takes away. After an error nothing is
    left of it. Raises InputError when the place cannot be written to, or OSError as `os.rename`.
    """
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            staging.remove_stale_stages(path.parent)
            folder = stack.enter_context(staging.stage(path.parent)) / path.name
            folder.mkdir(0o700)
        except OSError as error:
            raise write_error(path, error) from None
        yield folder
        folder.chmod(mode & ~umask())
        os.rename(folder, path)  # onto an empty folder too; fails on any other


def umask() -> int:
    """Return the umask: the permissions that this process withholds from files it makes."""
    with _UMASK:
        mask = os.umask(0o077)  # it can only be read by setting it
        os.umask(mask)
    return mask


def atomic_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Write `text` to `path` in UTF-8, whole or not at all."""
    with atomic(path, mode) as temporary:
        temporary.write_bytes(text.encode())


def make_folder(path: Path) -> Path:
    """Return `path` as a folder, made where there is none; InputError when it cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be made a folder: {error.strerror}.") from None
    return path


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give `path` as a folder; after the block those that were made for it and are empty go.

    Raises InputError where it cannot be made.
    """
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        yield make_folder(path)
    finally:
        for folder in made:
            with suppress(OSError):  # it is not empty, or was not made
                folder.rmdir()


def restrict_to_owner(path: Path) -> None:
    """Make the folder `path`, and close it and all below it to everybody but its owner.

    Folders get the mode 0700 and files 0600. Raises InputError where that cannot be.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        for entry in (path, *path.rglob("*")):
            if not entry.is_symlink():
                entry.chmod((0o700 if entry.is_dir() else 0o600) & ~umask())
    except OSError as error:
        raise InputError(f"{path} cannot be closed to others: {error.strerror}.") from None


def existing_parent(path: Path) -> None:
    """Raise InputError unless `path` could be made: its nearest existing parent takes new files."""
    parent = next((p for p in (path, *path.absolute().parents) if p.exists()), path)
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{path} cannot be written: {parent} is not a folder to write into.")


def check_free(path: Path, content: str) -> None:
    """Raise InputError unless `path` can be made for `content`: nothing is there, not even a link.

    Its nearest existing parent takes new files.
    """
    if os.path.lexists(path):
        raise InputError(f"{path} exists already; choose another place for {content}.")
    existing_parent(path.absolute().parent)


def suggest_neighbour(path: Path) -> str:
    """Return the question whether a neighbour of `path` with a similar name was meant.

    It begins with a space; it is empty where there is nothing of the kind.
    """
    try:
        names = [p.name for p in path.parent.iterdir()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f" Did you mean {str(path.parent / near[0])!r}?" if near else ""


def existing_path(path: Path, kind: str) -> Path:
    """Return `path`, or raise InputError when there is nothing."""
    if not path.exists():
        raise InputError(f"There is no {kind} {path}.")
    return path


def read_json(
    path: Path, missing: str, read: Read = read_regular, limit: int = LARGEST_DOCUMENT
) -> Any:
    """Return what the JSON file `path` holds; raises InputError, saying `missing` without one.

    Raises InputError also above `limit` bytes, and as `documents.parse_json` does.
    """
    try:
        content = read(path, limit)
        value = parse_json(content, path)
        if b"\\u" in content:
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is not text
        return value
    except FileNotFoundError:
        raise InputError(missing) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON in UTF-8 ({error}).") from None


def check_version(table: Any, path: Path, supported: str) -> None:
    """Raise InputError when what `path` holds has another major schema version than `supported`.

    Without a version it is taken for `supported`.
    """
    version = str(table.get("schema_version", supported)) if isinstance(table, dict) else supported
    major = supported.partition(".")[0]
    if not re.fullmatch(rf"{major}(\.\d+)*", version, re.ASCII):
        raise InputError(f"{path} has schema version {version}; this fedaudit reads {major}.x.")
