"""What is available for an audit: documents, held-out records, canaries, marks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedaudit import nano
from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.clients import read_clients
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.records import HELD_OUT
from fedaudit.audit.request import ClientData
from fedaudit.audit.target import AuditTarget, resolve
from fedaudit.canaries import canary_file
from fedaudit.data.corpus import is_empty
from fedaudit.federation import watermark_keys
from fedaudit.system.files import existing_path, suggest_neighbour

CANARIES = ("canaries.json", canary_file.OWNER)
"""The paths at which a federation's folder may have a file of canaries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Files that an audit may use; files that the user names go before those in a folder."""

    audited: AuditTarget
    prefixes: Path | None = None
    """The attacker's documents."""
    victim: Path | None = None
    further_pairs: tuple[tuple[Path, Path], ...] = ()
    """The documents of an attacker and of each other client as the victim, unless some were named.
    """
    clients: tuple[ClientData, ...] = ()
    """Every client whose documents are available, by name."""
    held_out: Path | None = None
    canaries: Path | None = None
    named_canaries: bool = False
    """Whether the user named the canaries, and does not only have them in the folder."""
    marks: Path | None = None
    names: Mapping[Path, str] = field(default_factory=dict)
    """The client that each file belongs to, where a federation says so."""
    alone: bool = False
    """Whether the victim was named, or is the client whose update is audited."""
    narrowed: str = ""
    """Why no other records than the attacker's and the victim's are used; empty if all are."""

    @property
    def absent_clients(self) -> tuple[str, ...]:
        """The federation's clients without records here; none if some were named."""
        federation = self.audited.federation
        if federation is None or self.alone:
            return ()
        at_hand = {client.name for client in self.clients}
        return tuple(one.id for one in federation.manifest.clients if one.id not in at_hand)

    def client_name(self, path: Path | None) -> str:
        """Return the client whose documents a file holds."""
        return "nobody" if path is None else self.names.get(path, path.name)


def discover(
    target: str | None,
    adapter: str | None = None,
    number: int | None = None,
    *,
    client: str | None = None,
    prefixes: Path | None = None,
    victim: Path | None = None,
    held_out: Path | None = None,
    canaries: Path | None = None,
    marks: Path | None = None,
    reader: InputReader,
) -> Material:
    """Return the material for an audit; files that are named must exist, and marks be readable.

    In a federation whose documents are available, the first client attacks each other one, and the
    second one the first; documents that are named as the attacker's attack each client whose they
    are not. Of a client's own update that client is the victim. Raises UsageError where there is
    nothing to attack with.
    """
    for path in filter(None, (prefixes, victim, held_out, canaries, marks)):
        if not existing_path(path, "file").is_file():
            raise InputError(f"{path} is not a regular file.")
    if marks:
        watermark_keys.read(marks, reader.read)
    audited = resolve(target, adapter, number, prefixes, client, victim, reader=reader)
    files = audited.record_files
    clients = read_clients(list(files.items()), reader) if files else ()
    named = bool(prefixes or victim)
    alone = bool(victim or audited.update_of)
    victim = victim or files.get(audited.update_of)
    if audited.update_of and not victim:
        raise UsageError(
            f"The records of {audited.update_of}, whose update it is, are not in the folder: name "
            "them with --victim."
        )
    asked = {name: path for name, path in files.items() if not is_empty(path, reader.open)}
    attacker_file = prefixes or next(iter(_others(asked, victim)), None)
    victims = _others(asked, _original(files, attacker_file, reader)) if attacker_file else []
    victim_file = victim or next(iter(victims), None)
    if attacker_file is None and canaries is None:
        path = Path(target or ".")
        if adapter or target == nano.BASE or path.exists():
            missing = ""
        elif "/" in str(target):  # a hub id: paths that are not there were refused before
            missing = (
                f"There is no folder {target}; a model on the hub also needs --adapter, which "
                "names what to audit. "
            )
        else:
            missing = f"There is no federation {path}.{suggest_neighbour(path)} "
        raise UsageError(
            f"{missing}There are no documents to attack with: name your own with --prefixes, and "
            "with --victim those that must not come out."
        )
    root = audited.federation.path if audited.federation else None
    narrowed = _why_narrowed(audited.update_of, named=named)
    pairs: list[tuple[Path, Path]] = []
    if attacker_file and victim_file and not alone:
        pairs = [(attacker_file, other) for other in victims[1:]]
        if not prefixes:
            pairs.append((victim_file, attacker_file))
    return Material(
        audited=audited,
        prefixes=attacker_file,
        victim=victim_file,
        further_pairs=tuple(pairs),
        clients=clients,
        held_out=held_out or _file(root, HELD_OUT),
        named_canaries=canaries is not None,
        canaries=canaries or next(filter(None, (_file(root, name) for name in CANARIES)), None),
        marks=marks or _file(root, watermark_keys.OWNER),
        names={path: name for name, path in files.items()},
        alone=alone,
        narrowed=narrowed,
    )


def _file(root: Path | None, name: str) -> Path | None:
    return root / name if root is not None and (root / name).is_file() else None


def _others(files: Mapping[str, Path], than: Path | None) -> list[Path]:
    """Return the clients' files but this one, each once."""
    unique = dict.fromkeys(files.values())
    return [path for path in unique if than is None or not path.samefile(than)]


def _original(files: Mapping[str, Path], copy: Path, reader: InputReader) -> Path:
    """Return the client's file that this one is a copy of, or itself."""
    digest = reader.sha256(copy)
    return next((path for path in files.values() if reader.sha256(path) == digest), copy)


def _why_narrowed(update_of: str, *, named: bool) -> str:
    if update_of:
        return f"only the update of {update_of} is audited"
    return "--prefixes or --victim names whose records are asked about" if named else ""
