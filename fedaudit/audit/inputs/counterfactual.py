"""The federation that was trained without the victim: what the model would know without them."""

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
    """A federation trained without some clients, at the round that is audited."""

    path: Path
    without: tuple[str, ...]
    adapter: Path
    found: bool = False
    """Whether nobody named it: it lay beside the federation."""

    def given(self, case: AttackContext) -> AttackContext:
        """Return `case` with this model to compare with."""
        who = "+".join(self.without)
        target = Target(name=f"without {who}", adapter=str(self.adapter))
        return replace(case, counterfactual=target, without=who)

    def check(self, tried: Sequence[Document], audited: AuditTarget, form: PromptTemplate) -> int:
        """Return how many of the records tried are of nobody who was left out.

        Raises InputError where all of them are.
        """
        own = {one.text for one in self._records(audited, form)}
        texts = {one.text for one in tried if not one.is_prompt}
        if own and not texts & own:
            raise InputError(
                f"{self.path} was trained without {', '.join(self.without)}, but none of the "
                "records tried are theirs: name the federation without their owner."
            )
        return len(texts - own) if own else len(texts)

    def caveats(self, strangers: int) -> Iterator[str]:
        """Yield what there is to say of it; `strangers` are records of nobody left out."""
        who = ", ".join(self.without)
        how = "lay beside the federation" if self.found else "was named"
        yield (
            f"counterfactual: {self.path}, trained without {who}, {how}. Its numbers are of one "
            "training with and one without: their intervals are over strings or records, not over "
            "trainings."
        )
        if strangers:
            yield (
                f"counterfactual: {strangers:,} of the records tried are not known to be of {who}: "
                "of these it says nothing."
            )

    def _records(self, audited: AuditTarget, form: PromptTemplate) -> Iterator[Document]:
        assert audited.federation is not None
        for client in audited.federation.manifest.clients:
            place = audited.federation.path / client.data
            if client.id in self.without and client.data and place.is_file():
                yield from corpus.read(place, form)


def find(request: "AuditRequest", audited: AuditTarget) -> CounterfactualRun | None:
    """Return the counterfactual that was named, or the one beside the federation; None for none.

    Raises UsageError where there is none of what is audited, and InputError for a federation that
    is the counterfactual of another one, or that has not finished the round.
    """
    named = request.compared_run
    if named is None:
        return _beside(request, audited)
    if audited.federation is None or audited.round is None:
        raise UsageError(
            "--counterfactual goes with the global adapter of a simulated federation as --target; "
            "where a defence has deployed what answers, name the adapter with --round."
        )
    if not is_federation(named):
        hint = "" if named.exists() else suggest_neighbour(named)
        raise InputError(f"{named} is no federation's folder.{hint}")
    return _run(audited.federation, open_federation(named), audited.round)


def _beside(request: "AuditRequest", audited: AuditTarget) -> CounterfactualRun | None:
    if not request.compares_counterfactual or audited.federation is None or audited.round is None:
        return None
    client = _owner(request.others or request.own, audited.federation)
    other = counterfactual.beside(audited.federation, client) if client else None
    if other is None or other.manifest.status != "complete":
        return None
    return replace(_run(audited.federation, other, audited.round), found=True)


def find_every(request: "AuditRequest", audited: AuditTarget) -> dict[str, CounterfactualRun]:
    """Return the counterfactuals beside the federation of single clients that take part, by name.

    Empty where the request compares with none. Left out are clients whose files are not those that
    the federation trained on, and counterfactuals that are not finished.
    """
    if not request.compares_every_counterfactual:
        return {}
    if audited.federation is None or audited.round is None:
        return {}
    found = {}
    for client in request.participants:
        owner = _owner(Path(client.path), audited.federation)
        other = counterfactual.beside(audited.federation, owner) if owner else None
        if other is not None and other.manifest.status == "complete":
            run = _run(audited.federation, other, audited.round)
            found[client.name] = replace(run, found=True)
    return found


def _run(federation: Federation, other: Federation, number: int) -> CounterfactualRun:
    of = counterfactual.check_origin(federation, other)
    if number >= len(other.manifest.rounds):
        raise InputError(
            f"{other.path} has not finished round {number}: give its simulate command again."
        )
    adapter = other.path / other.manifest.rounds[number].adapter
    return CounterfactualRun(path=other.path, without=of.without, adapter=adapter)


def _owner(records: Path, federation: Federation) -> str:
    """Return the client whose records a file holds; empty for none."""
    files = {one.id: one.data for one in federation.manifest.clients if one.data}
    digest = sha256(records)
    hashes = federation.manifest.files
    return next((who for who, data in files.items() if hashes.get(data) == digest), "")
