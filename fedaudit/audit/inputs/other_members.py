"""Other members' records, whose strings do not count as exclusive to the victim."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.audit.target import AuditTarget
from fedaudit.data import corpus, near_duplicates
from fedaudit.federation import manifest
from fedaudit.pii.normalized_search import fold

if TYPE_CHECKING:
    from fedaudit.audit.inputs.input_file import InputFile
    from fedaudit.audit.request import AuditRequest

NO_MEMBERS_CAVEAT = (
    "No other member's documents were at hand (--member): strings that other members also have "
    "count as the victim's."
)


MOST = 0.5
"""With a greater share of records that are near duplicates of the victim's, a member is the victim.

In simulated corpora (docs/extraction-attacks.md) copies have 0.8 or more, other clients that write
with the same templates have 0, and those with other records of the same people at most 0.4.
"""


def member_files(request: "AuditRequest", audited: AuditTarget) -> dict[str, Path]:
    """Return the files of members other than attacker and victim, by name.

    They are those given by the user, or else those in the federation's folder whose hashes are in
    its manifest. There are none without a victim.
    """
    if request.victim_path is None:
        return {}
    named = {path.stem: path for path in request.members}
    if len(named) < len(request.members):
        named = {str(path): path for path in request.members}
    return _unless_attacked(request, named or _vouched(audited))


def victim_copies(victim: "InputFile | None", members: Mapping[str, "InputFile"]) -> list[str]:
    """Return the members whose records are mostly near duplicates of the victim's.

    They are the victim itself: its records may have been given as another file than this one, in
    part, with later ones, masked, cut off or re-wrapped. All files are annotated.
    """
    if victim is None:
        return []
    return [
        name
        for name, file in members.items()
        if near_duplicates.share_of_copies(file.documents, victim.documents) > MOST
    ]


def victim_copies_caveat(names: Sequence[str]) -> str:
    """Return the caveat that says which members were taken for the victim."""
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    have = "have" if names[1:] else "has"
    return (
        f"{listed} {have} the victim's own records, most of them at least (as they are, masked, "
        "cut off or re-wrapped): taken for the victim, not for another member."
    )


def unvouched_caveats(request: "AuditRequest", audited: AuditTarget) -> list[str]:
    """Return a caveat that names the federation's data files that its manifest has no hash of."""
    if request.victim_path is None or request.members:
        return []
    known = _vouched(audited)
    files = _unless_attacked(request, _client_files(audited))
    names = [name for name in files if name not in known]
    if not names:
        return []
    return [
        f"{manifest.NAME} has no hash of the data of {', '.join(names)}: strings in these files "
        "still count as the victim's (--member names other members' files)."
    ]


def shared_records_caveats(attacker: "InputFile", victim: "InputFile | None") -> list[str]:
    """Return a caveat with the number of the victim's records that the attacker has, if any."""
    if victim is None:
        return []
    known = {fold(document.text) for document in attacker.documents}
    count = sum(fold(document.text) in known for document in victim.documents)
    if not count:
        return []
    return [
        f"{count:,} of the victim's {len(victim.documents):,} records are in the attacker's file "
        "as well: extraction does not look for what is in them."
    ]


def check_files(request: "AuditRequest") -> None:
    """Raise InputError for a given file that does not exist or is no file."""
    for path in (*request.members, *([request.control] if request.control else [])):
        corpus.existing_file(path)


def _unless_attacked(request: "AuditRequest", files: Mapping[str, Path]) -> dict[str, Path]:
    """Return `files` without those of attacker and victim."""
    excluded = {path.resolve() for path in (request.input_path, request.victim_path) if path}
    return {name: path for name, path in files.items() if path.resolve() not in excluded}


def _vouched(audited: AuditTarget) -> dict[str, Path]:
    """Return the clients' files whose hashes are in the manifest, checked when it was opened."""
    if audited.federation is None:
        return {}
    hashes = audited.federation.manifest.files
    data = {client.id: client.data for client in audited.federation.manifest.clients}
    return {name: path for name, path in _client_files(audited).items() if data[name] in hashes}


def _client_files(audited: AuditTarget) -> dict[str, Path]:
    if audited.federation is None:
        return {}
    folder = audited.federation.path
    clients = audited.federation.manifest.clients
    files = {client.id: folder / client.data for client in clients if client.data}
    return {name: path for name, path in files.items() if path.is_file()}
