"""A federation's folder, checked on reading before anything heavy is imported."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import PromptTemplate
from fedaudit.federation import adapters, manifest
from fedaudit.federation.adapter_origin import other_base_caveats
from fedaudit.federation.manifest import Manifest
from fedaudit.system.file_reader import FileReader
from fedaudit.system.names import check_inside

_log = logging.getLogger(__name__)

DEPLOYED = "defense"
"""The folder of a defence's deployment, with one folder for each client."""


@dataclass(frozen=True, slots=True)
class Federation:
    """A federation whose files are all there and unchanged."""

    path: Path
    manifest: Manifest
    configs: tuple[Mapping[str, Any], ...] = ()
    """The configurations of its adapters, except those that are refused when they are read."""

    @property
    def template(self) -> PromptTemplate:
        """The template that the federation's instruction records were rendered with."""
        form = self.manifest.template
        return PromptTemplate(form.name, form.with_input, form.without_input)

    def adapter(self, number: int | None = None) -> tuple[int, Path]:
        """Return (round, folder) of the global adapter after a round; None is the last."""
        rounds = {r.round: r.adapter for r in self.manifest.rounds}
        last = max(rounds)
        if number is None and self.manifest.status != "complete":
            raise InputError(
                f"{self.path} stopped after round {last}: finish it by giving the same simulate "
                f"command again, or audit it as it is with --round {last}."
            )
        chosen = last if number is None else number
        if chosen not in rounds:
            listing = name_rounds(list(rounds))
            raise UsageError(f"{self.path} has {listing}, no round {chosen}.")
        return chosen, self.path / rounds[chosen]

    @property
    def record_files(self) -> dict[str, Path]:
        """The files of clients' records that are in the folder, by client."""
        files = {c.id: self.path / c.data for c in self.manifest.clients if c.data}
        return {name: path for name, path in files.items() if path.is_file()}

    def client_of_update(self, folder: Path) -> str:
        """Return the client that sent the adapter in `folder` as its update; empty for none."""
        updates = (one for finished in self.manifest.rounds for one in finished.clients.items())
        resolved = folder.resolve()
        names = (name for name, path in updates if (self.path / path).resolve() == resolved)
        return next(names, "")


def client_order(name: str) -> tuple[str, int, str]:
    """Return a sort key that puts the client c2 before c10."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0), name


def name_rounds(numbers: Sequence[int]) -> str:
    """Return round numbers in words, in order: "rounds 0 to 3", "rounds 5, 10 and 12 to 15"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    names = [str(s[0]) if len(s) == 1 else f"{s[0]} to {s[-1]}" for s in spans]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{'round' if len(numbers) == 1 else 'rounds'} {listed}"


def check_consecutive(federation: Federation) -> None:
    """Raise InputError unless every round from 0 on is stored, as attribution needs.

    A client's update is computed from the global adapter of the round before.
    """
    numbers = [r.round for r in federation.manifest.rounds]
    if numbers != list(range(len(numbers))):
        raise InputError(
            f"{federation.path} has {name_rounds(numbers)} only: attribution needs all of them, "
            "from 0 on, and what each client sent."
        )


def is_federation(path: Path) -> bool:
    """Tell whether `path` is a federation's folder, or the `rounds` folder of one."""
    return (_root(path) / manifest.NAME).is_file()


def open_federation(path: Path, files: FileReader | None = None) -> Federation:
    """Return the federation in `path` (or whose `rounds` folder it is), fully checked.

    `files` reads its files for a command that needs them again. Raises InputError for a missing
    round, a missing file, a hash that does not match, or an adapter that is not LoRA in
    safetensors.
    """
    root, files = _root(path), files or FileReader()
    manifest_ = manifest.read(root, files.read)
    try:
        _check_files(root, manifest_, files)
        _log.info(
            "opened the federation %s: %d rounds, %d clients, %d files as its manifest names them",
            root,
            len(manifest_.rounds) - 1,
            len(manifest_.clients),
            len(manifest_.files),
        )
        return Federation(root, manifest_, tuple(_configs(root, manifest_, files)))
    except OSError as error:
        raise InputError(f"{root} cannot be read: {error}.") from None


def _check_files(root: Path, manifest_: Manifest, files: FileReader) -> None:
    for finished in manifest_.rounds:
        for name in (finished.adapter, *finished.clients.values()):
            own = (*adapters.TOKENIZER, *adapters.tokenizer_files(root / name))
            for file in (adapters.CONFIG, adapters.WEIGHTS, *own):
                check_inside(f"{name}/{file}", root / manifest.NAME)
        if not (root / finished.adapter).is_dir():
            raise InputError(
                f"{root} misses round {finished.round}: there is no {finished.adapter}."
            )
        adapters.check(root / finished.adapter, files.read)
    for name, expected_hash in manifest_.files.items():
        if not (root / name).is_file():
            raise InputError(f"{root} misses {name}, which its manifest names.")
        if files.sha256(root / name) != expected_hash:
            raise InputError(f"{root / name} is not the file that {manifest.NAME} names (SHA-256).")


def unchecked_caveats(federation: Federation | None) -> list[str]:
    """Return sentences on what could not be checked, for example files without a hash."""
    if federation is None:
        return []
    manifest_ = federation.manifest
    unchecked_parts = [] if manifest_.base.sha256 else ["its base"]
    adapters_ = [name for r in manifest_.rounds for name in (r.adapter, *r.clients.values())]
    named = [f"{name}/{file}" for name in adapters_ for file in (adapters.CONFIG, adapters.WEIGHTS)]
    for name in dict.fromkeys(r.adapter for r in manifest_.rounds):
        named += [f"{name}/{f}" for f in adapters.tokenizer_files(federation.path / name)]
    named += [name for r in manifest_.rounds for name in r.sums]
    named += [client.data for client in manifest_.clients if client.data]
    if lacking := [name for name in dict.fromkeys(named) if name not in manifest_.files]:
        suffix = f" and {len(lacking) - 1:,} more files" if len(lacking) > 1 else ""
        unchecked_parts.append(f"{lacking[0]}{suffix}")
    limits = [
        f"Integrity not checked: {manifest.NAME} has no hash of {name}." for name in unchecked_parts
    ]
    limits += other_base_caveats(federation.configs, manifest_.base.name, manifest.NAME)
    if manifest_.imported is not None:
        notes = manifest_.imported.get("notes")
        limits.append(
            f"Imported from the layout {manifest_.imported.get('layout')}, as it was left."
        )
        limits += [str(note) for note in notes] if isinstance(notes, list) else []
    return [*limits, *recording_caveats(manifest_)]


def _configs(root: Path, manifest_: Manifest, files: FileReader) -> Iterator[Mapping[str, Any]]:
    """Yield the configurations of all adapters."""
    folders = (name for r in manifest_.rounds for name in (r.adapter, *r.clients.values()))
    for folder in dict.fromkeys(folders):
        try:
            yield adapters.check(root / folder, files.read)
        except InputError:  # a deployment's folder, or an adapter that is refused when it is read
            continue


def recording_caveats(manifest_: Manifest) -> list[str]:
    """Return sentences with what a recorded run states about itself, none of it checked."""
    recording = manifest_.recorded
    if recording is None:
        return []
    notes, noise = recording.get("notes"), recording.get("privacy")
    limits = [
        f"Recorded from {recording.get('framework')} {recording.get('version')}, strategy "
        f"{recording.get('strategy')}; clients' names and numbers of examples are what they said."
    ]
    if isinstance(noise, dict):
        limits.append(_noise_caveat(noise))
    return limits + ([str(note) for note in notes] if isinstance(notes, list) else [])


def _noise_caveat(noise: Mapping[str, Any]) -> str:
    """Return in words what a strategy stated about its differential privacy."""
    sigma, norm = noise.get("noise_multiplier"), noise.get("clipping_norm")
    text = f"{noise.get('mechanism')}: noise multiplier {sigma}, clipping norm {norm}"
    if (epsilon := noise.get("epsilon")) is None:
        return f"{text}; nothing counted its epsilon."
    return (
        f"{text}; it claims epsilon {epsilon} at delta {noise.get('delta')} after "
        f"{noise.get('releases')} releases, of whole clients and of the global adapter only."
    )


def latest(below: Path) -> Path | None:
    """Return the federation folder that was written last directly below `below`."""
    federations = [path for path in _folders(below) if is_federation(path)]
    return max(federations, key=lambda p: (p / manifest.NAME).stat().st_mtime_ns, default=None)


def _folders(below: Path) -> Iterator[Path]:
    """Yield the folders in `below`; hidden ones are simulations that were never set up."""
    if below.is_dir():
        yield from (p for p in below.iterdir() if p.is_dir() and not p.name.startswith("."))


def _root(path: Path) -> Path:
    """Return the folder above a federation's `rounds` folder (or a link to it), else `path`."""
    named = (path, Path(os.path.realpath(path)))  # realpath: a loop of links raises nothing
    return next((folder.parent for folder in named if _is_rounds(folder)), path)


def _is_rounds(folder: Path) -> bool:
    return folder.name == "rounds" and (folder.parent / manifest.NAME).is_file()


class FederationReader(FileReader):
    """Opens each federation once and reads each file once, for all steps of one command."""

    def __init__(self) -> None:
        super().__init__()
        self._federations: dict[Path, Federation] = {}

    def federation(self, path: Path) -> Federation:
        """Return the checked federation in a folder; raises InputError as `open_federation`."""
        if path not in self._federations:
            self._federations[path] = open_federation(path, self)
        return self._federations[path]

    def reopen(self, path: Path) -> Federation:
        """Return a federation as it is now; its files are read again where they have changed."""
        self._federations.pop(path, None)
        return self.federation(path)
