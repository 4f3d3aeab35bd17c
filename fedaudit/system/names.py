"""Names that become files: what others name may not lead out of its folder, nor to a device."""

import os
import re
import unicodedata
from pathlib import Path, PurePosixPath

from fedaudit.api.errors import InputError

_NAME = re.compile(r"[\w-][\w.-]*", re.ASCII)
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_LONGEST = 100


def check_name(name: object, source: Path, kind: str) -> None:
    """Raise InputError unless `name`, a `kind` in the file `source`, can name a file anywhere.

    That takes letters and digits of any script, `.`, `_` and `-`, no dot in the beginning or at
    the end, at most 100 characters, and no name of a device (CON, NUL, COM1).
    """
    if not isinstance(name, str) or not _NAME.fullmatch(_latin(name)) or name[-1] == ".":
        rule = "letters, digits and . _ - only, and no dot first or last"
    elif len(name) > _LONGEST or len(os.fsencode(name)) > 2 * _LONGEST:
        rule = f"at most {_LONGEST} characters"
    elif _DEVICE.fullmatch(name):
        rule = "a name that is not a device's"
    else:
        return
    raise InputError(f"{source}: {kind} {_short(name)} cannot name a file; it needs {rule}.")


def check_inside(name: object, source: Path) -> None:
    """Raise InputError unless the file `source` may name the file `name` of its own folder.

    Each part must be a file's name, and no link on the way may lead out of the folder.
    """
    check_path(name, source)
    check_linked(source.parent / str(name), source.parent)


def check_path(name: object, source: Path) -> None:
    """Raise InputError unless `name`, in the file `source`, is a path of names of files."""
    if not isinstance(name, str):
        raise InputError(f"{source} names {name!r} where it must name a file.")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise InputError(f"{source} points outside its folder: {_short(name)}.")
    for part in path.parts:
        check_name(part, source, "the file")


def check_linked(path: Path, folder: Path) -> None:
    """Raise InputError where links lead from `path`, which is below `folder`, out of it."""
    steps = [path, *path.parents][: len(path.parts) - len(folder.parts)]
    if not any(step.is_symlink() for step in steps):  # resolving takes many times as long
        return
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        inside = False
    if not inside:
        raise InputError(f"{path} is a link that leads out of {folder}, or nowhere.")


def _latin(name: str) -> str:
    """Return `name` with an `a` for each letter, mark and digit of any script."""
    if name.isascii():
        return name
    return "".join("a" if unicodedata.category(c)[0] in "LMN" else c for c in name)


def _short(name: object) -> str:
    text = repr(name)
    return text if len(text) <= _LONGEST else f"{text[:40]}…"
