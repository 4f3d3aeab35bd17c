"""Reference federations, trained like the target on other records, for membership inference."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Attack
from fedaudit.api.records import ReferenceModel, Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.federation import adapters
from fedaudit.federation.folder import Federation, is_federation
from fedaudit.system.files import suggest_neighbour

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRun:
    """A reference federation's folder, its last global model, and its clients' texts."""

    path: Path
    adapter: Path
    sha256: str
    """The fingerprint of its adapter."""
    texts: frozenset[str]

    def model(self) -> ReferenceModel:
        """Return the model, with the texts on which it was trained."""
        target = Target(name=f"reference {self.path}", adapter=str(self.adapter))
        return ReferenceModel(target=target, texts=self.texts)


def check(request: "AuditRequest") -> None:
    """Raise UsageError if no attack reads reference models, and for a folder given twice."""
    named = request.reference_paths
    if not named:
        return
    if not any(map(_reads, request.attacks)):
        names = ", ".join(sorted(name for name in registry.plugins("attack") if _reads(name)))
        raise UsageError(f"--reference needs an attack that compares with models: {names}.")
    resolved_paths: set[Path] = set()
    for path in named:
        if path.resolve() in resolved_paths:
            raise UsageError(f"--reference {path} is named twice.")
        resolved_paths.add(path.resolve())


def find(
    request: "AuditRequest", audited: AuditTarget, form: PromptTemplate, reader: InputReader
) -> list[ReferenceRun]:
    """Return the reference federations that the user gave.

    Raises UsageError if no adapter is audited, and InputError for a folder that is no complete
    federation on the same base with its clients' records, or that is the audited one.
    """
    if not request.reference_paths:
        return []
    if audited.adapter is None or audited.deployment:
        raise UsageError(
            "--reference needs an adapter or a federation's global adapter as the target."
        )
    audited_sha256 = adapters.fingerprint(audited.adapter, reader.sha256)
    return [
        _open_reference(path, audited, audited_sha256, form, reader)
        for path in request.reference_paths
    ]


def caveats(runs: Sequence[ReferenceRun]) -> Iterator[str]:
    """Yield the caveats about reference federations, if there are any."""
    if runs:
        yield (
            f"references: {len(runs):,} federations were compared with. Whether a record was in "
            "one is judged by its text in the clients' files; whether they were trained as the "
            "target was is not checked."
        )


def _open_reference(
    path: Path, audited: AuditTarget, audited_sha256: str, form: PromptTemplate, reader: InputReader
) -> ReferenceRun:
    if not is_federation(path):
        hint = "" if path.exists() else suggest_neighbour(path)
        raise InputError(f"--reference {path} is no federation's folder.{hint}")
    federation = reader.federation(path)
    if federation.manifest.status != "complete":
        raise InputError(f"{path} is not finished: give its simulate command again.")
    if audited.base_sha256 and federation.manifest.base.sha256 != audited.base_sha256:
        raise InputError(f"{path} is of another base than what is audited.")
    _, adapter = federation.adapter()
    if (digest := adapters.fingerprint(adapter, reader.sha256)) == audited_sha256:
        raise InputError(
            f"--reference {path} is the audited federation itself: it says nothing about itself."
        )
    records = list(_records(federation))
    every = (document for file in records for document in reader.corpus(file, form).documents)
    texts = frozenset(document.text for document in every if not document.is_prompt)
    return ReferenceRun(path=path, adapter=adapter, sha256=digest, texts=texts)


def _records(federation: Federation) -> Iterator[Path]:
    """Yield the file of every client's records; raises InputError if one is missing."""
    for client in federation.manifest.clients:
        path = federation.path / client.data
        if not client.data or not path.is_file():
            raise InputError(
                f"{federation.path} does not hold the records of {client.id}: which records it was "
                "trained on is not known."
            )
        yield path


def facts(runs: Sequence[ReferenceRun]) -> Mapping[str, object]:
    """Return the facts about references that identify a run; empty without references."""
    hashes = {str(run.path): run.sha256 for run in runs}
    return {"references' SHA-256": hashes} if runs else {}


def _reads(name: str) -> bool:
    plugin = registry.plugins("attack").get(name)
    return plugin is not None and issubclass(plugin, Attack) and plugin.reads_references
