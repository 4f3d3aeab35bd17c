"""Models beside the audited one: of clients, of earlier rounds, counterfactuals, references."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext, RoundUpdate
from fedaudit.api.records import ClientModel, Document, ReferenceModel, Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import attacks_with
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.federation import adapters, counterfactual, secure_sums
from fedaudit.federation.folder import Federation, is_federation
from fedaudit.system.files import suggest_neighbour

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest
    from fedaudit.federation.manifest import Round


Facts = dict[str, object]
"""Hashes of models and records on which answers depend, by name; empty without such models."""


def find_clients(
    request: "AuditRequest", audited: AuditTarget, form: PromptTemplate, reader: InputReader
) -> tuple[dict[str, ClientModel], Facts]:
    """Return every client whose model and records are at hand, and the hashes of both.

    Records are those in the federation's folder, or else a given file with the client's name.
    Empty if no attack reads clients' models. Raises UsageError without a federation's round, and
    InputError if there are fewer than two such clients.
    """
    readers = attacks_with("reads_clients", among=request.attacks)
    if not readers:
        return {}, {}
    federation, of_round = _audited_round(readers, "asks the clients' own models", audited)
    records = _record_paths(request, federation)
    paths = {
        client: federation.path / folder
        for client, folder in sorted(of_round.clients.items())
        if client in records
    }
    if len(paths) < 2:
        raise InputError(
            f"{', '.join(readers)} tells clients apart: round {of_round.round} of "
            f"{federation.path} has {len(of_round.clients)} clients' models, and the "
            f"records of {len(paths)} of them are at hand; with --member, give files "
            "named after the clients."
        )
    models = {
        client: ClientModel(
            target=Target(name=f"client {client}", adapter=str(path)),
            documents=reader.corpus_or_empty(records[client], form).documents,
        )
        for client, path in paths.items()
    }
    hashes = {client: reader.fingerprint(path) for client, path in paths.items()}
    of_records = {client: reader.sha256(records[client]) for client in paths}
    return models, {"clients' adapters' SHA-256": hashes, "clients' records": of_records}


def _audited_round(
    readers: Sequence[str], what: str, audited: AuditTarget
) -> tuple[Federation, "Round"]:
    """Return the federation and its audited round; UsageError, with what attacks do, without."""
    federation, number = audited.federation, audited.round
    if federation is None or number is None:
        raise UsageError(
            f"{', '.join(readers)} {what}: give a federation's folder as --target, or one of its "
            "rounds with --round."
        )
    [of_round] = [entry for entry in federation.manifest.rounds if entry.round == number]
    return federation, of_round


def _record_paths(request: "AuditRequest", federation: Federation) -> dict[str, Path]:
    """Return the files of clients' records that are at hand, by client or by a file's name."""
    named = [path for path in (request.input_path, request.victim_path, *request.members) if path]
    paths = {path.stem: path for path in named}
    paths = {name: path for name, path in paths.items() if path.is_file()}
    return {**paths, **federation.record_files}


def find_updates(
    request: "AuditRequest", audited: AuditTarget, form: PromptTemplate, reader: InputReader
) -> tuple[list[RoundUpdate], Facts]:
    """Return what the audited round shows of clients' training, and its hashes.

    These are the adapters of the clients whose records are at hand, if there are two or more; else
    the sums of secure aggregation; else the global adapter, which is a mean over the participants.
    Empty if no attack inverts updates. Raises UsageError without a federation's round.
    """
    readers = attacks_with("reads_updates", among=request.attacks)
    if not readers:
        return [], {}
    federation, of_round = _audited_round(readers, "inverts what clients make of a round", audited)
    known = _record_paths(request, federation)
    shown: list[tuple[Literal["client", "sum", "global"], Iterable[str], str]]
    shown = [("client", (c,), path) for c, path in sorted(of_round.clients.items()) if c in known]
    if len(shown) < 2:
        shown = [("sum", members, path) for path, members in sorted(of_round.sums.items())]
    updates: list[RoundUpdate] = []
    hashes, records = dict[str, str](), dict[str, str]()
    for view, names, name in shown or [("global", of_round.participants, of_round.adapter)]:
        path, members = federation.path / name, tuple(sorted(names))
        files = {member: known[member] for member in members if member in known}
        update = RoundUpdate(
            view=view,
            round=of_round.round,
            members=members,
            read=partial(secure_sums.read, path, members, of_round.round)
            if view == "sum"
            else partial(adapters.read, path),
            documents=[
                d for file in files.values() for d in reader.corpus_or_empty(file, form).documents
            ],
        )
        updates.append(update)
        hashes[update.name] = reader.sha256(path) if view == "sum" else reader.fingerprint(path)
        records |= {member: reader.sha256(file) for member, file in files.items()}
    return updates, {"updates' SHA-256": hashes, "clients' records": records}


def find_rounds(request: "AuditRequest", audited: AuditTarget) -> dict[int, Path]:
    """Return the adapter after each earlier round; empty if no attack reads them."""
    attacks = (
        registry.create("attack", name, request.options.get(name)) for name in request.attacks
    )
    if not any(attack.reads_rounds for attack in attacks):
        return {}
    federation, last = audited.federation, audited.round
    if federation is None or last is None:
        return {}
    rounds = {entry.round: entry.adapter for entry in federation.manifest.rounds}
    return {n: federation.path / rounds[n] for n in sorted(rounds) if 0 < n < last}


def find_participation(
    request: "AuditRequest", audited: AuditTarget, rounds: Iterable[int]
) -> dict[int, bool]:
    """Return whether the client whose records are tried trained in these rounds and the audited.

    Its file is the one in the federation's folder, or has its name. Empty if it trained in all or
    none of them, for records of no client, where a round does not say who trained, and for an
    imported federation: it may lack rounds, in which others would have trained unseen.
    """
    federation, earlier = audited.federation, {*rounds}
    path = request.victim_path or request.input_path
    if federation is None or audited.round is None or not earlier:
        return {}
    manifest = federation.manifest
    if manifest.imported is not None:
        return {}
    homes = {(federation.path / c.data).resolve(): c.id for c in manifest.clients if c.data}
    client = homes.get(path.resolve(), path.stem)
    if client not in {c.id for c in manifest.clients}:
        return {}
    every = [entry for entry in manifest.rounds if entry.round in {*earlier, audited.round}]
    took_part = {entry.round: client in entry.participants for entry in every}
    known = all(entry.participants for entry in every)
    return took_part if known and len(set(took_part.values())) == 2 else {}


def round_facts(adapter_paths: Mapping[int, Path], reader: InputReader) -> Facts:
    """Return the facts about earlier rounds' models that identify a run; empty without any."""
    hashes = {str(n): reader.fingerprint(path) for n, path in adapter_paths.items()}
    return {"rounds' SHA-256": hashes} if hashes else {}


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
        for client, path in audited.federation.record_files.items():
            if client in self.without:
                yield from reader.corpus_or_empty(path, form).documents


def find_counterfactual(
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
        raise InputError(f"{named} is not a federation's folder.{hint}")
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


def find_every_counterfactual(
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
    digest = reader.fingerprint(adapter)
    return CounterfactualRun(
        path=counterpart.path, without=origin.without, adapter=adapter, sha256=digest
    )


def _owner(digest: str, federation: Federation) -> str:
    """Return the client whose records have this SHA-256; empty if there is none."""
    files = {client.id: client.data for client in federation.manifest.clients if client.data}
    hashes = federation.manifest.files
    return next((client for client, data in files.items() if hashes.get(data) == digest), "")


def check_references(request: "AuditRequest") -> None:
    """Raise UsageError if no attack reads reference models, and for a folder given twice."""
    named = request.reference_paths
    if not named:
        return
    if not attacks_with("reads_references", among=request.attacks):
        names = ", ".join(sorted(attacks_with("reads_references")))
        raise UsageError(f"--reference needs an attack that compares with models: {names}.")
    resolved_paths: set[Path] = set()
    for path in named:
        if path.resolve() in resolved_paths:
            raise UsageError(f"--reference {path} is named twice.")
        resolved_paths.add(path.resolve())


def find_references(
    request: "AuditRequest", audited: AuditTarget, form: PromptTemplate, reader: InputReader
) -> tuple[list[ReferenceModel], Facts]:
    """Return the last global models of the reference federations that the user gave, and hashes.

    Raises UsageError if no adapter is audited, and InputError for a folder that is not a complete
    federation on the same base with its clients' records, or that is the audited one.
    """
    if not request.reference_paths:
        return [], {}
    if audited.adapter is None or audited.deployment:
        raise UsageError(
            "--reference needs an adapter or a federation's global adapter as the target."
        )
    audited_sha256 = reader.fingerprint(audited.adapter)
    models, hashes = [], {}
    for path in request.reference_paths:
        federation = _open_reference(path, audited, reader)
        _, adapter = federation.adapter()
        if (digest := reader.fingerprint(adapter)) == audited_sha256:
            raise InputError(
                f"--reference {path} is the audited federation itself: it says nothing about "
                "itself."
            )
        files = federation.record_files
        if without := [c.id for c in federation.manifest.clients if c.id not in files]:
            raise InputError(
                f"{federation.path} does not hold the records of {without[0]}: which records it "
                "was trained on is not known."
            )
        every = (d for file in files.values() for d in reader.corpus_or_empty(file, form).documents)
        texts = frozenset(document.text for document in every if not document.is_prompt)
        target = Target(name=f"reference {path}", adapter=str(adapter))
        models.append(ReferenceModel(target=target, texts=texts))
        hashes[str(path)] = digest
    return models, {"references' SHA-256": hashes}


def _open_reference(path: Path, audited: AuditTarget, reader: InputReader) -> Federation:
    if not is_federation(path):
        hint = "" if path.exists() else suggest_neighbour(path)
        raise InputError(f"--reference {path} is not a federation's folder.{hint}")
    federation = reader.federation(path)
    if federation.manifest.status != "complete":
        raise InputError(f"{path} is not finished: give its simulate command again.")
    if audited.base_sha256 and federation.manifest.base.sha256 != audited.base_sha256:
        raise InputError(f"{path} is of another base than what is audited.")
    return federation


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherModels:
    """All models that an audit's attacks ask beside the audited one and its base."""

    clients: Mapping[str, ClientModel]
    updates: Sequence[RoundUpdate]
    references: Sequence[ReferenceModel]
    rounds: Mapping[int, Target]
    took_part: Mapping[int, bool]
    without: CounterfactualRun | None
    strangers: int
    """The number of tried records that are not known to belong to a client left out."""
    facts: Facts

    def add_to(self, context: AttackContext) -> AttackContext:
        """Return `context` with these models."""
        context = replace(
            context,
            clients=self.clients,
            updates=self.updates,
            references=tuple(self.references),
            rounds=self.rounds,
            took_part=self.took_part,
        )
        return self.without.add_to(context) if self.without else context

    def caveats(self) -> Iterator[str]:
        """Yield the caveats about counterfactual and references, if there are any."""
        if self.without:
            yield from self.without.caveats(self.strangers)
        if self.references:
            yield (
                f"references: {len(self.references):,} federations were compared with. Whether a "
                "record was in one is judged by its text in the clients' files; whether they were "
                "trained as the target was is not checked."
            )


def find_others(
    request: "AuditRequest", audited: AuditTarget, form: PromptTemplate, reader: InputReader
) -> OtherModels:
    """Return the models that the request's attacks read; raises what the functions above raise."""
    without = find_counterfactual(request, audited, reader)
    clients, client_facts = find_clients(request, audited, form, reader)
    updates, update_facts = find_updates(request, audited, form, reader)
    rounds = find_rounds(request, audited)
    references, reference_facts = find_references(request, audited, form, reader)
    tried = reader.corpus(request.victim_path or request.input_path, form).documents
    return OtherModels(
        clients=clients,
        updates=updates,
        references=references,
        rounds={n: Target(name=f"round {n}", adapter=str(path)) for n, path in rounds.items()},
        took_part=find_participation(request, audited, rounds),
        without=without,
        strangers=without.check(tried, audited, form, reader) if without else 0,
        facts={
            **({"counterfactual's SHA-256": without.sha256} if without else {}),
            **client_facts,
            **update_facts,
            **round_facts(rounds, reader),
            **reference_facts,
        },
    )
