"""The clients that manifests list before and after a member left, and where it never was."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.target import AuditTarget
from fedaudit.federation.folder import is_federation
from fedaudit.report.number_format import first_of

Participants = Mapping[str, int]
"""The number of records of each client that took part in any round; 0 if it is not known."""


NAMED = 10
"""The maximum number of clients that a caveat names."""


def participants(path: Path, reader: InputReader) -> Participants | None:
    """Return who took part in a federation; None if its manifest does not say, or there is none."""
    if not is_federation(path):
        return None
    manifest = reader.federation(path).manifest
    rounds = [finished for finished in manifest.rounds if finished.round > 0]
    if not rounds or not all(finished.participants for finished in rounds):
        return None
    names = {name for finished in rounds for name in finished.participants}
    return {client.id: client.examples for client in manifest.clients if client.id in names}


def check_retrained(before: Path, retrained: Sequence[Path], reader: InputReader) -> None:
    """Raise InputError for a retrained federation in which every client of `before` took part.

    That is shown where each of them had as many records as before: with fewer, a client may have
    left out those of a person.
    """
    original = participants(before, reader)
    for path in retrained:
        others = participants(path, reader)
        if original and others and all(n and others.get(c) == n for c, n in original.items()):
            raise InputError(
                f"--retrained {path} was not trained without the member: by its manifest every "
                f"client of {before} took part, with as many records."
            )


def manifest_caveats(
    before: Path, retrained: Sequence[Path], after: AuditTarget, reader: InputReader
) -> Iterator[str]:
    """Yield what the manifests show of who left, and which of them do not show it."""
    original = participants(before, reader) or {}
    missing: dict[tuple[str, ...], list[str]] = {}
    for path in retrained:
        others = participants(path, reader)
        absent = () if others is None else tuple(sorted(original.keys() - others.keys()))
        missing.setdefault(absent, []).append(str(path))
    for clients, paths in missing.items():
        named = ", ".join(paths)
        if clients:
            absentees = ", ".join(first_of(clients, NAMED))
            yield (
                f"By their manifests, {absentees} took no part in {named}, and did in {before}; "
                "whether that is this member was not checked."
            )
        else:
            yield (
                "That no records of the member were in them could not be checked, because no "
                f"manifest shows a client of {before} to be missing: {named}."
            )
    if after.federation is None:
        return
    last = next(r for r in after.federation.manifest.rounds if r.round == after.round)
    if original and original.keys() <= set(last.participants):
        yield (
            f"By the manifests, every client of {before} took part in round {last.round} of "
            f"{after.federation.path}: they do not show that a member had left."
        )
