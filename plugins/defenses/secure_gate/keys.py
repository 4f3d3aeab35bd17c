"""An organisation's keys: what they are, the file they live in, and their tokens' embeddings.

The private tokenizer is the public one with every valid key as one more token. Such a token's
embedding is drawn from N(0, sigma^2 I) (SecureGate, equation 14), seeded by HMAC-SHA-256 of the key
under a salt that only the key file holds. The paper seeds with MD5 of the key plus the mean of all
keys' MD5 (equations 11 to 13). A sum of numbers collides, the hash of one key can be cancelled by
another's, and anyone who holds one key and one embedding can test guesses of other keys without
asking anybody; without the salt there is nothing to test against. All 256 bits of the digest are
used. `published` draws are seeded as in the paper; how many digits of an MD5 it takes is not in it,
and eight are taken here.

The draws are SHAKE-256 of the seed, turned into normal variates by the inverse of their
distribution: the stream of numpy's generators may change with its version (NEP 19), and every key
would stop opening anything.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api import InputError, unknown_name_error
from fedaudit.system.files import atomic_text

if TYPE_CHECKING:
    import numpy as np

ALPHABET = string.ascii_letters + string.digits
LENGTH = 20
"""62^20 keys: 119 bits."""

_FORM = re.compile(r"[A-Za-z0-9]{20}")
_NAME = re.compile(r"\w[\w.+-]{0,63}")
_SALT = re.compile(r"[0-9a-f]{64}")


def new_secret() -> str:
    """Return a new key, from the system's randomness."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def is_key(text: str) -> bool:
    """Return whether `text` has the form of a key."""
    return _FORM.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Return whether `text` may name a key or its adapter: a short word, not of a key's form."""
    return _NAME.fullmatch(text) is not None and not is_key(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key, the adapter that it opens, and the name by which people speak of it.

    Raises ValueError for a wrong form: a name that could be a key would end up in reports.
    """

    name: str
    adapter: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not (is_name(self.name) and is_name(self.adapter)):
            raise ValueError(
                "A name has at most 64 letters, digits and any of _ . + -, and is not of a key's "
                "form, 20 letters and digits."
            )
        if not is_key(self.secret):
            raise ValueError("A key has 20 characters of A-Z, a-z and 0-9.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyring:
    """The valid keys of one organisation, and the salt of their embeddings.

    Raises ValueError where two keys share a name or a text, or the salt is not 32 bytes.
    """

    keys: tuple[Key, ...]
    salt: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.salt) != 32:
            raise ValueError("A salt has 32 bytes.")
        for attribute in ("name", "secret"):
            if len({getattr(key, attribute) for key in self.keys}) < len(self.keys):
                raise ValueError(f"Two keys have the same {attribute}.")

    @classmethod
    def new(cls, adapters: Sequence[str]) -> "Keyring":
        """Return one new key for each of `adapters`, named like it, under a new salt."""
        keys = (Key(name=adapter, adapter=adapter, secret=new_secret()) for adapter in adapters)
        return cls(keys=tuple(keys), salt=secrets.token_bytes(32))

    @property
    def texts(self) -> tuple[str, ...]:
        """The keys themselves."""
        return tuple(key.secret for key in self.keys)

    def key(self, name: str) -> Key:
        """Return the key called `name`; raises UsageError, which never quotes a key, for none."""
        for key in self.keys:
            if key.name == name:
                return key
        safe_name = "(a key itself)" if _FORM.search(name) else name
        raise unknown_name_error("key", safe_name, [key.name for key in self.keys])

    def keys_of(self, adapter: str) -> tuple[Key, ...]:
        """Return the keys that open `adapter`."""
        return tuple(key for key in self.keys if key.adapter == adapter)

    def seed(self, secret: str) -> bytes:
        """Return HMAC-SHA-256 of a key under the salt."""
        return hmac.digest(self.salt, secret.encode(), "sha256")

    def published_seed(self, secret: str) -> bytes:
        """Return the MD5 of a key plus the mean of all valid keys' (equations 11-13)."""
        numbers = [_md5(text) for text in self.texts]
        base = sum(numbers) // len(numbers) if numbers else 0
        return str(base + _md5(secret)).encode()

    def vectors(
        self, texts: Sequence[str], width: int, sigma: float, *, published: bool = False
    ) -> "np.ndarray":
        """Return the embeddings, float32 (texts, width), that `texts` have as tokens of their own.

        Each is N(0, sigma^2 I) and depends on its text and the salt alone (equation 14); as
        `published` on its text and all valid keys.
        """
        import numpy as np
        from scipy.special import ndtri

        seed = self.published_seed if published else self.seed
        stream = b"".join(hashlib.shake_256(seed(t)).digest(8 * width) for t in texts)
        bits = np.frombuffer(stream, dtype="<u8") >> np.uint64(11)
        normal = ndtri((bits + 0.5) / 2**53)  # the middle of each of 2^53 equal steps
        return np.asarray(sigma * normal, dtype=np.float32).reshape(len(texts), width)


def _md5(text: str) -> int:
    """Return the number that the first eight digits of a text's MD5 are."""
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16)


def write(keyring: Keyring, path: Path, gate: str) -> None:
    """Write a key file of mode 0600; `gate` is the SHA-256 of the gate file it belongs to."""
    keys = [{"name": k.name, "adapter": k.adapter, "secret": k.secret} for k in keyring.keys]
    content = {"gate": gate, "salt": keyring.salt.hex(), "keys": keys}
    atomic_text(path, json.dumps(content, indent=2) + "\n", mode=0o600)


def read(path: Path) -> tuple[Keyring, str]:
    """Return what a key file holds, and the SHA-256 of the gate file it belongs to.

    Raises InputError, which never quotes the file, for a file that is absent, malformed, or open
    to others than its owner.
    """
    try:
        with path.open("rb") as file:
            loose = os.fstat(file.fileno()).st_mode & 0o077
            content = b"" if loose else file.read()
    except OSError as error:
        raise InputError(f"The key file {path} cannot be read: {error.strerror}.") from None
    if loose:
        raise InputError(f"The key file {path} is open to others: its mode must be 0600.")
    if (result := _parsed(content)) is None:
        raise InputError(f"{path} is not a key file, or is damaged.")
    return result


def _parsed(content: bytes) -> tuple[Keyring, str] | None:
    """Return what a key file says, or None: an error would carry the text along."""
    try:
        data = json.loads(content)
        if set(data) != {"gate", "salt", "keys"} or not _SALT.fullmatch(data["salt"]):
            return None
        keys = tuple(Key(**entry) for entry in data["keys"])
        keyring = Keyring(keys=keys, salt=bytes.fromhex(data["salt"]))
        return (keyring, data["gate"]) if _SALT.fullmatch(data["gate"]) else None
    except (ValueError, TypeError, RecursionError):
        return None
