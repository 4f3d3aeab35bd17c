"""The base that adapters were trained on: named by the user, or by files and here."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from fedaudit import nano
from fedaudit.api.errors import FedauditError, InputError
from fedaudit.federation import manifest

CONFIG = "config.json"


def choose(given: str, named: Iterable[str], source: Path) -> str:
    """Return the base: the one given, or the one that all files name, where it is a folder here.

    Somebody names one. Nobody but the user names a model of the hub. Raises InputError where the
    user must.
    """
    if given:
        return on_this_machine(given) or given
    found = sorted({name for name in named if name})
    if len(found) > 1:
        said = " and ".join(map(repr, found[:2]))
        raise InputError(f"{source} names several bases, {said}: say which with --base.")
    if here := on_this_machine(found[0]):
        return here
    raise InputError(
        f"{source} names the base {found[0]!r}, which is no folder here: give its folder with "
        f"--base, or --base {shlex.quote(found[0])} if the hub's is meant."
    )


def describe(name: str) -> manifest.BaseModel:
    """Return a base with its fingerprint, empty where the base itself is not on this machine.

    Raises InputError for a folder that holds no model in safetensors.
    """
    from fedaudit.engine.loading import checkpoint

    path = nano.folder() if name == nano.BASE else Path(name)
    if not path.is_dir():
        from fedaudit.engine.loading import loader  # it takes seconds to import

        try:
            path = loader.locate(name, fetch=False)
        except FedauditError:
            if path.exists() or name.startswith((".", "/", "~")):
                raise
            return manifest.BaseModel(name=name, sha256="")
    checkpoint.check(path)
    return manifest.BaseModel(name=name, sha256=checkpoint.fingerprints(path)[0])


def on_this_machine(name: str) -> str:
    """Return a base that is a folder here by a name that does not depend on where one stands.

    Empty for any other; the built-in one is here.
    """
    if name == nano.BASE:
        return name
    path = Path(name)
    return str(path.absolute()) if (path / CONFIG).is_file() else ""
