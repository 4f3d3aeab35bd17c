"""Every client of a federation as attacker on every other one (FedPII, section 5.3 and table 2).

What an attacker asks is asked once, of each model, and heard against every victim.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.records import Document
from fedaudit.api.templates import template
from fedaudit.audit import attack_runner, environment, evidence, pipeline
from fedaudit.audit import fingerprint as identity
from fedaudit.audit.access import ModelView, fingerprint, model_views
from fedaudit.audit.inputs.clients import ClientData
from fedaudit.audit.inputs.files import InputFile, read, reading_caveats
from fedaudit.audit.pipeline import CONTEXT, Audit, Watcher, no_watcher
from fedaudit.audit.preflight import prompt_start
from fedaudit.audit.request import AuditRequest
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.extraction import multi_victim, scoring
from fedaudit.extraction.matcher import TargetMatcher
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.prefixes import pii_occurrences
from fedaudit.extraction.query_budget import limit_plan
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.sampling import share_responses
from fedaudit.extraction.targets import TargetSet
from fedaudit.federation.folder import unchecked_caveats
from fedaudit.journal.shards import AuditJournal

if TYPE_CHECKING:
    from fedaudit.report.redaction import Redactor

BUDGET = 10_000
"""The paper's: so many random prefixes of each attacker."""

NOTHING_TO_ASK = "the attacker has no PII with text before it, so there is nothing to ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossClientRequest(AuditRequest):
    """What `fedaudit extract --matrix` was asked to do."""

    command: ClassVar[str] = "extract"
    purpose: ClassVar[str] = "extraction"

    attacks: tuple[str, ...] = ("contextual",)
    clients: tuple[ClientData, ...]
    budget: int = BUDGET
    """How many prefixes of each attacker are asked, drawn at random from those of a multiset."""

    @property
    def own(self) -> Path:
        """The documents of the first client, by which the federation is found."""
        return Path(self.clients[0].path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacker:
    """One client, what it is given, and all the others by name."""

    name: str
    case: AttackContext
    victims: Mapping[str, Sequence[Document]]


def check(request: CrossClientRequest) -> AuditTarget:
    """Return what is audited, after every check that needs no model.

    Raises UsageError for an attack that asks no prefixes, and for a deployed defence unless
    somebody is named whose model everybody asks.
    """
    audited = pipeline.check(request)
    _attacks(request)
    if audited.deployment and request.client is None:
        raise UsageError(
            "The federation answers through its clients' deployed defence: audit the global "
            "adapter with --round, or name with --client whose deployed model everybody asks."
        )
    return audited


def _attacks(request: CrossClientRequest) -> list[PrefixAttack]:
    made = []
    for name in request.attacks:
        attack = registry.create("attack", name, request.options.get(name))
        if not isinstance(attack, PrefixAttack):
            raise UsageError(f"The attack {name} asks no prefixes: it has no --matrix.")
        made.append(attack)
    return made


def run(
    request: CrossClientRequest,
    redactor: Callable[[], "Redactor"],
    watch: Watcher = no_watcher,
    kept: AuditJournal | None = None,
) -> Audit:
    """Audit every pair of clients and return one report; `kept` is what earlier runs were told."""
    from fedaudit.report.run_header import build_report

    started = datetime.now(UTC)
    attacks, audited = _attacks(request), check(request)
    form = audited.federation.template if audited.federation else template(request.template)
    files = {one.name: read(Path(one.path), form, request) for one in request.clients}
    control = read(request.control, form, request) if request.control else None
    everybody = _together(files)
    engine, base_sha256 = pipeline.load(audited, form, request, kept)
    memory, ways = attack_runner.response_cache(attacks), model_views(engine, audited, request.keys)
    results: list[Result] = []
    found: dict[str, Any] = {}
    begun: prompt_start.PromptStartScores | None = None
    for view in ways:
        begun = begun or prompt_start.choose_prompt_start(
            view.engine, view.tuned, pii_occurrences(view.engine, everybody.documents, CONTEXT)
        )
        case, measured = pipeline.prepare(
            view, audited, everybody, None, request, watch, begun=begun
        )
        case = replace(case, control=control.documents if control else ())
        results += _everybody(
            attacks, share_responses(case, memory, kept), files, request.budget, view
        )
        found = found or measured
    if kept:
        kept.asked()
    names = [*files, *(str(value) for view in ways for value in view.scope.values())]
    results = evidence.mask_results(results, everybody.documents, redactor, names)
    report = build_report(
        command=request.command,
        name=identity.identity(request, audited),
        config={**identity.settings(request), "round": audited.round},
        started=started,
        **pipeline.resumption_facts(kept),
        base=audited.base,
        adapter=str(audited.adapter) if audited.adapter else None,
        sha256=fingerprint(audited) or base_sha256,
        base_sha256=base_sha256,
        **found,
        spent={"queries": _queries(attacks, attack_runner.count_queries(results, memory, ways))},
        environment=environment.describe(request.device),
        data=[file.row() for file in (*files.values(), *([control] if control else []))],
        seeds={request.purpose: request.seed},
        measurements=[row for result in results for row in result.measurements],
        findings=evidence.mask_findings([f for one in results for f in one.findings], redactor),
        limits=[limit for result in results for limit in result.limits]
        + unchecked_caveats(audited.federation)
        + reading_caveats(list(files.values())),
    )
    revealed = tuple(leak for result in results for leak in result.revealed)
    return Audit(report=report, revealed=revealed, audited=audited)


def _queries(attacks: Sequence[PrefixAttack], asked: int | None) -> int | None:
    """Return how many questions were asked: none where nothing could be, null if not to count."""
    sampled = any(attack.estimator == "sample" for attack in attacks)
    return asked or 0 if sampled else None


def _together(files: Mapping[str, InputFile]) -> InputFile:
    """Return all documents; raises InputError where nobody has any PII."""
    first = next(iter(files.values()))
    documents = [one for file in files.values() for one in file.documents]
    if not any(one.pii for one in documents):
        raise InputError("No client's documents hold PII: there is nothing to ask or to look for.")
    return InputFile(path=first.path, documents=documents, annotation=first.annotation)


def _everybody(
    attacks: Sequence[PrefixAttack],
    case: AttackContext,
    files: Mapping[str, InputFile],
    budget: int,
    view: ModelView,
) -> Iterator[Result]:
    """Yield the result of every pair, attack by attack."""
    for attack in attacks:
        # Together, because a kind of PII is only unknown when nobody has it.
        chosen = iter(attack.restrict(case).attacker)
        own = {name: [next(chosen) for _ in file.documents] for name, file in files.items()}
        attackers: list[Attacker] = []
        for name, documents in own.items():
            others = {other: own[other] for other in own if other != name}
            attacker = Attacker(name=name, case=_case(case, name, documents), victims=others)
            attackers.append(attacker)
        truths = [_truths(attack, attacker) for attacker in attackers]
        # One list for all, so that an answer that one attacker has heard does for another.
        among = _strings([truth for found in truths for truth in found.values()])
        for attacker, found in zip(attackers, truths, strict=True):
            yield from attack_all(attack, attacker, budget, view, found, among)


def _case(case: AttackContext, name: str, documents: Sequence[Document]) -> AttackContext:
    return replace(
        case, attacker=documents, progress=lambda title: case.progress(f"{name}: {title}")
    )


def attack_all(
    attack: PrefixAttack,
    attacker: Attacker,
    budget: int,
    view: ModelView,
    truths: Mapping[str, TargetSet] | None = None,
    among: TargetMatcher | None = None,
) -> Iterator[Result]:
    """Yield what one client finds of every other, and first what it asked.

    `truths` are what each victim alone has and `among` all strings that anybody looks for; without
    them they are made here, for this attacker.
    """
    case, truths = attacker.case, truths or _truths(attack, attacker)
    wanted = {victim: truth for victim, truth in truths.items() if truth.labels}
    told: tuple[str, ...] = ()
    why, found = "", dict[str, Result]()
    if wanted:
        try:
            asked = _plan(attack, case, budget)
            among = among or _strings(truths.values())
            found, told = multi_victim.results(attack, case, asked, wanted, among)
        except InputError as error:  # this client's documents do not do; another's may
            why = str(error)
    yield view.within(Result(limits=tuple(f"{attacker.name}: {note}" for note in told)))
    for victim, documents in attacker.victims.items():
        if victim in found:
            result = found[victim]
        elif victim in wanted:
            result = scoring.missing_result(attack.name, why or NOTHING_TO_ASK)
        else:
            own = replace(case, victim=documents)
            result = scoring.empty_result(attack.name, own, chosen=bool(attack.labels))
        pair = {**view.scope, "attacker": attacker.name, "victim": victim}
        yield replace(view, scope=pair).within(result)


def _truths(attack: PrefixAttack, attacker: Attacker) -> dict[str, TargetSet]:
    return {
        victim: attack.truth(
            replace(attacker.case, victim=documents, members=_rest(attacker, victim))
        )
        for victim, documents in attacker.victims.items()
    }


def _rest(attacker: Attacker, victim: str) -> dict[str, Sequence[Document]]:
    """Return the documents of everybody but an attacker and its victim."""
    return {name: own for name, own in attacker.victims.items() if name != victim}


def _strings(truths: Iterable[TargetSet]) -> TargetMatcher:
    return TargetMatcher(string for truth in truths for string in (*truth.labels, *truth.control))


def _plan(attack: PrefixAttack, case: AttackContext, budget: int) -> QueryPlan:
    whole = attack.plan(case)
    return limit_plan(whole, budget, seed=case.seed, ordered=attack.ordered, name=attack.name)
