"""The counterfactual federation, which was trained without the victim."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.target import AuditTarget
from fedaudit.federation import adapters, counterfactual
from fedaudit.federation.folder import Federation, is_federation
from fedaudit.system.files import suggest_neighbour

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterfactualRun:
    """A federation trained without some clients, at the audited round."""

    path: Path
    without: tuple[str, ...]
    adapter: Path
    sha256: str
    """The fingerprint of its adapter."""
    discovered: bool = False
    """Whether it was found beside the federation, and not given by the user."""

    def add_to(self, context: AttackContext) -> AttackContext:
        """Return `context` with this model as its counterfactual."""
        names = "+".join(self.without)
        target = Target(name=f"without {names}", adapter=str(self.adapter))
        return replace(context, counterfactual=target, without=names)

    def check(
        self,
        documents: Sequence[Document],
        audited: AuditTarget,
        form: PromptTemplate,
        reader: InputReader,
    ) -> int:
        """Return the number of tried records that are not known to belong to a client left out.

        Raises InputError if that is all of them, and the left-out clients' records are at hand.
        """
        excluded_texts = {record.text for record in self._records(audited, form, reader)}
        texts = {document.text for document in documents if not document.is_prompt}
        if excluded_texts and not texts & excluded_texts:
            raise InputError(
                f"{self.path} was trained without {', '.join(self.without)}, but none of the "
                "records tried are theirs: name the federation trained without the owner of "
                "these records."
            )
        return len(texts - excluded_texts) if excluded_texts else len(texts)

    def caveats(self, strangers: int) -> Iterator[str]:
        """Yield its caveats; `strangers` is what `check` returned."""
        names = ", ".join(self.without)
        how = "lay beside the federation" if self.discovered else "was named"
        yield (
            f"counterfactual: {self.path}, trained without {names}, {how}. Its numbers compare "
            "one training with them and one without: the intervals are over strings or records, "
            "not over trainings."
        )
        if strangers:
            yield (
                f"counterfactual: {strangers:,} of the records tried are not known to be of "
                f"{names}: it says nothing about these."
            )

    def _records(
        self, audited: AuditTarget, form: PromptTemplate, reader: InputReader
    ) -> Iterator[Document]:
        assert audited.federation is not None
        for client in audited.federation.manifest.clients:
            path = audited.federation.path / client.data
            if client.id in self.without and client.data and path.is_file():
                yield from reader.corpus(path, form).documents


def find(
    request: "AuditRequest", audited: AuditTarget, reader: InputReader
) -> CounterfactualRun | None:
    """Return the counterfactual that was given, or the one beside the federation, or None.

    Raises UsageError if the target cannot have one, and InputError for a counterfactual of another
    federation, or one that has not finished the round.
    """
    named = request.counterfactual_path
    if named is None:
        return _find_counterpart(request, audited, reader)
    if audited.federation is None or audited.round is None:
        raise UsageError(
            "--counterfactual needs the global adapter of a simulated federation as --target; if "
            "a defence has deployed the models that answer, name the adapter with --round."
        )
    if not is_federation(named):
        hint = "" if named.exists() else suggest_neighbour(named)
        raise InputError(f"{named} is no federation's folder.{hint}")
    return _run(audited.federation, reader.federation(named), audited.round, reader)


def _find_counterpart(
    request: "AuditRequest", audited: AuditTarget, reader: InputReader
) -> CounterfactualRun | None:
    if not request.compares_counterfactual or audited.federation is None or audited.round is None:
        return None
    records = request.victim_path or request.input_path
    return _beside(records, audited.federation, audited.round, reader)


def _beside(
    records: Path, federation: Federation, number: int, reader: InputReader
) -> CounterfactualRun | None:
    """Return the finished counterfactual beside a federation that leaves the records' owner out."""
    owner = _owner(reader.sha256(records), federation)
    opened = reader.federation
    counterpart = counterfactual.find_counterpart(federation, owner, opened) if owner else None
    if counterpart is None or counterpart.manifest.status != "complete":
        return None
    return replace(_run(federation, counterpart, number, reader), discovered=True)


def find_every(
    request: "AuditRequest", audited: AuditTarget, reader: InputReader
) -> dict[str, CounterfactualRun]:
    """Return, by client, the counterfactual beside the federation that leaves this client out.

    Empty if the request compares with none. Clients whose files are not those that the federation
    trained on are left out, as are unfinished counterfactuals.
    """
    if not request.compares_every_counterfactual:
        return {}
    if audited.federation is None or audited.round is None:
        return {}
    beside = {
        client.name: _beside(Path(client.path), audited.federation, audited.round, reader)
        for client in request.participants
    }
    return {name: run for name, run in beside.items() if run is not None}


def _run(
    federation: Federation, counterpart: Federation, number: int, reader: InputReader
) -> CounterfactualRun:
    origin = counterfactual.check_origin(federation, counterpart)
    if number >= len(counterpart.manifest.rounds):
        raise InputError(
            f"{counterpart.path} has not finished round {number}: give its simulate command again."
        )
    adapter = counterpart.path / counterpart.manifest.rounds[number].adapter
    digest = adapters.fingerprint(adapter, reader.sha256)
    return CounterfactualRun(
        path=counterpart.path, without=origin.without, adapter=adapter, sha256=digest
    )


def _owner(digest: str, federation: Federation) -> str:
    """Return the client whose records have this SHA-256; empty if there is none."""
    files = {client.id: client.data for client in federation.manifest.clients if client.data}
    hashes = federation.manifest.files
    return next((client for client, data in files.items() if hashes.get(data) == digest), "")
