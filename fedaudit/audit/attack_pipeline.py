"""`fedaudit extract` and `fedaudit infer`: attacks by one attacker, on one victim or on anybody."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedaudit.api.engine import Engine
from fedaudit.api.errors import NoEffectError, UsageError
from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.records import ClientModel
from fedaudit.audit import attack_runner, evidence
from fedaudit.audit.access import ModelView, model_views
from fedaudit.audit.inputs import (
    client_models,
    counterfactual,
    held_out,
    reference_models,
    resolution,
    round_models,
)
from fedaudit.audit.inputs.files import annotated, reading_caveats
from fedaudit.audit.inputs.input_file import InputFile
from fedaudit.audit.inputs.other_members import (
    NO_MEMBERS_CAVEAT,
    member_files,
    shared_records_caveats,
    unvouched_caveats,
    victim_copies,
    victim_copies_caveat,
)
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.inputs.resolution import Inputs
from fedaudit.audit.pipeline import AuditPipeline, AuditResults, Watcher
from fedaudit.audit.preflight import adapter_effect, prompt_start
from fedaudit.audit.request import AuditRequest, ExtractionRequest
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.extraction import estimator_choice
from fedaudit.extraction.prefixes import pii_occurrences

CONTEXT = 50
"""Tokens of context for measuring how prompts should begin."""


@dataclass(frozen=True, kw_only=True)
class AttackInputs(Inputs[AuditRequest]):
    """The documents and models of an attack by one attacker; no detector has read them yet."""

    attacker: InputFile
    victim: InputFile | None
    members: Mapping[str, InputFile]
    control: InputFile | None
    held_out: held_out.HeldOut | None
    without: counterfactual.CounterfactualRun | None
    strangers: int
    """The number of tried records that are not known to belong to a client left out."""
    clients: Mapping[str, ClientModel]
    references: Sequence[reference_models.ReferenceRun]
    rounds: Mapping[int, Path]

    @property
    def tried(self) -> InputFile:
        """The documents that are looked for: the victim's, or else the attacker's own."""
        return self.victim or self.attacker


def resolve(request: AuditRequest, reader: InputReader) -> AttackInputs:
    """Return the inputs, after every check that needs no model.

    Raises UsageError for an option that needs a victim if none is named.
    """
    if isinstance(request, ExtractionRequest):
        estimator_choice.check(request.attacks, request.options, victim=request.victim)
        if request.victim is None and (request.members or request.control):
            option = "--member" if request.members else "--control"
            raise UsageError(f"{option} goes with --victim.")
    audited = resolution.resolve_target(request, reader)
    form = resolution.form_of(request, audited)
    without = counterfactual.find(request, audited, reader)
    client_files = client_models.find(request, audited)
    rounds = round_models.find(request, audited)
    references = reference_models.find(request, audited, form, reader)
    facts = {
        **({"counterfactual's SHA-256": without.sha256} if without else {}),
        **client_models.facts(client_files, reader),
        **round_models.facts(rounds, reader),
        **reference_models.facts(references),
    }
    attacker = reader.corpus(request.input_path, form)
    victim = reader.corpus(request.victim_path, form) if request.victim_path else None
    input_files = [attacker, *([victim] if victim else [])]
    files = member_files(request, audited).items()
    members = {name: reader.corpus(path, form) for name, path in files}
    others = list(members.values())
    held_out_records = held_out.read(request, audited, form, input_files, others, reader=reader)
    tried = input_files[-1].documents
    return AttackInputs(
        **resolution.common_inputs(request, audited, reader, facts),
        attacker=attacker,
        victim=victim,
        members=members,
        control=reader.corpus(request.control, form) if request.control else None,
        held_out=held_out_records,
        without=without,
        strangers=without.check(tried, audited, form, reader) if without else 0,
        clients=client_models.read(client_files, form, reader),
        references=references,
        rounds=rounds,
    )


@dataclass(kw_only=True)
class AttackPipeline(AuditPipeline[AttackInputs]):
    """All attacks of a request on one attacker's documents."""

    _attacker: InputFile = field(init=False)
    _victim: InputFile | None = field(init=False)
    _members: dict[str, InputFile] = field(init=False)
    _victim_copies: Sequence[str] = field(init=False)
    """The members that were left out because they have most of the victim's records."""
    _control: InputFile | None = field(init=False)

    def annotate_files(self) -> Sequence[InputFile]:
        """Annotate the documents of everybody named in the request."""
        request, inputs = self.request, self.inputs
        self._attacker = annotated(inputs.attacker, request)
        self._victim = annotated(inputs.victim, request) if inputs.victim else None
        members = {name: annotated(file, request) for name, file in inputs.members.items()}
        self._victim_copies = victim_copies(self._victim, members)
        self._members = {n: file for n, file in members.items() if n not in self._victim_copies}
        self._control = annotated(inputs.control, request) if inputs.control else None
        return [*self._files, *([inputs.held_out.file] if inputs.held_out else [])]

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
            everywhere_results = attack_runner.run(everywhere, context, cache, tries, self.kept)
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
        inputs = self.inputs
        context = replace(
            context,
            template=self.form,
            members={name: file.documents for name, file in self._members.items()},
            control=self._control.documents if self._control else (),
            clients=inputs.clients,
            references=tuple(run.model() for run in inputs.references),
            rounds=round_models.targets(inputs.rounds),
        )
        context = inputs.held_out.add_to(context) if inputs.held_out else context
        return inputs.without.add_to(context) if inputs.without else context

    def caveats(self) -> list[str]:
        """Return the caveats about held-out records, files and missing members."""
        inputs = self.inputs
        return [
            *(inputs.held_out.limits if inputs.held_out else ()),
            *(inputs.without.caveats(inputs.strangers) if inputs.without else ()),
            *reference_models.caveats(inputs.references),
            *reading_caveats(self._files),
            *shared_records_caveats(inputs.attacker, inputs.victim),
            *([victim_copies_caveat(self._victim_copies)] if self._victim_copies else []),
            *unvouched_caveats(self.request, self.audited),
            *([NO_MEMBERS_CAVEAT] if inputs.victim and not self._members else []),
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
            changed = adapter_effect.measure(
                view.engine,
                view.tuned,
                base,
                attacker.documents,
                victim.documents if victim else (),
            )
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
