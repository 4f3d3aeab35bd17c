"""What is under audit: from --target, --adapter and --round to a base and an adapter."""

from dataclasses import dataclass, replace
from pathlib import Path

from fedaudit import nano
from fedaudit.errors import InputError, UsageError
from fedaudit.federation import adapters
from fedaudit.federation.folder import Federation, is_federation, latest, open_federation

RUNS = Path("runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A base and, unless the base itself is audited, the adapter on it."""

    base: str
    base_sha256: str = ""
    """What the federation says its base is; empty when it says nothing."""
    adapter: Path | None = None
    federation: Federation | None = None
    round: int | None = None
    found: bool = False
    last: bool = False
    """Whether what was taken is the federation written last, not the one of the data."""
    """Whether no target was named, so that the user must be told which was taken."""


def resolve(
    target: str | None, adapter: str | None, number: int | None, data: Path | None = None
) -> Audited:
    """Return what the options mean; checks files, but loads no model.

    A federation's folder gives base and adapter; anything else is a base, and --adapter goes on
    top of it. Without a target it is the federation whose folder `data` lies in, or else the one
    written last below runs/.
    """
    around = _around(data)
    place = Path(target) if target else (around or latest(RUNS))
    if place is None:
        raise UsageError(
            "There is no --target and no federation below runs/: name one, or run "
            "`fedaudit simulate --profile fed_pii` first."
        )
    if is_federation(place):
        opened = _federation(open_federation(place), adapter, number)
        return replace(opened, found=target is None, last=target is None and around is None)
    if number is not None:
        raise UsageError("--round goes with a federation's folder as --target.")
    if place.is_dir() and (place / adapters.CONFIG).exists():
        raise UsageError(
            f"{place} is an adapter: name its base with --target and it with --adapter {place}."
        )
    if target != nano.BASE and not place.exists() and _is_path(str(target)):
        raise InputError(f"There is no target {target}.")
    if place.is_dir() and not (place / "config.json").exists():
        raise InputError(f"{place} is neither a federation (federation.json) nor a model.")
    return Audited(base=str(target), adapter=_adapter(adapter))


def _federation(federation: Federation, adapter: str | None, number: int | None) -> Audited:
    base = federation.manifest.base
    if adapter is not None:
        if number is not None:
            raise UsageError("--round and --adapter exclude each other.")
        chosen, folder = None, _adapter(adapter)
    else:
        chosen, folder = federation.adapter(number)
    return Audited(
        base=base.name,
        base_sha256=base.sha256,
        adapter=folder,
        federation=federation,
        round=chosen,
    )


def _around(data: Path | None) -> Path | None:
    """Return the federation's folder whose data/ holds the file `data`."""
    if data is None or data.parent.name != "data" or not is_federation(data.parent.parent):
        return None
    return data.parent.parent


def _adapter(name: str | None) -> Path | None:
    if name is None:
        return None
    adapters.check(Path(name))
    return Path(name)


def _is_path(name: str) -> bool:
    """Tell whether a name that does not exist was meant as a path, not as a hub id."""
    return name.startswith((".", "/", "~")) or name.count("/") != 1
