"""Every client of a federation as attacker on every other one (FedPII, section 5.3 and table 2).

Each attacker asks each model once, and its answers are compared with every victim.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.records import Document, PromptStart
from fedaudit.audit.access import ModelView
from fedaudit.audit.input_files import InputFile
from fedaudit.audit.request import CrossClientRequest
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.extraction import scoring
from fedaudit.extraction.matcher import TargetMatcher
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.query_budget import limit_plan
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.targets import TargetSet

NOTHING_TO_ASK = "the attacker has no PII with text before it, so there is nothing to ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacker:
    """One client as attacker: its attack context, and the other clients' documents by name."""

    name: str
    context: AttackContext
    victims: Mapping[str, Sequence[Document]]


def check(request: CrossClientRequest, audited: AuditTarget) -> None:
    """Refuse an attack without prefixes, and a deployed defence if the request names no client."""
    for name in request.attacks:
        attack = registry.create("attack", name, request.options.get(name))
        if not isinstance(attack, PrefixAttack):
            raise UsageError(f"The attack {name} asks no prefixes: it does not work with --matrix.")
    if audited.deployment and request.client is None:
        raise UsageError(
            "The federation answers through its clients' deployed defence: audit the global "
            "adapter with --round, or name with --client the client whose deployed model "
            "everybody asks."
        )


def pool_documents(files: Mapping[str, InputFile]) -> InputFile:
    """Return all documents; raises InputError if no client has any PII."""
    first = next(iter(files.values()))
    documents = [document for file in files.values() for document in file.documents]
    if not any(document.pii for document in documents):
        raise InputError("No client's documents hold PII: there is nothing to ask or to look for.")
    return replace(first, documents=documents)


def attack_every_pair(
    attacks: Iterable[PrefixAttack],
    context: AttackContext,
    files: Mapping[str, InputFile],
    starts: Mapping[str, PromptStart],
    budget: int,
    view: ModelView,
) -> Iterator[Result]:
    """Yield the result of every pair, attack by attack; `starts` holds every attacker's own."""
    for attack in attacks:
        for name, file in files.items():
            unasked = Result(measurements=attack.unasked_label_rows(file.documents))
            yield replace(view, scope={**view.scope, "victim": name}).add_scope(unasked)
        # All clients together: a kind of PII is unknown only if no one has it.
        chosen = iter(attack.restrict(context).attacker)
        corpora = {name: [next(chosen) for _ in file.documents] for name, file in files.items()}
        attackers: list[Attacker] = []
        for name, documents in corpora.items():
            victims = {victim: corpora[victim] for victim in corpora if victim != name}
            own = replace(_attacker_context(context, name, documents), beginning=starts[name])
            attackers.append(Attacker(name=name, context=own, victims=victims))
        attacker_targets = [_target_sets(attack, attacker) for attacker in attackers]
        # One list of strings for all, so that attackers can share answers.
        matcher = _strings(
            [target_set for target_sets in attacker_targets for target_set in target_sets.values()]
        )
        for attacker, target_sets in zip(attackers, attacker_targets, strict=True):
            yield from attack_all(attack, attacker, budget, view, target_sets, matcher)


def _attacker_context(
    context: AttackContext, name: str, documents: Sequence[Document]
) -> AttackContext:
    return replace(
        context, attacker=documents, progress=lambda title: context.progress(f"{name}: {title}")
    )


def attack_all(
    attack: PrefixAttack,
    attacker: Attacker,
    budget: int,
    view: ModelView,
    target_sets: Mapping[str, TargetSet] | None = None,
    matcher: TargetMatcher | None = None,
) -> Iterator[Result]:
    """Yield notes on what one client asked, then what it finds of every other client.

    `target_sets` holds the targets of each victim, and `matcher` finds the strings that anybody
    looks for; if not given, both are made for this attacker.
    """
    context, target_sets = attacker.context, target_sets or _target_sets(attack, attacker)
    nonempty_target_sets = {
        victim: target_set for victim, target_set in target_sets.items() if target_set.labels
    }
    notes: tuple[str, ...] = ()
    why, results = "", dict[str, Result]()
    if nonempty_target_sets:
        try:
            plan = _plan(attack, context, budget)
            matcher = matcher or _strings(target_sets.values())
            results, notes = attack.attack_victims(context, plan, nonempty_target_sets, matcher)
        except InputError as error:  # this client's documents cannot be used; others may work
            why = str(error)
    yield view.add_scope(Result(limits=tuple(f"{attacker.name}: {note}" for note in notes)))
    for victim, documents in attacker.victims.items():
        if victim in results:
            result = results[victim]
        elif victim in nonempty_target_sets:
            result = scoring.missing_result(attack.name, why or NOTHING_TO_ASK)
        else:
            victim_context = replace(context, victim=documents)
            result = scoring.empty_result(attack.name, victim_context, chosen=bool(attack.labels))
        pair = {**view.scope, "attacker": attacker.name, "victim": victim}
        yield replace(view, scope=pair).add_scope(result)


def _target_sets(attack: PrefixAttack, attacker: Attacker) -> dict[str, TargetSet]:
    return {
        victim: attack.target_set(
            replace(attacker.context, victim=documents, members=_other_members(attacker, victim))
        )
        for victim, documents in attacker.victims.items()
    }


def _other_members(attacker: Attacker, victim: str) -> dict[str, Sequence[Document]]:
    """Return the documents of everybody but an attacker and its victim."""
    return {name: documents for name, documents in attacker.victims.items() if name != victim}


def _strings(target_sets: Iterable[TargetSet]) -> TargetMatcher:
    return TargetMatcher(string for target_set in target_sets for string in target_set.searched)


def _plan(attack: PrefixAttack, context: AttackContext, budget: int) -> QueryPlan:
    full_plan = attack.plan(context)
    return limit_plan(
        full_plan, budget, seed=context.seed, ordered=attack.ordered, name=attack.name
    )
