"""The counterfactual federation, which was trained without the victim."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.target import AuditTarget
from fedaudit.data import corpus
from fedaudit.federation import counterfactual
from fedaudit.federation.folder import Federation, is_federation, open_federation
from fedaudit.system.files import sha256, suggest_neighbour

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterfactualRun:
    """A federation trained without some clients, at the audited round."""

    path: Path
    without: tuple[str, ...]
    adapter: Path
    discovered: bool = False
    """Whether it was found beside the federation, and not given by the user."""

    def add_to(self, context: AttackContext) -> AttackContext:
        """Return `context` with this model as its counterfactual."""
        names = "+".join(self.without)
        target = Target(name=f"without {names}", adapter=str(self.adapter))
        return replace(context, counterfactual=target, without=names)

    def check(
        self, documents: Sequence[Document], audited: AuditTarget, form: PromptTemplate
    ) -> int:
        """Return the number of tried records that are not known to belong to a client left out.

        Raises InputError if that is all of them, and the left-out clients' records are at hand.
        """
        excluded_texts = {record.text for record in self._records(audited, form)}
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

    def _records(self, audited: AuditTarget, form: PromptTemplate) -> Iterator[Document]:
        assert audited.federation is not None
        for client in audited.federation.manifest.clients:
            path = audited.federation.path / client.data
            if client.id in self.without and client.data and path.is_file():
                yield from corpus.read(path, form)


def find(request: "AuditRequest", audited: AuditTarget) -> CounterfactualRun | None:
    """Return the counterfactual that was given, or the one beside the federation, or None.

    Raises UsageError if the target cannot have one, and InputError for a counterfactual of another
    federation, or one that has not finished the round.
    """
    named = request.counterfactual_path
    if named is None:
        return _find_counterpart(request, audited)
    if audited.federation is None or audited.round is None:
        raise UsageError(
            "--counterfactual needs the global adapter of a simulated federation as --target; if "
            "a defence has deployed the models that answer, name the adapter with --round."
        )
    if not is_federation(named):
        hint = "" if named.exists() else suggest_neighbour(named)
        raise InputError(f"{named} is no federation's folder.{hint}")
    return _run(audited.federation, open_federation(named), audited.round)


def _find_counterpart(request: "AuditRequest", audited: AuditTarget) -> CounterfactualRun | None:
    if not request.compares_counterfactual or audited.federation is None or audited.round is None:
        return None
    client = _owner(request.victim_path or request.input_path, audited.federation)
    counterpart = counterfactual.find_counterpart(audited.federation, client) if client else None
    if counterpart is None or counterpart.manifest.status != "complete":
        return None
    return replace(_run(audited.federation, counterpart, audited.round), discovered=True)


def find_every(request: "AuditRequest", audited: AuditTarget) -> dict[str, CounterfactualRun]:
    """Return, by client, the counterfactual beside the federation that leaves this client out.

    Empty if the request compares with none. Clients whose files are not those that the federation
    trained on are left out, as are unfinished counterfactuals.
    """
    if not request.compares_every_counterfactual:
        return {}
    if audited.federation is None or audited.round is None:
        return {}
    runs = {}
    for client in request.participants:
        owner = _owner(Path(client.path), audited.federation)
        counterpart = counterfactual.find_counterpart(audited.federation, owner) if owner else None
        if counterpart is not None and counterpart.manifest.status == "complete":
            run = _run(audited.federation, counterpart, audited.round)
            runs[client.name] = replace(run, discovered=True)
    return runs


def _run(federation: Federation, counterpart: Federation, number: int) -> CounterfactualRun:
    origin = counterfactual.check_origin(federation, counterpart)
    if number >= len(counterpart.manifest.rounds):
        raise InputError(
            f"{counterpart.path} has not finished round {number}: give its simulate command again."
        )
    adapter = counterpart.path / counterpart.manifest.rounds[number].adapter
    return CounterfactualRun(path=counterpart.path, without=origin.without, adapter=adapter)


def _owner(records: Path, federation: Federation) -> str:
    """Return the client whose records a file holds, by SHA-256; empty if there is none."""
    files = {client.id: client.data for client in federation.manifest.clients if client.data}
    digest = sha256(records)
    hashes = federation.manifest.files
    return next((client for client, data in files.items() if hashes.get(data) == digest), "")
