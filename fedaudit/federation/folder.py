"""A federation's folder, checked on reading before anything heavy is imported."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import PromptTemplate
from fedaudit.federation import adapters, manifest
from fedaudit.federation.manifest import Manifest
from fedaudit.system.files import sha256
from fedaudit.system.names import check_inside

DEPLOYED = "defense"
"""The folder of what a defence deployed, with one folder for each client."""


@dataclass(frozen=True, slots=True)
class Federation:
    """A federation whose files are all there and unchanged."""

    path: Path
    manifest: Manifest

    @property
    def template(self) -> PromptTemplate:
        """The template that the federation's instruction records were rendered with."""
        form = self.manifest.template
        return PromptTemplate(form.name, form.with_input, form.without_input)

    def adapter(self, number: int | None = None) -> tuple[int, Path]:
        """Return (round, folder) of the global adapter after a round; None is the last."""
        rounds = self.manifest.rounds
        last = len(rounds) - 1
        if number is None and self.manifest.status != "complete":
            raise InputError(
                f"{self.path} stopped after round {last}: finish it by giving the same simulate "
                f"command again, or audit it as it is with --round {last}."
            )
        chosen = last if number is None else number
        if not 0 <= chosen <= last:
            raise UsageError(f"{self.path} has rounds 0 to {last}, no round {chosen}.")
        return chosen, self.path / rounds[chosen].adapter


def is_federation(path: Path) -> bool:
    """Tell whether `path` is a federation's folder, or the `rounds` folder of one."""
    return (_root(path) / manifest.NAME).is_file()


def open_federation(path: Path) -> Federation:
    """Return the federation in `path` (or whose `rounds` folder it is), fully checked.

    Raises InputError for a missing round, a missing file, a hash that does not match, or an
    adapter that is not LoRA in safetensors.
    """
    root = _root(path)
    found = manifest.read(root)
    try:
        _check_files(root, found)
    except OSError as error:
        raise InputError(f"{root} cannot be read: {error}.") from None
    return Federation(root, found)


def _check_files(root: Path, found: Manifest) -> None:
    for finished in found.rounds:
        for name in (finished.adapter, *finished.clients.values()):
            for file in (adapters.CONFIG, adapters.WEIGHTS):
                check_inside(f"{name}/{file}", root / manifest.NAME)
        if not (root / finished.adapter).is_dir():
            raise InputError(
                f"{root} misses round {finished.round}: there is no {finished.adapter}."
            )
        adapters.check(root / finished.adapter)
    for name, wanted in found.files.items():
        if not (root / name).is_file():
            raise InputError(f"{root} misses {name}, which its manifest names.")
        if sha256(root / name) != wanted:
            raise InputError(f"{root / name} is not the file that {manifest.NAME} names (SHA-256).")


def unchecked_caveats(federation: Federation | None) -> list[str]:
    """Return in sentences what nobody could check: what a manifest names and has no hash of."""
    if federation is None:
        return []
    found = federation.manifest
    told = [] if found.base.sha256 else ["its base"]
    adapters_ = [name for one in found.rounds for name in (one.adapter, *one.clients.values())]
    named = [f"{name}/{file}" for name in adapters_ for file in (adapters.CONFIG, adapters.WEIGHTS)]
    named += [name for one in found.rounds for name in one.sums]
    named += [client.data for client in found.clients if client.data]
    if lacking := [name for name in dict.fromkeys(named) if name not in found.files]:
        more = f" and {len(lacking) - 1:,} more files" if len(lacking) > 1 else ""
        told.append(f"{lacking[0]}{more}")
    return [f"Integrity not checked: {manifest.NAME} has no hash of {one}." for one in told]


def latest(below: Path) -> Path | None:
    """Return the federation folder that was written last directly below `below`."""
    found = [path for path in _folders(below) if is_federation(path)]
    return max(found, key=lambda p: (p / manifest.NAME).stat().st_mtime_ns, default=None)


def _folders(below: Path) -> Iterator[Path]:
    """Yield the folders in `below`; hidden ones are simulations that were never set up."""
    if below.is_dir():
        yield from (p for p in below.iterdir() if p.is_dir() and not p.name.startswith("."))


def _root(path: Path) -> Path:
    named_rounds = path.name == "rounds" and (path.parent / manifest.NAME).is_file()
    return path.parent if named_rounds else path
