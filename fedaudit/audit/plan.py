"""What an audit will do, what it leaves out, and why."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedaudit.api.errors import FedauditError, UsageError, unknown_name_error
from fedaudit.attribution.owner.worker_pool import WorkerOptions
from fedaudit.attribution.request import AttributionRequest, ResolvedRequest, resolve_request
from fedaudit.audit.canary_clients import UntrainedError
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.inputs import Inputs, form_of
from fedaudit.audit.material import Material
from fedaudit.audit.request import (
    AuditRequest,
    CrossClientRequest,
    ExposureRequest,
    ExtractionRequest,
    InferenceRequest,
    MemorizationRequest,
    Protocol,
    attacks_with,
)
from fedaudit.audit.resolve import resolve
from fedaudit.config import registry
from fedaudit.config.options import merge_tables
from fedaudit.report.checklist.leaks import OTHER_CLIENTS, OTHER_VICTIMS

_log = logging.getLogger(__name__)

OPTIONS: Mapping[str, Mapping[str, Any]] = {"contextual": {"new_tokens": 20}}
"""The options of every audit. The paper's answers have 10 tokens, too few for many an e-mail
address or identity card, which would then count as unseen. Answers stop where they cannot become a
string that is looked for, so that longer ones take hardly more time."""
QUICK_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "contextual": {"samples": 8},
    "verbatim": {"documents": 24},
    "ranking": {"sentences": 40, "candidates": [20]},
    "inversion": {"attributes": 40},
}
"""The options that `--quick` reduces."""

INFERENCE = ("ranking", "inversion")
"""The attacks of the step `inference`."""

SAMPLE = 100
"""Texts of each client that memorization is measured on."""

NO_MARKS = "there is no file of watermarks: name one with --watermark"
"""The reason if there is nothing to attribute; any other reason means that it was not possible."""
NO_ROUNDS = "it needs the rounds in a federation's folder, and this model is in none"

DEFENDED = "the federation answers through its clients' deployed defence"
QUICK = "left out by --quick"
NO_HELD_OUT = "there are no held-out records: name some with --held-out"

STEPS: Mapping[type[AuditRequest], str] = {
    ExtractionRequest: "extraction",
    InferenceRequest: "inference",
    CrossClientRequest: "pairs",
    MemorizationRequest: "memorization",
    ExposureRequest: "canaries",
}
"""The name of each step, by the type of its request. One that looks for the records of a further
victim is called `extraction of c2`."""

OF_FEDERATION = ("reads_updates", "reads_clients")
"""The attributes of attacks that show something of all clients at once, and of no victim."""


def kind_of_step(name: str) -> str:
    """Return the kind of a step, whosever records it looks for: `extraction`, `inference`, ..."""
    return name.partition(" of ")[0]


SHOWS = {
    "pairs": "personal data of every client that every other one can pull out with its own records",
    "extraction": "personal data and whole passages of one client that another one can pull out; "
    "whether its records can be recognised as trained on; how often answers hold such data",
    "inference": "whether the model tells which person a sentence of the records is about, and "
    "what else a record says of a person known by name",
    "memorization": "whose texts the model continues for whom, word for word or as an idea",
    "canaries": "how far training moved planted secrets up among all of their kind",
    "attribution": "which clients trained on marked documents",
}
"""What each step can show."""

CANNOT = (
    "A step that finds nothing says so for its own questions only: other attacks may find more.",
    "Strings trained on once or a few times, or deep inside records, seldom come out of any "
    "question: that they were learned bars a pass, but fails no model.",
    "Kinds of personal data that neither the records' annotation nor the detector marks.",
    "Records are read out of updates of a single step only, a client's or a sum; of several steps, "
    "not.",
)
"""What no step can show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of an audit in their order, and why others are left out."""

    steps: Mapping[str, Inputs[Any]]
    """What each step asks the audited model, with all that it needs, by the step's name."""
    attribution: ResolvedRequest | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By step or by attack, in words."""
    victims: Mapping[str, str] = field(default_factory=dict)
    """By step, the client whose records it looks for, where several clients are victims in turn."""

    @property
    def requests(self) -> dict[str, AuditRequest]:
        """The steps' requests, by name."""
        return {name: inputs.request for name, inputs in self.steps.items()}


def no_attribution_reason(left_out: Mapping[str, str]) -> str:
    """Return why an attribution was left out although there are marks; empty otherwise."""
    why = left_out.get("attribution", NO_MARKS)
    return "" if why == NO_MARKS else why


def make_plan(
    material: Material,
    common: Mapping[str, Any],
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    commitment: str = "",
    quick: bool = False,
    attacks: Sequence[str] = (),
    reader: InputReader,
) -> Plan:
    """Return every step that the available material allows, resolved without a model.

    `common` are the fields that all requests have; `attacks` are made in addition. Canaries that
    only lie in the folder are left out where their client did not train the audited model. Raises
    UsageError if no step applies, and what the commands of the steps raise for a wrong option
    or file.
    """
    chosen = merge_tables(merge_tables(OPTIONS, QUICK_OPTIONS if quick else {}), options or {})
    offered = registry.plugins("attack")
    if unknown := [name for name in attacks if name not in offered]:
        raise unknown_name_error("attack", unknown[0], offered)
    if attacks and not material.prefixes:
        raise UsageError(f"The attack {attacks[0]} needs the attacker's documents: --prefixes.")
    fields = _Fields(common, chosen)
    answers = _has_answers(material, fields, reader)
    impossible = dict(_left_out_of_victims(material, answers=answers, quick=quick))
    impossible |= _left_out(material, quick=quick)
    left_out = {name: why for name, why in impossible.items() if name not in attacks}
    by_victim = list(_victim_requests(material, impossible, fields, attacks, quick=quick))
    requests = {name: request for name, _, request in by_victim}
    requests |= {
        STEPS[type(request)]: request
        for request in _common_requests(material, impossible, fields, commitment)
    }
    steps: dict[str, Inputs[Any]] = {}
    for name, request in requests.items():
        try:
            steps[name] = resolve(request, reader)
        except UntrainedError as error:
            if material.named_canaries:
                raise
            left_out[name] = str(error)
    if not steps:
        raise UsageError(
            "Nothing can be asked of this model with what is at hand: name --prefixes."
        )
    attribution = _attribution(material, common, left_out, reader)
    for name, why in left_out.items():
        _log.info("%s is left out: %s", name, why)
    victims = {name: client for name, client, _ in by_victim}
    several = len(set(victims.values())) > 1
    return Plan(
        steps=steps,
        attribution=attribution,
        left_out=left_out,
        victims=victims if several else {},
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """What requests have in common, and the options of all plugins."""

    common: Mapping[str, Any]
    options: Mapping[str, Mapping[str, Any]]

    def request_fields(self, *attacks: str) -> dict[str, Any]:
        """Return the fields of a request that makes these attacks."""
        names = (*attacks, str(self.common["detector"]))
        options = {name: self.options[name] for name in names if name in self.options}
        return {**self.common, "options": options}

    def adapter_request_fields(self) -> dict[str, Any]:
        """Return the fields of a request that asks the global adapter itself, under no key."""
        return {key: v for key, v in self.request_fields().items() if key not in ("client", "keys")}


def _victim_requests(
    material: Material,
    left_out: Mapping[str, str],
    fields: _Fields,
    further: Sequence[str],
    *,
    quick: bool,
) -> Iterator[tuple[str, str, AuditRequest]]:
    """Yield name, victim and request of every step that looks for one client's records.

    `further` attacks are made besides those that are not `left_out`. Under `quick` there is one
    victim. What an attack shows of the whole federation it shows beside the first victim.
    """
    first = _requests_on(material, left_out, fields, further, quick=quick)
    client = material.client_name(material.victim)
    yield from ((STEPS[type(request)], client, request) for request in first)
    of_all = [*attacks_with(*OF_FEDERATION), "gate"]
    for attacker, victim in () if quick else material.further_pairs:
        pair = replace(material, prefixes=attacker, victim=victim)
        client = material.client_name(victim)
        others = [name for name in further if name not in of_all]
        for request in _requests_on(pair, {*left_out, *of_all}, fields, others, quick=quick):
            yield f"{STEPS[type(request)]} of {client}", client, request


def _requests_on(
    material: Material,
    left_out: Collection[str],
    fields: _Fields,
    further: Sequence[str],
    *,
    quick: bool,
) -> Iterator[AuditRequest]:
    """Yield the requests that look for the records of the victim."""
    if material.prefixes:
        planned = _attacks(material, left_out, quick=quick)
        attacks = tuple(dict.fromkeys((*planned, *further)))
        yield ExtractionRequest(
            **fields.request_fields(*attacks),
            attacks=attacks,
            prefixes=material.prefixes,
            victim=material.victim,
            held_out=material.held_out if {"membership", "discoverable"} & {*attacks} else None,
        )
    if data := material.victim or material.prefixes:
        yield InferenceRequest(
            **fields.request_fields(*INFERENCE),
            attacks=INFERENCE,
            data=data,
            attacker=material.prefixes if material.victim else None,
        )


def _common_requests(
    material: Material, left_out: Mapping[str, str], fields: _Fields, commitment: str
) -> Iterator[AuditRequest]:
    """Yield the requests for what is not `left_out` and concerns all clients at once."""
    if "pairs" not in left_out:
        yield CrossClientRequest(**fields.request_fields("contextual"), clients=material.clients)
        yield MemorizationRequest(
            **fields.adapter_request_fields(),
            clients=material.clients,
            protocol=Protocol(sample=SAMPLE),
            shorter=True,
        )
    if material.canaries and "canaries" not in left_out:
        yield ExposureRequest(
            **fields.adapter_request_fields(), canaries=material.canaries, commitment=commitment
        )


def _attacks(material: Material, left_out: Collection[str], *, quick: bool) -> list[str]:
    """Return the attacks on one victim; those on every pair of clients have a step of their own."""
    if material.victim is None:
        return ["contextual"]
    possible = (
        *(["contextual"] if "pairs" in left_out else []),
        *("verbatim", "membership", "discoverable"),
        *([] if quick else ["untargeted", "benign"]),
        *(["gate"] if material.audited.deployment else []),
        *([] if _no_updates(material) else ["reconstruction"]),
    )
    return [name for name in possible if name not in left_out]


def _no_updates(material: Material) -> str:
    """Return why nothing that clients made of a round can be inverted; empty if it can."""
    federation, number = material.audited.federation, material.audited.round
    if material.narrowed:
        return material.narrowed
    if material.audited.deployment or federation is None or number is None:
        return "it needs a round of a federation's global adapter"
    [of_round] = [entry for entry in federation.manifest.rounds if entry.round == number]
    if not set(of_round.participants) & {client.name for client in material.clients}:
        return f"the records of no client that took part in round {number} are at hand"
    return ""


def _attribution(
    material: Material, common: Mapping[str, Any], left_out: dict[str, str], reader: InputReader
) -> ResolvedRequest | None:
    """Return the attribution's inputs; the reason why there are none goes to `left_out`."""
    federation = material.audited.federation
    if material.marks is None:
        return None
    if federation is None:
        left_out["attribution"] = NO_ROUNDS
        return None
    request = AttributionRequest(
        rounds=federation.path,
        watermark=material.marks,
        seed=common["seed"],
        worker_options=WorkerOptions(device=common["device"], dtype=common["dtype"]),
    )
    try:
        return resolve_request(request, reader)
    except FedauditError as error:
        left_out["attribution"] = str(error)
        return None


def _has_answers(material: Material, fields: _Fields, reader: InputReader) -> bool:
    """Tell whether a victim's records have an answer to an instruction."""
    victims = [material.victim, *(victim for _, victim in material.further_pairs)]
    requests = [InferenceRequest(**fields.request_fields(), data=path) for path in victims if path]
    return any(
        document.output
        for request in requests
        for document in reader.corpus(request.data, form_of(request, material.audited)).documents
    )


def _left_out_of_victims(
    material: Material, *, answers: bool, quick: bool
) -> Iterator[tuple[str, str]]:
    """Yield the attacks on a victim that the material does not allow, or that `--quick` skips.

    `answers` tells whether the victims' records have some.
    """
    if material.victim is None:
        yield "verbatim", "only the attacker's records are available: name some with --victim"
        return
    if not material.held_out:
        yield "membership", NO_HELD_OUT
    if quick:
        yield "discoverable", QUICK
    elif not answers:
        yield "discoverable", "no record has an answer to an instruction"
    elif not material.held_out:
        yield "discoverable", NO_HELD_OUT


def _left_out(material: Material, *, quick: bool) -> Iterator[tuple[str, str]]:
    """Yield the steps that the material does not allow, and those that `--quick` skips."""
    if material.audited.federation and (why := _no_updates(material)):
        yield "reconstruction", why
    if len(material.clients) < 2:
        alone = "the documents of fewer than two clients are at hand"
    elif material.audited.deployment:
        alone = f"{DEFENDED}: --round N audits the global adapter"
    else:
        alone = material.narrowed or (QUICK if quick else "")
    if alone:
        yield "pairs", alone
        yield "memorization", alone
    if quick and material.further_pairs:
        names = sorted(material.client_name(victim) for _, victim in material.further_pairs)
        yield OTHER_VICTIMS, f"the records of {' and '.join(names)} were {QUICK}"
    if absent := material.absent_clients:
        yield OTHER_CLIENTS, f"the records of {', '.join(absent)} are not at hand"
    if not material.canaries:
        yield "canaries", "there is no file of canaries: name one with --canaries"
    elif material.audited.deployment:
        yield "canaries", f"{DEFENDED}: --round N measures the global adapter"
    if not material.marks:
        yield "attribution", NO_MARKS
