"""The audits of one variant of a study: who attacks whom, and through which model."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.records import Measurement
from fedaudit.api.templates import template
from fedaudit.audit.inputs.clients import list_clients
from fedaudit.audit.inputs.held_out import FILE as HELD_OUT
from fedaudit.audit.pipeline import Audit, Watcher
from fedaudit.audit.request import CrossClientRequest, ExtractionRequest
from fedaudit.audit.session import run_audit
from fedaudit.config import registry
from fedaudit.config.profile import Variant
from fedaudit.data import corpus
from fedaudit.federation.folder import open_federation
from fedaudit.metrics.document_frequency import document_frequency, frequency_rows
from fedaudit.simulation import local_baseline
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data import datasets
from fedaudit.simulation.data.partition import corpus_of

if TYPE_CHECKING:
    from fedaudit.report.document import Report
    from fedaudit.report.redaction import Redactor


def audit_variant(
    variant: Variant, place: Path, config: Simulation, redactor: "Redactor", watch: Watcher
) -> Iterator["Report"]:
    """Yield the report of every audit of a variant whose federation is in `place`."""
    if not variant.attacks:
        return
    if variant.trace:
        yield from _traced(variant, place, config, redactor, watch)
        return
    common = _common(variant, place, config)
    if variant.matrix:
        request = CrossClientRequest(clients=list_clients(str(place), ()), **common)
        yield run_audit(request, redactor, watch).report
    elif variant.clients:
        yield from _each(variant, place, config, common, redactor, watch)
    else:
        asked = ExtractionRequest(
            prefixes=place / f"data/{variant.attacker}.jsonl",
            victim=_victims(variant, place, config),
            held_out=place / HELD_OUT if "membership" in variant.attacks else None,
            client=deployed_client(variant, place),
            **common,
        )
        audit = run_audit(asked, redactor, watch)
        extra = _frequencies(place, config, audit) if config.defenses else ()
        yield replace(audit.report, measurements=[*audit.report.measurements, *extra])


def traced_rounds(variant: Variant, config: Simulation) -> list[tuple[int, float]]:
    """Return the rounds that a variant traces, and what share of all rounds has passed by then."""
    parts = [(part, variant.trace) for part in range(1, variant.trace + 1)]
    found = {math.ceil(config.rounds * part / of): part / of for part, of in parts}
    return sorted(found.items())


def _traced(
    variant: Variant, place: Path, config: Simulation, redactor: "Redactor", watch: Watcher
) -> Iterator["Report"]:
    """Yield the reports of a variant for one round's adapter after the other."""
    whose = {} if variant.model == "global" else {"model": variant.model}
    for number, passed in traced_rounds(variant, config):
        one = replace(variant, trace=0, round=number)
        for report in audit_variant(one, place, config, redactor, watch):
            yield _within({"round": number, "passed": passed, **whose}, report)


def is_deployed(variant: Variant, place: Path) -> bool:
    """Return whether what is attacked answers through a defence that its clients deployed."""
    if variant.round >= 0 or variant.model != "global":
        return False
    return open_federation(place).manifest.deployment is not None


def deployed_client(variant: Variant, place: Path) -> str | None:
    """Return whose deployed model is asked about a victim; nothing where none is deployed."""
    return variant.victim if variant.victim != "*" and is_deployed(variant, place) else None


def _victims(variant: Variant, place: Path, config: Simulation) -> Path:
    """Return the victim's records, or those of all clients in a file beside the federations."""
    if variant.victim != "*":
        return place / f"data/{variant.victim}.jsonl"
    form = config.prompt_template
    every = [
        document
        for number in range(config.clients)
        for document in corpus.read(place / f"data/c{number}.jsonl", form)
    ]
    below = place.parent.parent / "records" / place.name / "everybody.jsonl"
    corpus.write(below, every)
    return below


def _common(variant: Variant, place: Path, config: Simulation) -> dict[str, Any]:
    """Return what the requests of a variant share."""
    number = variant.round if variant.round >= 0 else config.rounds
    central = place / f"central/{number:03d}"
    return {
        "attacks": variant.attacks,
        "options": variant.options,
        "target": str(place),
        "adapter": str(central) if variant.model == "central" else None,
        "round": variant.round if variant.round >= 0 and variant.model == "global" else None,
        "keys": variant.keys,
        "seed": config.seed,
        "device": config.device,
        "dtype": config.dtype,
    }


def _each(
    variant: Variant,
    place: Path,
    config: Simulation,
    common: Mapping[str, Any],
    redactor: "Redactor",
    watch: Watcher,
) -> Iterator["Report"]:
    """Yield the reports of clients that are attacked about their own documents."""
    deployed = is_deployed(variant, place)
    every = [f"c{number}" for number in range(config.clients)]
    for client in every if "*" in variant.clients else variant.clients:
        for name, data in _data(place, client, variant.corpora, config.template):
            asked = client if deployed else None
            common = {**common, **_alone(variant, place, config, client)}
            request = ExtractionRequest(prefixes=data, client=asked, **common)
            where = {"client": client, **({"records": name} if name else {})}
            yield _within(where, run_audit(request, redactor, watch).report)


def _alone(variant: Variant, place: Path, config: Simulation, client: str) -> dict[str, str]:
    """Return which adapter is attacked where it is the client's own; nothing where it is not."""
    if variant.model != "local":
        return {}
    number = variant.round if variant.round >= 0 else config.rounds
    return {"adapter": str(local_baseline.local_adapter(place, client, number))}


def _frequencies(place: Path, config: Simulation, audit: Audit) -> list[Measurement]:
    """Return how often what is still extracted stands in the documents that were trained on.

    Of each attack, and of what the tuned model said and its base did not.
    """
    defenses = [registry.create("defense", *chosen) for chosen in config.defense_plugins()]
    clients = open_federation(place).manifest.clients
    found = datasets.client_documents(config, place, clients, defenses).values()
    texts = [document.text for own in found for document in own.prepared]
    known = {one.id for one in audit.report.findings if one.severity == "high"}
    rows = []
    for name in audit.report.run["config"]["attacks"]:
        own = [leak for leak in audit.revealed if leak["id"].rpartition("-")[0] == name]
        strings = [leak["text"] for leak in own if leak["id"] in known]
        scope = {"source": "tuned-not-base", "set": "all"}
        rows += frequency_rows(document_frequency(strings, texts), name, scope)
    return rows


def _within(where: Mapping[str, object], report: "Report") -> "Report":
    """Return a report whose rows and findings say what of a study they are about."""
    short = "-".join(map(str, where.values()))
    return replace(
        report,
        measurements=[replace(r, scope={**r.scope, **where}) for r in report.measurements],
        findings=[replace(one, id=f"{short}-{one.id}") for one in report.findings],
    )


def _data(
    place: Path, client: str, corpora: Sequence[str], form: str
) -> Iterator[tuple[str, Path]]:
    """Yield the client's records, or those of each corpus in a file beside the federations."""
    path = place / f"data/{client}.jsonl"
    if not corpora:
        yield "", path
        return
    documents = list(corpus.read(path, template(form)))
    for name in corpora:
        own = [document for document in documents if corpus_of(document) == name]
        if own:
            below = place.parent.parent / "records" / place.name / f"{client}-{name}.jsonl"
            corpus.write(below, own)
            yield name, below
