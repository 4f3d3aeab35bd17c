"""A client's folder: its keys and gate, made, opened, and changed without touching an adapter.

The key file names the SHA-256 of its gate. A change writes the new key file beside the old one,
then the gate, and then puts the key file in place. After an interruption, anyone who opens the
folder next finds the new key file waiting: it is put in place if it fits the gate, and deleted if
the gate is the old one. So a folder has the old keys or the new ones, and never both or neither.
One process at a time changes keys: a lock on the folder sees to that.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from fedaudit.api import InputError, ModelEngine, UsageError, unknown_name_error
from fedaudit.system.files import atomic
from fedaudit.system.staging import remove_stale_stages

from . import keys as key_file
from .gate import HARDENED, GateDesign, TrainedGate, from_bytes
from .keys import Key, Keyring, new_secret
from .responder import GateResponder
from .training import train

GATE, KEYS, PENDING_KEYS = "gate.safetensors", "keys.json", "keys.json.new"


def create(
    folder: Path,
    engine: ModelEngine,
    adapters: Sequence[str],
    *,
    tau: float,
    design: GateDesign = HARDENED,
    seed: int,
) -> list[float]:
    """Draw a key for each of `adapters` but the first, the secure one, and train their gate.

    Returns the loss of each step of the training.
    """
    keyring, losses = Keyring.new(adapters[1:]), list[float]()
    gate = train(
        engine, keyring, adapters, tau=tau, design=design, seed=seed, on_loss=losses.append
    )
    _write(folder, keyring, gate)
    return losses


def load(
    folder: Path, engine: ModelEngine, other_folders: Sequence[Path] = (), seed: int = 0
) -> GateResponder:
    """Return the responder of `folder`; `other_folders` are folders of other organisations.

    Raises InputError where keys and gate do not belong together or are not there.
    """
    if (folder / PENDING_KEYS).exists():
        with suppress(BlockingIOError), _folder_lock(folder, wait=False):
            _finish(folder)
    keyring, gate = _read(folder)
    foreign = [secret for path in other_folders for secret in _secrets(path)]
    folders = {name: folder / name for name in gate.adapters}
    return GateResponder(engine, gate, keyring, folders, foreign=foreign, seed=seed)


def rotate(folder: Path, engine: ModelEngine, name: str, seed: int = 0) -> None:
    """Draw a new key in place of the one called `name`."""
    with _opened(folder) as (keyring, gate):
        old = keyring.key(name)
        keys = tuple(replace(k, secret=new_secret()) if k is old else k for k in keyring.keys)
        _change(folder, engine, replace(keyring, keys=keys), gate, (old.secret,), seed)


def add(folder: Path, engine: ModelEngine, name: str, adapter: str, seed: int = 0) -> None:
    """Draw a further key, called `name`, for `adapter`."""
    with _opened(folder) as (keyring, gate):
        if adapter not in gate.adapters[1:]:
            raise unknown_name_error("adapter behind a key", adapter, gate.adapters[1:])
        if any(key.name == name for key in keyring.keys):
            raise UsageError(f"There is a key called {name} already: rotate it, or name another.")
        try:
            new = Key(name=name, adapter=adapter, secret=new_secret())
        except ValueError as error:
            raise UsageError(str(error)) from None
        _change(folder, engine, replace(keyring, keys=(*keyring.keys, new)), gate, (), seed)


def revoke(folder: Path, engine: ModelEngine, name: str, seed: int = 0) -> None:
    """Take away the key called `name`."""
    with _opened(folder) as (keyring, gate):
        old = keyring.key(name)
        remaining_keys = tuple(key for key in keyring.keys if key is not old)
        _change(folder, engine, replace(keyring, keys=remaining_keys), gate, (old.secret,), seed)


@contextmanager
def _opened(folder: Path) -> Iterator[tuple[Keyring, TrainedGate]]:
    """Give the keys and the gate of a folder that no other process changes meanwhile."""
    with _folder_lock(folder):
        _finish(folder)
        yield _read(folder)


def _change(
    folder: Path,
    engine: ModelEngine,
    keyring: Keyring,
    gate: TrainedGate,
    old: Sequence[str],
    seed: int,
) -> None:
    _write(
        folder,
        keyring,
        train(engine, keyring, gate.adapters, tau=gate.tau, design=gate.design, seed=seed, old=old),
    )


def _read(folder: Path) -> tuple[Keyring, TrainedGate]:
    """Return the gate, and the keys of that one of the two key files that fits it.

    While keys are changed, the gate may be replaced between the reads: it is then read once more.
    """
    for _ in range(2):
        content = _gate(folder)
        digest = hashlib.sha256(content).hexdigest()
        waiting = [PENDING_KEYS] if (folder / PENDING_KEYS).exists() else []
        for name in (KEYS, *waiting):
            keyring, expected_digest = key_file.read(folder / name)
            if expected_digest == digest:
                return keyring, from_bytes(content, folder / GATE)
    raise InputError(f"The key file {folder / KEYS} belongs to another gate or run.")


def _gate(folder: Path) -> bytes:
    try:
        return (folder / GATE).read_bytes()
    except OSError as error:
        raise InputError(f"The gate {folder / GATE} cannot be read: {error.strerror}.") from None


def _finish(folder: Path) -> None:
    """Finish or undo a change that was cut short, while no other process changes the folder."""
    if not (folder / PENDING_KEYS).is_file():
        return
    _, expected_digest = key_file.read(folder / PENDING_KEYS)
    if hashlib.sha256(_gate(folder)).hexdigest() == expected_digest:
        (folder / PENDING_KEYS).replace(folder / KEYS)
    else:
        (folder / PENDING_KEYS).unlink(missing_ok=True)


def _secrets(folder: Path) -> Sequence[str]:
    """Return another organisation's keys, where they can be read: they are not needed here."""
    try:
        return key_file.read(folder / KEYS)[0].texts
    except InputError:
        return ()


@contextmanager
def _folder_lock(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Let one process at a time change the keys of a folder.

    Raises BlockingIOError where another process is changing them and this one does not wait.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{folder} cannot be opened: {error.strerror}.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _write(folder: Path, keyring: Keyring, gate: TrainedGate) -> None:
    remove_stale_stages(folder)  # of a change that was killed while it wrote
    content = gate.to_bytes()
    digest = hashlib.sha256(content).hexdigest()
    key_file.write(keyring, folder / PENDING_KEYS, digest)
    with atomic(folder / GATE, mode=0o600) as temporary:
        temporary.write_bytes(content)
    # Written, not renamed: anyone who opened the folder meanwhile may have moved the waiting file.
    key_file.write(keyring, folder / KEYS, digest)
    (folder / PENDING_KEYS).unlink(missing_ok=True)
