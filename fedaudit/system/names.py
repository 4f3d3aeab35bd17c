"""Names that become files: what others name may not lead out of its folder, nor to a device."""

import os
import re
import unicodedata
from pathlib import Path, PurePosixPath

from fedaudit.api.errors import InputError

_NAME = re.compile(r"[\w-][\w.-]*", re.ASCII)
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_LONGEST = 100


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
