"""What a member draws from the model, and what it asks the others."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Target
from fedaudit.audit import access
from fedaudit.audit.access import ModelView
from fedaudit.audit.attacks import measure_prompt_start, prepare_context
from fedaudit.audit.fingerprint import compute_fingerprint
from fedaudit.audit.run import Watcher
from fedaudit.audit.session import open_cache
from fedaudit.cache.answers import FILE, AnswerCache
from fedaudit.extraction import sampling
from fedaudit.extraction.leak_tests import known_counts
from fedaudit.extraction.matcher import TargetMatcher
from fedaudit.extraction.positive_controls import positive_controls
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.query_budget import limit_plan
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.sampling import ResponseCache, share_responses
from fedaudit.extraction.scoring import HitCounter
from fedaudit.extraction.targets import TargetSet
from fedaudit.joint import exchange
from fedaudit.joint.elements import Elements
from fedaudit.joint.exchange import ASK, REQUEST, SETUP
from fedaudit.joint.inputs import JointInputs, attack_of
from fedaudit.joint.keys import BASE, TUNED, answer_keys, text_keys
from fedaudit.joint.member import Member, fingerprints, read_commitments

NOTHING_TO_ASK = "These records hold no PII with text before it, so there is nothing to ask."


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The keys of what a member drew, and how many of its own strings came out, by label."""

    keys: Elements
    known: dict[str, tuple[float, int]]
    size: int
    """How many prefixes were asked."""


def model_context(
    inputs: JointInputs, view: ModelView, watch: Watcher
) -> tuple[AttackContext, dict[str, Any]]:
    """Return the context of a member as attacker, and what was measured before it asks."""
    start = measure_prompt_start(view, inputs.ours.documents)
    context, effect = prepare_context(
        view, inputs.audited, inputs.ours, None, inputs.request, watch
    )
    measured = {"effect": effect, "beginning": start.table()}
    return replace(context, beginning=start.chosen), measured


def limited_plan(inputs: JointInputs, attack: PrefixAttack, context: AttackContext) -> QueryPlan:
    """Return what a member asks; raises InputError if that is nothing."""
    plan = attack.plan(context)
    if not plan.size:
        raise InputError(NOTHING_TO_ASK)
    request = inputs.request
    return limit_plan(
        plan, request.budget, seed=request.seed, ordered=attack.ordered, name=attack.name
    )


def ask(member: Member, watch: Watcher) -> Path:
    """Draw from the model as an attacker does; return the file that all others need.

    An interrupted run goes on where it was. Raises InputError if the folder lacks commitments.
    """
    commitments = read_commitments(member.folder)
    exchange.check_place(member.folder, ASK, member.name)
    inputs, attack = member.inputs, attack_of(member.request)
    with _kept(member) as kept:
        engine, base_sha256 = access.load_engine(inputs.audited, inputs.form, member.request, kept)
        [view] = access.model_views(engine, inputs.audited, ())
        context, _ = model_context(inputs, view, watch)
        drawn = draw(attack, share_responses(context, ResponseCache(), kept), inputs)
        for document in inputs.ours.documents:
            drawn.keys.update(text_keys(document.text))
        path = member.send(
            ASK,
            {
                "commitments": fingerprints(commitments),
                "base": base_sha256,
                "prefixes": drawn.size,
                "known": drawn.known,
            },
            {
                SETUP: member.holder.setup(drawn.keys),
                REQUEST: member.asker.request(member.asked),
            },
        )
        kept.remove()
    return path


@contextmanager
def _kept(member: Member) -> Iterator[AnswerCache]:
    """Provide the cache of answers in the member's private folder."""
    fingerprint = compute_fingerprint(member.inputs)
    resume = (member.private / FILE).exists()
    with open_cache(member.request, fingerprint, member.private, resume=resume) as kept:
        yield kept


def draw(attack: PrefixAttack, context: AttackContext, inputs: JointInputs) -> Drawn:
    """Ask both models all prefixes; return the keys of the completions.

    The positive controls are the attacker's own strings, which its questions should draw.
    """
    plan = limited_plan(inputs, attack, context)
    labels = {label for d in context.attacker for _, label in d.strings()}
    known = positive_controls(replace(context, victim=()), labels)
    context, _ = attack.prepare(context)
    keys = Elements()
    matcher = TargetMatcher(known.labels)

    def count(model: str, target: Target) -> HitCounter:
        counter = HitCounter(TargetSet(labels={}, known=known), attack.samples)
        for start, query, texts in sampling.ask_plan(context, target, plan, attack.query_params):
            for text in texts:
                keys.update(answer_keys(model, text, query.leads))
            counter.update([(start, query, [matcher.reduce(t, query.leads) for t in texts])])
        return counter

    tuned = count(TUNED, context.tuned)
    base = count(BASE, context.base) if context.base else None
    said = dict.fromkeys(known.labels, 0.0)
    said |= dict.fromkeys(tuned.known.keys() - (base.known if base else {}), 1.0)
    counts = known_counts(context, known.labels, attack.new_tokens, said)
    return Drawn(keys=keys, known=counts, size=plan.size)
