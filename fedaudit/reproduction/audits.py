"""The audits of one variant of a study: who attacks whom, and through which model."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.api.records import Document, Measurement
from fedaudit.api.templates import template
from fedaudit.audit.clients import list_clients
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.records import HELD_OUT
from fedaudit.audit.request import AuditRequest, CrossClientRequest, ExtractionRequest
from fedaudit.audit.run import Audit
from fedaudit.canaries import canary_file
from fedaudit.config import registry
from fedaudit.config.profile import OTHERS, Variant
from fedaudit.data import corpus
from fedaudit.federation.folder import open_federation
from fedaudit.metrics.document_frequency import document_frequency, frequency_rows
from fedaudit.simulation import local_baseline
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data import datasets
from fedaudit.simulation.data.partition import corpus_of

if TYPE_CHECKING:
    from fedaudit.report.document import Report

RunAudit = Callable[[AuditRequest], Audit]


def audit_variant(
    variant: Variant, folder: Path, config: Simulation, run: RunAudit
) -> Iterator["Report"]:
    """Yield the report of every audit of a variant whose federation is in `folder`."""
    if not variant.attacks:
        return
    if variant.trace:
        yield from _traced_reports(variant, folder, config, run)
        return
    if variant.clients and not variant.matrix:
        yield from _client_reports(variant, folder, config, run)
        return
    common = _common(variant, folder, config)
    if variant.matrix:
        request = CrossClientRequest(clients=list_clients(folder, (), InputReader()), **common)
        yield run(request).report
    else:
        common["held_out"] = folder / HELD_OUT if "membership" in variant.attacks else None
        common["client"] = deployed_client(variant, folder)
        if variant.copies:
            for number, files in _records_by_copies(variant, folder, config):
                by_copies = ExtractionRequest(**files, **common)
                yield _add_scope({"copies": number}, run(by_copies).report)
            return
        extraction_request = ExtractionRequest(
            prefixes=folder / f"data/{variant.attacker}.jsonl",
            victim=_victims(variant, folder, config),
            **common,
        )
        audit = run(extraction_request)
        extra = _frequencies(folder, config, audit) if config.defenses else ()
        yield replace(audit.report, measurements=[*audit.report.measurements, *extra])


def traced_rounds(variant: Variant, config: Simulation) -> list[tuple[int, float]]:
    """Return the rounds that a variant traces, and what share of all rounds has passed by then."""
    fractions = [(n, variant.trace) for n in range(1, variant.trace + 1)]
    share_by_round = {math.ceil(config.rounds * n / d): n / d for n, d in fractions}
    return sorted(share_by_round.items())


def _traced_reports(
    variant: Variant, folder: Path, config: Simulation, run: RunAudit
) -> Iterator["Report"]:
    """Yield the reports of a variant for one round's adapter after the other."""
    model_scope = {} if variant.model == "global" else {"model": variant.model}
    for number, passed in traced_rounds(variant, config):
        round_variant = replace(variant, trace=0, round=number)
        for report in audit_variant(round_variant, folder, config, run):
            yield _add_scope({"round": number, "passed": passed, **model_scope}, report)


def is_deployed(variant: Variant, folder: Path) -> bool:
    """Return whether the attacked model answers through a defence that its clients deployed."""
    if variant.round >= 0 or variant.model != "global":
        return False
    return open_federation(folder).manifest.deployment is not None


def deployed_client(variant: Variant, folder: Path) -> str | None:
    """Return the client whose deployed model is attacked for a victim; None if there is none."""
    is_one = not variant.has_several_victims
    return variant.victim if is_one and is_deployed(variant, folder) else None


def _victims(variant: Variant, folder: Path, config: Simulation) -> Path:
    """Return the victim's records, or those of all clients in a file beside the federations."""
    if not variant.has_several_victims:
        return folder / f"data/{variant.victim}.jsonl"
    below = _records_folder(folder) / "everybody.jsonl"
    corpus.write(below, _documents(folder, config, config.client_names))
    return below


def _records_folder(folder: Path) -> Path:
    """Return where a federation's records are written as attacks need them."""
    return folder.parent.parent / "records" / folder.name


def _documents(folder: Path, config: Simulation, clients: Sequence[str]) -> list[Document]:
    form = config.prompt_template
    files = [folder / f"data/{client}.jsonl" for client in clients]
    return [document for file in files for document in corpus.read(file, form)]


def _records_by_copies(
    variant: Variant, folder: Path, config: Simulation
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield a number of copies, and a request's files: the victim's records that come so often.

    All other records but the attacker's are another member's: what they also have has no number of
    its own. Each record is in its file once, and canaries are in none: theirs is the exposure.
    """
    owner = folder / canary_file.OWNER
    planted = canary_file.read(owner).planted if owner.exists() else ()
    secrets = [canary.secret for canary in planted]

    def distinct(clients: Sequence[str]) -> dict[str, list[Document]]:
        by_text: dict[str, list[Document]] = {}
        for document in _documents(folder, config, clients):
            if not any(secret in document.text for secret in secrets):
                by_text.setdefault(document.text, []).append(document)
        return by_text

    def write(name: str, documents: Iterable[Sequence[Document]]) -> Path:
        path = _records_folder(folder) / f"{name}.jsonl"
        corpus.write(path, [copies[0] for copies in documents])
        return path

    names = [name for name in config.client_names if name != variant.attacker]
    others = distinct(names)
    victims = others if variant.victim == OTHERS else distinct([variant.victim])
    numbers = sorted({len(copies) for copies in victims.values()})
    prefixes = write(f"{variant.attacker}-once", distinct([variant.attacker]).values())
    for number in numbers:
        chosen = {text: copies for text, copies in victims.items() if len(copies) == number}
        remaining = [copies for text, copies in others.items() if text not in chosen]
        if not remaining:
            raise UsageError(f"variant {variant.name}: every record comes {number} times.")
        yield (
            number,
            {
                "prefixes": prefixes,
                "victim": write(f"{variant.victim}-{number}", chosen.values()),
                "members": (write(f"not-{number}", remaining),),
            },
        )


def _common(variant: Variant, folder: Path, config: Simulation, client: str = "") -> dict[str, Any]:
    """Return the arguments that the requests of a variant share; a local model is `client`'s."""
    shared = attacked_model(variant, folder, config)
    if variant.model == "local":
        number = variant.round if variant.round >= 0 else config.rounds
        shared["adapter"] = str(local_baseline.local_adapter(folder, client, number))
    return {**shared, "attacks": variant.attacks, "options": variant.options}


def attacked_model(variant: Variant, folder: Path, config: Simulation) -> dict[str, Any]:
    """Return the arguments of a request that say which model it is about, and how it is run."""
    number = variant.round if variant.round >= 0 else config.rounds
    central = folder / f"central/{number:03d}"
    return {
        "target": str(folder),
        "adapter": str(central) if variant.model == "central" else None,
        "round": variant.round if variant.round >= 0 and variant.model == "global" else None,
        "keys": variant.keys,
        "seed": config.seed,
        "device": config.device,
        "dtype": config.dtype,
    }


def _client_reports(
    variant: Variant, folder: Path, config: Simulation, run: RunAudit
) -> Iterator["Report"]:
    """Yield the reports of attacks in which each client's own documents are the target."""
    deployed = is_deployed(variant, folder)
    clients = config.client_names if "*" in variant.clients else variant.clients
    _check_corpora(variant, folder, clients, config.template)
    for client in clients:
        for name, data in _data(folder, client, variant.corpora, config.template):
            target_client = client if deployed else None
            common = _common(variant, folder, config, client)
            request = ExtractionRequest(prefixes=data, client=target_client, **common)
            where = {"client": client, **({"records": name} if name else {})}
            yield _add_scope(where, run(request).report)


def _frequencies(folder: Path, config: Simulation, audit: Audit) -> list[Measurement]:
    """Return how often strings that are still extracted occur in the documents trained on.

    For each attack, and for strings that the tuned model said and its base did not.
    """
    defenses = [registry.create("defense", *chosen) for chosen in config.defense_plugins()]
    clients = open_federation(folder).manifest.clients
    client_documents = datasets.client_documents(config, folder, clients, defenses).values()
    texts = [document.text for client in client_documents for document in client.prepared]
    severe_ids = {f.id for f in audit.report.findings if f.severity == "high"}
    rows = []
    for name in audit.report.run["config"]["attacks"]:
        leaks = [leak for leak in audit.revealed if leak["id"].rpartition("-")[0] == name]
        strings = [leak["text"] for leak in leaks if leak["id"] in severe_ids]
        scope = {"source": "tuned-not-base", "set": "all"}
        rows += frequency_rows(document_frequency(strings, texts), name, scope)
    return rows


def _add_scope(where: Mapping[str, object], report: "Report") -> "Report":
    """Return a report with `where` in the scope of its rows and the ids of its findings."""
    short = "-".join(map(str, where.values()))
    return replace(
        report,
        measurements=[replace(r, scope={**r.scope, **where}) for r in report.measurements],
        findings=[replace(f, id=f"{short}-{f.id}") for f in report.findings],
    )


def _check_corpora(variant: Variant, folder: Path, clients: Sequence[str], form: str) -> None:
    """Refuse a corpus that no client has records of: nothing would be measured."""
    if not variant.corpora:
        return
    corpora = {
        corpus_of(document)
        for client in clients
        for document in corpus.read(folder / f"data/{client}.jsonl", template(form))
    }
    for name in variant.corpora:
        if name not in corpora:
            error = unknown_name_error("corpus", name, corpora)
            raise UsageError(f"variant {variant.name}: {error}")


def _data(
    folder: Path, client: str, corpora: Sequence[str], form: str
) -> Iterator[tuple[str, Path]]:
    """Yield the client's records, or those of each corpus in a file beside the federations."""
    path = folder / f"data/{client}.jsonl"
    if not corpora:
        yield "", path
        return
    documents = list(corpus.read(path, template(form)))
    for name in corpora:
        corpus_documents = [document for document in documents if corpus_of(document) == name]
        if corpus_documents:
            below = _records_folder(folder) / f"{client}-{name}.jsonl"
            corpus.write(below, corpus_documents)
            yield name, below
