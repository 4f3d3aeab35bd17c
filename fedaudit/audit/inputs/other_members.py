"""Other members' records, whose strings do not count as exclusive to the victim."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.audit.target import AuditTarget
from fedaudit.data import corpus
from fedaudit.pii.normalized_search import fold

if TYPE_CHECKING:
    from fedaudit.audit.inputs.input_file import InputFile
    from fedaudit.audit.request import AuditRequest

NO_MEMBERS_CAVEAT = (
    "No other member's documents were at hand (--member): strings that other members also have "
    "count as the victim's."
)


def member_files(request: "AuditRequest", audited: AuditTarget) -> dict[str, Path]:
    """Return the files of members other than attacker and victim, by name.

    They are those given by the user, or else those in the federation's folder. There are none
    without a victim.
    """
    if request.victim_path is None:
        return {}
    named = {path.stem: path for path in request.members}
    if len(named) < len(request.members):
        named = {str(path): path for path in request.members}
    files = named or _client_files(audited)
    excluded_paths = {path.resolve() for path in (request.input_path, request.victim_path)}
    return {name: path for name, path in files.items() if path.resolve() not in excluded_paths}


def victim_copies(victim: "InputFile | None", members: Mapping[str, "InputFile"]) -> list[str]:
    """Return the members that share more than half of the victim's, or of their own, records.

    They are the victim itself: its records may have been given as another file than the
    federation's, in part, with later ones, or with other white space or Unicode forms.
    """
    texts = _texts(victim) if victim else set[str]()
    return [name for name, file in members.items() if _is_most(texts, _texts(file))]


def _texts(file: "InputFile") -> set[str]:
    return {fold(document.text) for document in file.documents}


def _is_most(texts: set[str], other_texts: set[str]) -> bool:
    """Tell whether two sets share more than half of the smaller set."""
    return 2 * len(texts & other_texts) > min(len(texts), len(other_texts))


def victim_copies_caveat(names: Sequence[str]) -> str:
    """Return the caveat that says which members were taken for the victim."""
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    return (
        f"{listed} of the federation's folder {'share' if names[1:] else 'shares'} most records "
        "with the victim: taken for the victim, not for another member; --member names other "
        "members."
    )


def shared_records_caveats(attacker: "InputFile", victim: "InputFile | None") -> list[str]:
    """Return a caveat with the number of the victim's records that the attacker has, if any."""
    if victim is None:
        return []
    known = _texts(attacker)
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


def _client_files(audited: AuditTarget) -> dict[str, Path]:
    if audited.federation is None:
        return {}
    folder = audited.federation.path
    clients = audited.federation.manifest.clients
    files = {client.id: folder / client.data for client in clients if client.data}
    return {name: path for name, path in files.items() if path.is_file()}
