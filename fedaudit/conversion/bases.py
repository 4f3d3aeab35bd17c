"""The base that adapters were trained on: named by the user, or by files and found locally."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from fedaudit import nano
from fedaudit.api.errors import FedauditError, InputError
from fedaudit.federation import manifest

CONFIG = "config.json"


def choose(base: str, named: Iterable[str], source: Path) -> str:
    """Return the base: the user's `base`, or else the one that all files name, if it is local.

    The user or a file must name a base, and only the user may name a model of the hub. Raises
    InputError if the user has to name it.
    """
    if base:
        return on_this_machine(base) or base
    names = sorted({name for name in named if name})
    if len(names) > 1:
        choices = " and ".join(map(repr, names[:2]))
        raise InputError(f"{source} names several bases, {choices}: say which with --base.")
    if folder := on_this_machine(names[0]):
        return folder
    raise InputError(
        f"{source} names the base {names[0]!r}, which is not a folder here: give its folder with "
        f"--base, or --base {shlex.quote(names[0])} if the hub's is meant."
    )


def describe(name: str) -> manifest.BaseModel:
    """Return a base with its fingerprint, which is empty if the base is not on this machine.

    Raises InputError for a folder that holds no model in safetensors.
    """
    from fedaudit.engine.loading import checkpoint

    path = folder(name)
    if path is None:
        return manifest.BaseModel(name=name, sha256="")
    checkpoint.check(path)
    return manifest.BaseModel(name=name, sha256=checkpoint.fingerprint(path))


def folder(name: str) -> Path | None:
    """Return the folder of a base, in the hub's cache too; None if it is not on this machine.

    Raises InputError for a name that is meant as a folder and is none.
    """
    path = nano.folder() if name == nano.BASE else Path(name)
    if path.is_dir():
        return path
    from fedaudit.engine.loading import loader  # it takes seconds to import

    try:
        return loader.locate(name, fetch=False)
    except FedauditError:
        if path.exists() or name.startswith((".", "/", "~")):
            raise
        return None


def on_this_machine(name: str) -> str:
    """Return the absolute path of a base that is a local folder, or the built-in base's name.

    The result is empty for any other base.
    """
    if name == nano.BASE:
        return name
    path = Path(name)
    return str(path.absolute()) if (path / CONFIG).is_file() else ""
