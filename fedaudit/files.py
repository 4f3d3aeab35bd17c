"""Files that are whole or absent, and their fingerprints."""

import errno
import hashlib
import json
import os
import re
import tempfile
import threading
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any

from fedaudit.errors import FedauditError, InputError, Interrupted

_UMASK = threading.Lock()
_NAME = re.compile(r"[\w-][\w.-]*", re.ASCII)
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_LONGEST = 100
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def over(hashes: Mapping[str, str]) -> str:
    """Return one SHA-256 over files: of lines `HASH  NAME`, sorted by name."""
    lines = "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def lines_sha256(path: Path) -> str:
    """Return a SHA-256 of a file's lines that does not depend on their order."""
    with path.open("rb") as file:
        lines = sorted(hashlib.sha256(line.strip()).digest() for line in file)
    return hashlib.sha256(b"".join(lines)).hexdigest()


@contextmanager
def atomic(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """Give a temporary path beside `path`; when the block ends well, it takes `path`'s place.

    It has the permissions `mode`, less those that the process's umask takes away.
    Raises, with nothing left behind, Interrupted when the disk is full or fails, and InputError
    when the place cannot be written to.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        os.close(handle)
        yield temporary
        temporary.chmod(mode & ~umask())
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise _refused(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def umask() -> int:
    """Return the permissions that this process gives to no file it makes."""
    with _UMASK:
        found = os.umask(0o077)  # it can only be read by setting it
        os.umask(found)
    return found


def sweep(folder: Path) -> None:
    """Remove what was left in a folder by writes whose process was killed."""
    for left in folder.glob(".*.????????"):  # as `atomic` calls what is not whole yet
        left.unlink(missing_ok=True)


@contextmanager
def unwritable(path: Path) -> Iterator[None]:
    """Raise what `atomic` raises when what is done to `path` inside cannot be written."""
    try:
        yield
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> FedauditError:
    kind = Interrupted if error.errno in _FULL else InputError
    return kind(f"{path} cannot be written: {error.strerror or error}.")


def atomic_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Write `text` to `path` in UTF-8, whole or not at all."""
    with atomic(path, mode) as temporary:
        temporary.write_bytes(text.encode())


def folder(path: Path) -> Path:
    """Return `path` as a folder, made where there is none; InputError when it cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be made a folder: {error.strerror}.") from None
    return path


def for_owner(path: Path) -> None:
    """Make the folder `path`, and close it and all below it to everybody but its owner.

    Folders get the mode 0700 and files 0600. Raises InputError where that cannot be.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        for one in (path, *path.rglob("*")):
            if not one.is_symlink():
                one.chmod((0o700 if one.is_dir() else 0o600) & ~umask())
    except OSError as error:
        raise InputError(f"{path} cannot be closed to others: {error.strerror}.") from None


def existing_parent(path: Path) -> None:
    """Raise InputError unless `path` could be made: its nearest existing parent takes new files."""
    parent = next((p for p in (path, *path.absolute().parents) if p.exists()), path)
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"{path} cannot be written: {parent} is not a folder to write into.")


def like(path: Path) -> str:
    """Return the question whether what lies beside `path`, and is called much like it, was meant.

    It begins with a space; it is empty where there is nothing of the kind.
    """
    try:
        names = [one.name for one in path.parent.iterdir()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f" Did you mean {str(path.parent / near[0])!r}?" if near else ""


def existing(path: Path, what: str) -> Path:
    """Return `path`, or raise InputError when there is nothing."""
    if not path.exists():
        raise InputError(f"There is no {what} {path}.")
    return path


def read_json(path: Path, missing: str) -> Any:
    """Return what the JSON file `path` holds; raises InputError, saying `missing` without one."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(missing) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON in UTF-8 ({error}).") from None


def check_version(table: Any, path: Path, known: str) -> None:
    """Raise InputError when what `path` holds has another major schema version than `known`.

    Without a version it is taken for `known`.
    """
    version = str(table.get("schema_version", known)) if isinstance(table, dict) else known
    own = known.partition(".")[0]
    if version.partition(".")[0] != own:
        raise InputError(f"{path} has schema version {version}; this fedaudit reads {own}.x.")


def check_name(name: object, place: Path, what: str) -> None:
    """Raise InputError unless what the file `place` calls `what` can be a file's name anywhere.

    That takes letters and digits of any script, `.`, `_` and `-`, no dot in the beginning or at
    the end, at most 100 characters, and no name of a device (CON, NUL, COM1).
    """
    if not isinstance(name, str) or not _NAME.fullmatch(_latin(name)) or name[-1] == ".":
        wanted = "letters, digits and . _ - only, and no dot first or last"
    elif len(name) > _LONGEST or len(os.fsencode(name)) > 2 * _LONGEST:
        wanted = f"at most {_LONGEST} characters"
    elif _DEVICE.fullmatch(name):
        wanted = "a name that is no device's"
    else:
        return
    raise InputError(f"{place}: {what} {_short(name)} cannot name a file; it needs {wanted}.")


def check_inside(name: object, place: Path) -> None:
    """Raise InputError unless the file `place` may name the file `name` of its own folder.

    Each part must be a file's name, and no link on the way may lead out of the folder.
    """
    check_path(name, place)
    check_linked(place.parent / str(name), place.parent)


def check_path(name: object, place: Path) -> None:
    """Raise InputError unless `name`, in the file `place`, is a path of names of files."""
    if not isinstance(name, str):
        raise InputError(f"{place} names {name!r} where it must name a file.")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise InputError(f"{place} points outside its folder: {_short(name)}.")
    for part in path.parts:
        check_name(part, place, "the file")


def check_linked(path: Path, folder: Path) -> None:
    """Raise InputError where links lead from `path`, which is below `folder`, out of it."""
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        inside = False
    if not inside:
        raise InputError(f"{path} is a link that leads out of {folder}, or nowhere.")


def _latin(name: str) -> str:
    """Return `name` with an `a` for each letter, mark and digit of any script."""
    return "".join("a" if unicodedata.category(c)[0] in "LMN" else c for c in name)


def _short(name: object) -> str:
    shown = repr(name)
    return shown if len(shown) <= _LONGEST else f"{shown[:40]}…"
