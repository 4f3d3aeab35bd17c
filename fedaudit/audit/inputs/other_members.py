"""What other members of the federation have: strings that they share are not the victim's alone."""

from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError
from fedaudit.audit.target import AuditTarget
from fedaudit.system.files import existing_path

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest

ALONE = (
    "No other member's documents were at hand (--member): what others have as well counts as the "
    "victim's."
)


def member_files(request: "AuditRequest", audited: AuditTarget) -> dict[str, Path]:
    """Return the files of members beside attacker and victim, by name.

    They are those that were named, or else those that the federation's folder keeps. Nobody needs
    them without a victim.
    """
    if request.others is None:
        return {}
    named = {path.stem: path for path in request.members}
    if len(named) < len(request.members):
        named = {str(path): path for path in request.members}
    kept = named or _kept(audited)
    here = {path.resolve() for path in (request.own, request.others)}
    return {name: path for name, path in kept.items() if path.resolve() not in here}


def check_files(request: "AuditRequest") -> None:
    """Raise InputError for a file that was named and cannot be read as one."""
    for path in (*request.members, *([request.control] if request.control else [])):
        if not existing_path(path, "file").is_file():
            raise InputError(f"{path} is no regular file; a JSONL file is needed.")


def _kept(audited: AuditTarget) -> dict[str, Path]:
    if audited.federation is None:
        return {}
    folder = audited.federation.path
    clients = audited.federation.manifest.clients
    files = {client.id: folder / client.data for client in clients if client.data}
    return {name: path for name, path in files.items() if path.is_file()}
