"""Keeping leaked data out of sight, and hostile text from acting where it is shown.

A leak is shown as its label, its length and a keyed HMAC, so that the same leak matches across
reports made with the same key. Anyone with the key can test guesses (a phone number is soon found
by trying them all), so the key file has mode 0600 and is kept in the user's configuration folder,
away from reports.
"""

import hashlib
import hmac
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.system.files import atomic_text, read_regular

KEY_FILE = "redaction-key"
"""The key's name in the user's configuration: 64 hexadecimal digits and a newline."""


MASK_FIELDS = frozenset({"label", "length", "hmac"})
"""What a mask consists of; fields of a finding's evidence that are reserved for it."""

CONFIG = "FEDAUDIT_CONFIG"
"""The environment variable that names another folder for the user's configuration."""

KEY_BYTES = 32
HMAC_DIGITS = 16

# Marks that take no room on the screen, though Unicode counts them as letters or accents: fillers,
# variation selectors, the grapheme joiner.
_INVISIBLE = re.compile(
    "[\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u3164\\ufe00-\\ufe0f\\uffa0"
    "\\U000e0100-\\U000e01ef]"
)
_WORKFLOW_COMMAND = re.compile(r"(?:(?<=\s)|^)::[\w-]+(?: [^:]*)?::|(?<!#)##(?:vso|teamcity)?\[")


@dataclass(frozen=True, slots=True)
class Redactor:
    """Masks personal data under one key."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) < KEY_BYTES:
            raise ValueError(f"a redaction key has {KEY_BYTES} bytes or more, not {len(self.key)}")

    def mask(self, text: str, label: str) -> dict[str, str | int]:
        """Return the mask that a report shows for `text`: label, length in code points, HMAC.

        The HMAC is of the text alone, so that a leak matches whatever label a detector gives it.
        """
        digest = hmac.new(self.key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return {"label": label, "length": len(text), "hmac": digest.hexdigest()[:HMAC_DIGITS]}


def is_mask(value: object) -> bool:
    """Tell whether a value in a report is the mask of a text."""
    return isinstance(value, Mapping) and value.keys() == MASK_FIELDS


def readable_mask(mask: Mapping[str, Any]) -> str:
    """Return a mask as a person reads it: `PERSON(13) #3fa2…`."""
    return make_visible(f"{mask['label']}({mask['length']}) #{str(mask['hmac'])[:4]}…")


def user_key() -> bytes:
    """Return the user's key, the same for every folder, so that masks match across reports."""
    return load_or_create_key(config_folder())


def config_folder() -> Path:
    """Return the user's configuration folder; InputError if there is no home folder."""
    if named := os.environ.get(CONFIG):
        return Path(named)
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:  # the XDG specification says to ignore relative paths
        return (base if base.is_absolute() else Path.home() / ".config") / "fedaudit"
    except RuntimeError:
        raise InputError(
            f"There is no home folder for the redaction key: name a folder with {CONFIG}."
        ) from None


def load_or_create_key(folder: Path) -> bytes:
    """Return the key in `folder`, creating it if necessary; two processes get the same key."""
    path = folder / KEY_FILE
    if not path.exists():
        _private(folder)
        draft = folder / f"{KEY_FILE}.{secrets.token_hex(4)}"
        atomic_text(draft, f"{secrets.token_hex(KEY_BYTES)}\n", mode=0o600)
        try:
            # unlike a rename, a link never takes the place of a key that came in between
            os.link(draft, path)
        except FileExistsError:
            pass
        except OSError as error:
            raise InputError(
                f"The redaction key {path} cannot be made: {error.strerror}."
            ) from error
        finally:
            draft.unlink()
    return load_key(path)


def _private(folder: Path) -> None:
    """Create a folder that only its owner can read, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(
            f"{folder}, where the redaction key belongs, cannot be made: {error.strerror}. "
            f"Name another folder with {CONFIG}."
        ) from None


def load_key(path: Path) -> bytes:
    """Return the key in the file `path`, which only its owner may be able to read."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise InputError(f"The redaction key {path} is not a file.")
        if os.name == "posix" and mode & 0o077:
            raise InputError(f"Others can read the redaction key {path}: chmod 600 it.")
        key = bytes.fromhex(read_regular(path, 1024).decode("ascii"))
    except OSError as error:
        raise InputError(f"The redaction key {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"The redaction key {path} is not hexadecimal.") from error
    if len(key) < KEY_BYTES:
        raise InputError(f"The redaction key {path} is shorter than {KEY_BYTES} bytes.")
    return key


def make_visible(text: str) -> str:
    r"""Return `text` with invisible characters and terminal controls spelt out.

    Controls, escapes, bidi and zero-width characters and lone surrogates become `\x1b`, `\u202e`
    and so on; a command to a job's runner (GitHub, Azure, TeamCity), which reads its log, loses its
    first character. Markup such as HTML or Markdown is left alone: escaping it is the
    renderer's task.
    """
    text = _WORKFLOW_COMMAND.sub(lambda match: f"\\x{ord(match[0][0]):x}{match[0][1:]}", text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii") if is_hidden(char) else char for char in text
    )


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return plain JSON with each of its texts changed, the names of its tables included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(name)): map_texts(item, change) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(item, change) for item in value]
    return value


def is_hidden(char: str) -> bool:
    """Tell whether `char` is invisible or has an effect other than showing a character."""
    if char.isprintable():
        return _INVISIBLE.match(char) is not None
    # isprintable() is also False of the no-break and the ideographic space, which are harmless
    return unicodedata.category(char) != "Zs"
