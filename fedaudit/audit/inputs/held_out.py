"""Held-out records, which are like the victim's but were not trained on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Attack, AttackContext
from fedaudit.api.records import Document
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.inputs.input_file import InputFile
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.pii.normalized_search import fold

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest

RELATED = (
    "held out: training saw other documents of these records' groups, so the model may know "
    "more of them than of strangers; such a comparison can show a leak, not rule one out."
)

FILE = "data/held_out.jsonl"
"""The file of a simulation's records that no client was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The usable held-out records, and the caveats about them."""

    file: InputFile
    documents: Sequence[Document]
    related: bool
    limits: tuple[str, ...]

    def add_to(self, context: AttackContext) -> AttackContext:
        """Return `context` with these records."""
        return replace(context, held_out=self.documents, related=self.related)


def check(request: "AuditRequest") -> None:
    """Raise UsageError for --held-out if no attack compares with such records or queries them."""
    if request.held_out_path is not None and not _needs_held_out(request):
        names = ", ".join(sorted(name for name in registry.plugins("attack") if _uses(name)))
        raise UsageError(f"--held-out needs an attack that uses such records: {names}.")


def held_out_path(request: "AuditRequest", audited: AuditTarget) -> Path | None:
    """Return the file of held-out records: the given one, or, with a victim, the simulation's."""
    if request.held_out_path is not None:
        return request.held_out_path
    if request.victim_path is None or audited.federation is None or not _needs_held_out(request):
        return None
    path = audited.federation.path / FILE
    return path if path.is_file() else None


def read(
    request: "AuditRequest",
    audited: AuditTarget,
    form: PromptTemplate,
    input_files: Sequence[InputFile],
    members: Sequence[InputFile] = (),
    *,
    reader: InputReader,
) -> HeldOut | None:
    """Return the held-out records, or None if there is no file of them.

    Records are left out if a client trained on their text, as far as the files at hand show
    (ignoring case, white space and Unicode form), or if they have the same group (person) as a
    tried record, which are those of the last of `input_files`. `members` are files of other
    members. Raises InputError if no record is left, except for the federation's own file, which
    the user did not choose: attacks that need such records then report it.
    """
    path = held_out_path(request, audited)
    if path is None:
        return None
    documents = [d for d in reader.corpus(path, form).documents if not d.is_prompt]
    given = [document for file in (*input_files, *members) for document in file.documents]
    trained = [*given, *_clients(audited, form, reader)]
    texts, groups = {fold(d.text) for d in trained}, _groups(input_files[-1].documents)
    new = [d for d in documents if fold(d.text) not in texts]
    remaining = [d for d in new if d.group not in groups]
    if not remaining and not _is_of_federation(path, audited):
        raise InputError(
            f"Nothing in {path} is held out: every record was trained on, or is of the same group "
            "as records that are tried."
        )
    related = bool(_groups(remaining) & _groups(trained))
    compared = any(map(_compares, request.attacks))
    limits = _describe_held_out(
        path, remaining, len(documents) - len(new), len(new) - len(remaining), compared=compared
    )
    if request.held_out_path is None:
        use = "compared with" if compared else "used"
        limits = (f"{path.name}, which the simulation held out, was {use}.", *limits)
    if related and compared:
        limits = (*limits, RELATED)
    file = InputFile(path=path, documents=documents, sha256=reader.sha256(path))
    return HeldOut(file=file, documents=remaining, related=related, limits=limits)


def _is_of_federation(path: Path, audited: AuditTarget) -> bool:
    federation = audited.federation
    return federation is not None and path.resolve() == (federation.path / FILE).resolve()


def _needs_held_out(request: "AuditRequest") -> bool:
    return any(map(_uses, request.attacks))


def _uses(name: str) -> bool:
    attack = _attack(name)
    return attack is not None and (attack.compares or attack.asks_held_out)


def _compares(name: str) -> bool:
    attack = _attack(name)
    return attack is not None and attack.compares


def _attack(name: str) -> type[Attack] | None:
    plugin = registry.plugins("attack").get(name)
    return plugin if plugin is not None and issubclass(plugin, Attack) else None


def _clients(audited: AuditTarget, form: PromptTemplate, reader: InputReader) -> Iterable[Document]:
    """Yield the records that the clients of a simulation were given."""
    if audited.federation is None:
        return
    for client in audited.federation.manifest.clients:
        data = audited.federation.path / client.data if client.data else None
        if data is not None and data.is_file():
            yield from reader.corpus(data, form).documents


def _groups(documents: Iterable[Document]) -> set[str]:
    return {document.group for document in documents} - {""}


def _describe_held_out(
    path: Path, remaining: Sequence[Document], trained: int, grouped: int, *, compared: bool
) -> tuple[str, ...]:
    count = f"{len(remaining):,} records of {path.name}"
    use = f"{count} were compared with" if compared else f"the requests of {count} could be asked"
    return (
        f"held out: {use}; {trained:,} were left out because they were trained on, {grouped:,} "
        "because they are of the same groups as the records tried.",
    )
