"""A federation's folder, checked on reading before anything heavy is imported."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        rounds = {one.round: one.adapter for one in self.manifest.rounds}
        last = max(rounds)
        if number is None and self.manifest.status != "complete":
            raise InputError(
                f"{self.path} stopped after round {last}: finish it by giving the same simulate "
                f"command again, or audit it as it is with --round {last}."
            )
        chosen = last if number is None else number
        if chosen not in rounds:
            told = name_rounds(list(rounds))
            raise UsageError(f"{self.path} has {told}, no round {chosen}.")
        return chosen, self.path / rounds[chosen]


def name_rounds(numbers: Sequence[int]) -> str:
    """Return what rounds there are, in order: "rounds 0 to 3", "rounds 5, 10 and 12 to 15"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    told = [str(s[0]) if len(s) == 1 else f"{s[0]} to {s[-1]}" for s in spans]
    listed = " and ".join(filter(None, (", ".join(told[:-1]), told[-1])))
    return f"{'round' if len(numbers) == 1 else 'rounds'} {listed}"


def check_consecutive(federation: Federation) -> None:
    """Raise InputError unless every round from 0 on is there, as attribution needs them.

    What a client changed is told from the global adapter of the round before.
    """
    numbers = [one.round for one in federation.manifest.rounds]
    if numbers != list(range(len(numbers))):
        raise InputError(
            f"{federation.path} has {name_rounds(numbers)} only: attribution needs all of them, "
            "from 0 on, and what each client sent."
        )


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
    limits = [f"Integrity not checked: {manifest.NAME} has no hash of {one}." for one in told]
    if found.imported is not None:
        notes = found.imported.get("notes")
        limits.append(f"Imported from the layout {found.imported.get('layout')}, as it was left.")
        limits += [str(one) for one in notes] if isinstance(notes, list) else []
    return [*limits, *recording_caveats(found)]


def recording_caveats(found: Manifest) -> list[str]:
    """Return in sentences what a recorded run says of itself; nobody has checked it."""
    told = found.recorded
    if told is None:
        return []
    notes, noise = told.get("notes"), told.get("privacy")
    limits = [
        f"Recorded from {told.get('framework')} {told.get('version')}, strategy "
        f"{told.get('strategy')}; clients' names and numbers of examples are what they said."
    ]
    if isinstance(noise, dict):
        limits.append(_noise_caveat(noise))
    return limits + ([str(one) for one in notes] if isinstance(notes, list) else [])


def _noise_caveat(noise: Mapping[str, Any]) -> str:
    """Return what a strategy said of its differential privacy."""
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
    found = [path for path in _folders(below) if is_federation(path)]
    return max(found, key=lambda p: (p / manifest.NAME).stat().st_mtime_ns, default=None)


def _folders(below: Path) -> Iterator[Path]:
    """Yield the folders in `below`; hidden ones are simulations that were never set up."""
    if below.is_dir():
        yield from (p for p in below.iterdir() if p.is_dir() and not p.name.startswith("."))


def _root(path: Path) -> Path:
    named_rounds = path.name == "rounds" and (path.parent / manifest.NAME).is_file()
    return path.parent if named_rounds else path
