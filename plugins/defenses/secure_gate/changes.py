"""A client's folder: its keys and gate, made, opened, and changed without touching an adapter.

The key file names the SHA-256 of its gate. A change writes the new key file beside the old one,
then the gate, and then puts the key file in place. Stopped in between, the next to open the folder
finds a key file that waits: it takes its place if it fits the gate, and goes if the gate is still
the old one. So a folder has the old keys or the new ones, and never both or neither.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.errors import InputError, UsageError, unknown
from fedaudit.files import atomic

from . import keys as key_file
from .gate import Gate, from_bytes
from .keys import Key, Keyring, new_secret
from .responder import GateResponder
from .training import train

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine

GATE, KEYS, WAITING = "gate.safetensors", "keys.json", "keys.json.new"


def create(
    folder: Path, engine: "LocalEngine", adapters: Sequence[str], *, tau: float, seed: int
) -> None:
    """Draw a key for each of `adapters` but the first, the secure one, and train their gate."""
    keyring = Keyring.new(adapters[1:])
    _write(folder, keyring, train(engine, keyring, adapters, tau=tau, seed=seed))


def load(
    folder: Path, engine: "LocalEngine", others: Sequence[Path] = (), seed: int = 0
) -> GateResponder:
    """Return what answers in `folder`; `others` are folders of other organisations.

    Raises InputError where keys and gate do not belong together or are not there.
    """
    keyring, gate = _read(folder)
    foreign = [s for other in others if (other / KEYS).is_file() for s in _secrets(other)]
    folders = {name: folder / name for name in gate.adapters}
    return GateResponder(engine, gate, keyring, folders, foreign=foreign, seed=seed)


def rotate(folder: Path, engine: "LocalEngine", name: str, seed: int = 0) -> None:
    """Draw a new key in place of the one called `name`."""
    keyring, gate = _read(folder)
    old = keyring.key(name)
    kept = tuple(replace(k, secret=new_secret()) if k is old else k for k in keyring.keys)
    _change(folder, engine, replace(keyring, keys=kept), gate, (old.secret,), seed)


def add(folder: Path, engine: "LocalEngine", name: str, adapter: str, seed: int = 0) -> None:
    """Draw a further key, called `name`, for `adapter`."""
    keyring, gate = _read(folder)
    if adapter not in gate.adapters[1:]:
        raise unknown("adapter behind a key", adapter, gate.adapters[1:])
    if any(key.name == name for key in keyring.keys):
        raise UsageError(f"There is a key called {name} already: rotate it, or name another.")
    try:
        new = Key(name=name, adapter=adapter, secret=new_secret())
    except ValueError as error:
        raise UsageError(str(error)) from None
    _change(folder, engine, replace(keyring, keys=(*keyring.keys, new)), gate, (), seed)


def revoke(folder: Path, engine: "LocalEngine", name: str, seed: int = 0) -> None:
    """Take away the key called `name`."""
    keyring, gate = _read(folder)
    old = keyring.key(name)
    kept = tuple(key for key in keyring.keys if key is not old)
    _change(folder, engine, replace(keyring, keys=kept), gate, (old.secret,), seed)


def _change(
    folder: Path,
    engine: "LocalEngine",
    keyring: Keyring,
    gate: Gate,
    old: Sequence[str],
    seed: int,
) -> None:
    _write(
        folder,
        keyring,
        train(engine, keyring, gate.adapters, tau=gate.tau, seed=seed, old=old),
    )


def _read(folder: Path) -> tuple[Keyring, Gate]:
    try:
        content = (folder / GATE).read_bytes()
    except OSError as error:
        raise InputError(f"The gate {folder / GATE} cannot be read: {error.strerror}.") from None
    _finish(folder, content)
    keyring, wanted = key_file.read(folder / KEYS)
    if hashlib.sha256(content).hexdigest() != wanted:
        raise InputError(f"The key file {folder / KEYS} belongs to another gate or run.")
    return keyring, from_bytes(content, folder / GATE)


def _finish(folder: Path, content: bytes) -> None:
    """Finish or undo a change that was cut short; `content` is the gate file's."""
    if not (folder / WAITING).is_file():
        return
    _, wanted = key_file.read(folder / WAITING)
    if hashlib.sha256(content).hexdigest() == wanted:
        with suppress(FileNotFoundError):  # whoever changes the keys was faster
            (folder / WAITING).replace(folder / KEYS)
    else:
        (folder / WAITING).unlink(missing_ok=True)


def _secrets(folder: Path) -> Sequence[str]:
    return key_file.read(folder / KEYS)[0].texts


def _write(folder: Path, keyring: Keyring, gate: Gate) -> None:
    content = gate.to_bytes()
    digest = hashlib.sha256(content).hexdigest()
    key_file.write(keyring, folder / WAITING, digest)
    with atomic(folder / GATE) as temporary:
        temporary.write_bytes(content)
    # Written, not renamed: whoever opened the folder meanwhile may have taken the one that waits.
    key_file.write(keyring, folder / KEYS, digest)
    (folder / WAITING).unlink(missing_ok=True)
