"""`fedaudit extract` and `fedaudit infer`: attacks by one attacker, on one victim or on anybody."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedaudit.api.engine import Engine
from fedaudit.api.errors import NoEffectError, UsageError
from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.records import ClientModel
from fedaudit.audit import attack_runner, evidence, pipeline
from fedaudit.audit.access import ModelView, model_views
from fedaudit.audit.inputs import (
    client_models,
    counterfactual,
    held_out,
    reference_models,
    round_models,
)
from fedaudit.audit.inputs.files import InputFile, read, reading_caveats
from fedaudit.audit.inputs.other_members import (
    NO_MEMBERS_CAVEAT,
    member_files,
    shared_records_caveats,
    victim_copies,
    victim_copies_caveat,
)
from fedaudit.audit.pipeline import AuditPipeline, AuditResults, Watcher
from fedaudit.audit.preflight import adapter_effect, prompt_start
from fedaudit.audit.request import AuditRequest, ExtractionRequest
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.extraction import estimator_choice
from fedaudit.extraction.prefixes import pii_occurrences

CONTEXT = 50
"""Tokens of context for measuring how prompts should begin."""


def check(request: AuditRequest) -> AuditTarget:
    """Return the audited target, after every check that needs no model.

    Raises UsageError for an option that needs a victim if none is named.
    """
    if isinstance(request, ExtractionRequest):
        estimator_choice.check(request.attacks, request.options, victim=request.victim)
        if request.victim is None and (request.members or request.control):
            option = "--member" if request.members else "--control"
            raise UsageError(f"{option} goes with --victim.")
    return pipeline.check(request)


@dataclass(kw_only=True)
class AttackPipeline(AuditPipeline[AuditRequest]):
    """All attacks of a request on one attacker's documents."""

    check = staticmethod(check)
    _attacker: InputFile = field(init=False)
    _victim: InputFile | None = field(init=False)
    _held_out: held_out.HeldOut | None = field(init=False)
    _members: dict[str, InputFile] = field(init=False)
    _victim_copies: list[str] = field(init=False)
    _control: InputFile | None = field(init=False)
    _without: counterfactual.CounterfactualRun | None = field(init=False)
    _clients: dict[str, ClientModel] = field(init=False)
    _references: list[reference_models.ReferenceRun] = field(init=False)
    _strangers: int = field(init=False, default=0)

    def read_inputs(self) -> Sequence[InputFile]:
        """Read the documents of everybody named in the request."""
        request, form = self.request, self.form
        self._attacker = read(request.input_path, form, request)
        self._victim = read(request.victim_path, form, request) if request.victim_path else None
        input_files = [self._attacker, *([self._victim] if self._victim else [])]
        files = member_files(request, self.audited).items()
        self._members = {name: read(path, form, request) for name, path in files}
        others = list(self._members.values())
        self._held_out = held_out.read(request, self.audited, form, input_files, others)
        # A member that the user named counts as one, whatever records it has.
        self._victim_copies = [] if request.members else victim_copies(self._victim, self._members)
        for name in self._victim_copies:
            del self._members[name]
        self._control = read(request.control, form, request) if request.control else None
        self._clients = client_models.read(client_models.find(request, self.audited), form)
        self._without = counterfactual.find(request, self.audited)
        self._references = reference_models.find(request, self.audited)
        if self._without:
            self._strangers = self._without.check(input_files[-1].documents, self.audited, form)
        return [*self._files, *([self._held_out.file] if self._held_out else [])]

    @property
    def _files(self) -> list[InputFile]:
        """All documents but those held out."""
        named = [self._attacker, self._victim, *self._members.values(), self._control]
        return [file for file in named if file]

    def measure(self, engine: Engine) -> AuditResults:
        """Run every attack under every kind of key."""
        request, audited = self.request, self.audited
        attacks = [
            registry.create("attack", name, request.options.get(name)) for name in request.attacks
        ]
        results: list[Result] = []
        measured: dict[str, Any] = {}
        start: prompt_start.PromptStartScores | None = None
        everywhere, once = ([a for a in attacks if a.once == flag] for flag in (False, True))
        cache = attack_runner.response_cache(everywhere)
        views = model_views(engine, audited, request.keys)
        tries = attack_runner.AttackExecutor(alone=len(attacks) == 1)
        for view in views:
            # Prompts begin in the same way under every key: as the first view's adapter expects.
            start = start or prompt_start.choose_prompt_start(
                view.engine,
                view.tuned,
                pii_occurrences(view.engine, self._attacker.documents, CONTEXT),
            )
            context, before = prepare(
                view, audited, self._attacker, self._victim, request, self.watch, start_scores=start
            )
            context = self._with_others(context)
            everywhere_results = attack_runner.run(everywhere, context, cache, tries, self.journal)
            results += map(view.add_scope, everywhere_results)
            results += [view.under_no_key.add_scope(tries.make(attack, context)) for attack in once]
            once = []
            measured = measured or before
        tries.check()
        self.finish_asking()
        documents = [document for file in self._files for document in file.documents]
        names = [str(value) for view in views for value in view.scope.values()]
        results = evidence.mask_results(results, documents, self.redactor, names)
        queries = attack_runner.count_queries(results, cache, views)
        return AuditResults(results=results, usage={"queries": queries}, **measured)

    def _with_others(self, context: AttackContext) -> AttackContext:
        """Return `context` with members, controls, references and held-out records."""
        context = replace(
            context,
            template=self.form,
            members={name: file.documents for name, file in self._members.items()},
            control=self._control.documents if self._control else (),
            clients=self._clients,
            references=reference_models.models(self._references, self.form),
            rounds=round_models.targets(round_models.find(self.request, self.audited)),
        )
        context = self._held_out.add_to(context) if self._held_out else context
        return self._without.add_to(context) if self._without else context

    def caveats(self) -> list[str]:
        """Return the caveats about held-out records, files and missing members."""
        return [
            *(self._held_out.limits if self._held_out else ()),
            *(self._without.caveats(self._strangers) if self._without else ()),
            *reference_models.caveats(self._references),
            *reading_caveats(self._files),
            *shared_records_caveats(self._attacker, self._victim),
            *([victim_copies_caveat(self._victim_copies)] if self._victim_copies else []),
            *([NO_MEMBERS_CAVEAT] if self._victim and not self._members else []),
        ]


def prepare(
    view: ModelView,
    audited: AuditTarget,
    attacker: InputFile,
    victim: InputFile | None,
    request: AuditRequest,
    watch: Watcher,
    *,
    start_scores: prompt_start.PromptStartScores,
) -> tuple[AttackContext, dict[str, Any]]:
    """Return the context of the attacks, and what was measured on the target before them."""
    changed, base = None, audited.untuned
    if base:
        try:
            changed = adapter_effect.measure(view.engine, view.tuned, base, attacker.documents)
        except NoEffectError:
            # Of several adapters, some may have no effect, but not one that a right key unlocks.
            if not view.scope or view.authorised:
                raise
    context = AttackContext(
        engine=view.engine,
        tuned=view.tuned,
        base=base,
        attacker=attacker.documents,
        victim=victim.documents if victim else None,
        seed=request.seed,
        beginning=start_scores.chosen,
        detector=registry.create(
            "detector", request.detector, request.options.get(request.detector)
        ),
        progress=watch,
    )
    return context, {"effect": adapter_effect.table(changed), "beginning": start_scores.table()}
