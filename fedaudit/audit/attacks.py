"""`fedaudit extract` and `fedaudit infer`: attacks by one attacker, or by every client in turn."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedaudit.api.abilities import why_lacking
from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError, NoEffectError, UsageError
from fedaudit.api.plugin import Attack, AttackContext, Result
from fedaudit.api.records import Document
from fedaudit.audit import cross_client, evidence, other_models, preflight, records
from fedaudit.audit.access import ModelView, model_views
from fedaudit.audit.clients import check_count
from fedaudit.audit.input_files import InputFile, InputReader
from fedaudit.audit.inputs import Inputs, common_inputs, form_of, resolve_target
from fedaudit.audit.records import (
    NO_MEMBERS_CAVEAT,
    member_files,
    reading_caveats,
    shared_records_caveats,
    unvouched_caveats,
    victim_copies,
    victim_copies_caveat,
)
from fedaudit.audit.request import AuditRequest, CrossClientRequest, ExtractionRequest
from fedaudit.audit.run import AuditPipeline, AuditResults, Watcher
from fedaudit.audit.target import AuditTarget
from fedaudit.cache.answers import AnswerCache
from fedaudit.cache.engine import CachingEngine
from fedaudit.config import registry
from fedaudit.extraction import comparison, estimator_choice, scoring
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.prefixes import pii_occurrences
from fedaudit.extraction.sampling import CACHE_BYTES, ResponseCache, share_responses
from fedaudit.extraction.scoring import ExtractionResult, ScoredResult
from fedaudit.report import result_contract

_log = logging.getLogger(__name__)

REQUESTER_KEYS = ("attacker", "client", "key", "adapter")
"""The parts of a scope that say who asked, and under which key."""


@dataclass
class AttackExecutor:
    """Runs the attacks of one audit; one that fails on these data does not stop the others."""

    alone: bool = False
    """Whether there is only one attack, so that the audit fails if that attack does."""
    successes: int = 0
    refused: list[InputError] = field(default_factory=list)

    def make(self, attack: Attack, context: AttackContext) -> Result:
        """Return an attack's result, or a row without a value and with the reason.

        If an attack cannot run on these records, the audit cannot pass.
        Raises ResultError for a result that no report can hold.
        """
        if why := why_lacking(context.engine, attack.needs):
            _log.info("attack %s skipped: %s", attack.name, why)
            return _skipped_result(attack.name, why)
        began = time.monotonic()
        try:
            result = result_contract.check_result(attack.name, attack.run(context))
        except InputError as error:
            if self.alone:
                raise
            self.refused.append(error)
            return scoring.missing_result(attack.name, str(error), judged=True)
        self.successes += 1
        _log.info("attack %s: %.1f s", attack.name, time.monotonic() - began)
        return result

    def check(self) -> None:
        """Raise the first InputError if no attack at all could run."""
        if self.refused and not self.successes:
            raise self.refused[0]


def _skipped_result(name: str, why: str) -> Result:
    """Return the result of an attack that the engine cannot answer: no value, and the reason."""
    missing = scoring.missing_result(name, f"skipped: {why}")
    return replace(missing, limits=(f"{name} was skipped: {why}.",))


def response_cache(attacks: Sequence[Attack]) -> ResponseCache:
    """Return a cache for the attacks' answers; it has room only if several of them ask prefixes."""
    is_shared = sum(isinstance(attack, PrefixAttack) for attack in attacks) > 1
    return ResponseCache(CACHE_BYTES if is_shared else 0)


def run_attacks(
    attacks: Sequence[Attack],
    context: AttackContext,
    shared: ResponseCache,
    tries: AttackExecutor,
    kept: AnswerCache | None = None,
) -> list[Result]:
    """Return the result of each attack in the order given, followed by their comparison.

    `kept`, if given, keeps the answers on disk.
    """
    shared_context = share_responses(context, shared, kept)
    # Attacks with prefixes keep their own answers, in less space.
    cached_context = (
        replace(shared_context, engine=CachingEngine(context.engine, kept))
        if kept
        else shared_context
    )
    contexts = [
        shared_context if isinstance(attack, PrefixAttack) else cached_context for attack in attacks
    ]
    indexed_results = {
        index: tries.make(attacks[index], contexts[index]) for index in _order(attacks)
    }
    results = [indexed_results[index] for index in range(len(attacks))]
    return [*results, *_compare_results(results)]


def count_queries(
    results: Iterable[Result], shared: ResponseCache, views: Iterable[ModelView]
) -> int | None:
    """Return how many questions the tuned model was asked; None when no attack counts them.

    Rows for other sets of targets or other victims count the same questions; each attacker and key
    asks its own. Questions answered from the cache are not counted.
    """
    counts = {
        (row.plugin, tuple(str(row.scope.get(name)) for name in REQUESTER_KEYS), row.value)
        for result in results
        for row in result.measurements
        if row.metric == "queries" and row.scope.get("source") == "tuned"
    }
    reused_answers = sum(shared.reused_answers[target] for target in {view.tuned for view in views})
    return int(sum(value or 0 for *_, value in counts)) - reused_answers if counts else None


def _order(attacks: Sequence[Attack]) -> list[int]:
    """Return the attacks' indices, most samples per prompt first, as far as is known.

    Later attacks can then reuse the answers of earlier ones. The order changes no result.
    """

    def rank(index: int) -> tuple[bool, int, bool]:
        attack = attacks[index]
        if isinstance(attack, PrefixAttack):
            return False, -attack.samples, attack.distinct
        return True, 0, True

    return sorted(range(len(attacks)), key=rank)


def _compare_results(results: Sequence[Result]) -> list[Result]:
    extractions = [r.extraction for r in results if isinstance(r, ScoredResult)]
    alike = [extraction for extraction in extractions if _same_targets(extraction, extractions[0])]
    if len(extractions) < 2:
        return []
    plugins = [
        extraction.plugin
        for extraction in extractions
        if not _same_targets(extraction, extractions[0])
    ]
    note = (
        f"{', '.join(plugins)}: not compared with {extractions[0].plugin}, which has other targets."
    )
    return [Result(measurements=tuple(comparison.rows(alike)), limits=(note,) if plugins else ())]


def _same_targets(left: ExtractionResult, right: ExtractionResult) -> bool:
    return left.target_set.labels == right.target_set.labels


CONTEXT = 50
"""Tokens of context for measuring how prompts should begin."""


@dataclass(frozen=True, kw_only=True)
class AttackInputs(Inputs[AuditRequest]):
    """The documents and models of attacks; no detector has read them yet."""

    attacker: InputFile
    matrix: Mapping[str, InputFile]
    """The documents of every client, by name, if each attacks every other one; else empty."""
    victim: InputFile | None
    members: Mapping[str, InputFile]
    control: InputFile | None
    held_out: records.HeldOut | None
    others: other_models.OtherModels

    @property
    def tried(self) -> InputFile:
        """The documents that are looked for: the victim's, or else the attacker's own."""
        return self.victim or self.attacker


def resolve(request: AuditRequest, reader: InputReader) -> AttackInputs:
    """Return the inputs, after every check that needs no model.

    Raises UsageError for an option that needs a victim if none is named, and what
    `cross_client.check` raises.
    """
    if isinstance(request, CrossClientRequest):
        check_count(request.clients)
    if isinstance(request, ExtractionRequest):
        estimator_choice.check(request.attacks, request.options, victim=request.victim)
        if request.victim is None and (request.members or request.control):
            option = "--member" if request.members else "--control"
            raise UsageError(f"{option} goes with --victim.")
    audited = resolve_target(request, reader)
    if isinstance(request, CrossClientRequest):
        cross_client.check(request, audited)
    form = form_of(request, audited)
    others = other_models.find_others(request, audited, form, reader)
    attacker = reader.corpus(request.input_path, form)
    victim = reader.corpus(request.victim_path, form) if request.victim_path else None
    input_files = [attacker, *([victim] if victim else [])]
    files = member_files(request, audited).items()
    members = {name: reader.corpus_or_empty(path, form) for name, path in files}
    return AttackInputs(
        **common_inputs(request, audited, reader, others.facts),
        attacker=attacker,
        matrix={c.name: reader.corpus_or_empty(Path(c.path), form) for c in request.participants},
        victim=victim,
        members=members,
        control=reader.corpus(request.control, form) if request.control else None,
        held_out=records.read_held_out(
            request, audited, form, input_files, list(members.values()), reader=reader
        ),
        others=others,
    )


@dataclass(kw_only=True)
class AttackPipeline(AuditPipeline[AttackInputs]):
    """All attacks of a request, by one attacker or by every client in turn."""

    _victim_copies: Sequence[str] = field(init=False)
    """The members that were left out because they have most of the victim's records."""

    def annotate_files(self) -> Sequence[InputFile]:
        """Annotate the documents of everybody named in the request.

        The attacker of a matrix has those of all clients together.
        """
        inputs = self.inputs
        matrix = {name: self.annotated(file) for name, file in inputs.matrix.items()}
        victim = self.annotated(inputs.victim) if inputs.victim else None
        members = {name: self.annotated(file) for name, file in inputs.members.items()}
        self._victim_copies = victim_copies(victim, members)
        self.inputs = replace(
            inputs,
            matrix=matrix,
            attacker=cross_client.pool_documents(matrix)
            if matrix
            else self.annotated(inputs.attacker),
            victim=victim,
            members={n: file for n, file in members.items() if n not in self._victim_copies},
            control=self.annotated(inputs.control) if inputs.control else None,
        )
        return [*self._files, *([inputs.held_out.file] if inputs.held_out else [])]

    @property
    def _files(self) -> list[InputFile]:
        """All documents but those held out."""
        inputs = self.inputs
        attackers = inputs.matrix.values() or [inputs.attacker]
        named = [*attackers, inputs.victim, *inputs.members.values(), inputs.control]
        return [file for file in named if file]

    def measure(self, engine: Engine) -> AuditResults:
        """Run every attack under every kind of key."""
        request, audited, inputs = self.request, self.audited, self.inputs
        attacks = [
            registry.create("attack", name, request.options.get(name)) for name in request.attacks
        ]
        results: list[Result] = []
        measured: dict[str, float | str] = {}
        starts: dict[str, preflight.PromptStartScores] = {}  # by attacker; "" without a matrix
        everywhere, once = ([a for a in attacks if a.once == flag] for flag in (False, True))
        cache = response_cache(everywhere)
        views = model_views(engine, audited, request.keys)
        tries = AttackExecutor(alone=len(attacks) == 1)
        for view in views:
            # Prompts begin in the same way under every key: as the first view's adapter expects.
            starts = starts or {
                name: measure_prompt_start(view, file.documents)
                for name, file in (inputs.matrix or {"": inputs.attacker}).items()
            }
            context, effect = prepare_context(
                view, audited, inputs.attacker, inputs.victim, request, self.watch
            )
            context = self._with_others(context)
            measured = measured or effect
            if inputs.matrix:
                results += cross_client.attack_every_pair(
                    attacks,
                    share_responses(context, cache, self.kept),
                    inputs.matrix,
                    {name: start.chosen for name, start in starts.items()},
                    request.budget,
                    view,
                )
                continue
            context = replace(context, beginning=starts[""].chosen)
            everywhere_results = run_attacks(everywhere, context, cache, tries, self.kept)
            results += map(view.add_scope, everywhere_results)
            results += [view.under_no_key.add_scope(tries.make(attack, context)) for attack in once]
            once = []
        tries.check()
        self.finish_asking()
        documents = [document for file in self._files for document in file.documents]
        names = [*inputs.matrix, *(str(value) for view in views for value in view.scope.values())]
        results = evidence.mask_results(results, documents, self.redactor, names)
        queries = count_queries(results, cache, views)
        if inputs.matrix and any(attack.estimator == "sample" for attack in attacks):
            queries = queries or 0
        tables = {name: start.table() for name, start in starts.items()}
        return AuditResults(
            results=results,
            effect=measured,
            beginning={"by_attacker": tables} if inputs.matrix else tables[""],
            usage={"queries": queries},
        )

    def _with_others(self, context: AttackContext) -> AttackContext:
        """Return `context` with members, controls, references and held-out records."""
        inputs = self.inputs
        context = replace(
            context,
            template=self.form,
            trained_tokens=self.audited.trained_tokens,
            members={name: file.documents for name, file in inputs.members.items()},
            control=inputs.control.documents if inputs.control else (),
        )
        context = inputs.held_out.add_to(context) if inputs.held_out else context
        return inputs.others.add_to(context)

    def caveats(self) -> list[str]:
        """Return the caveats about held-out records, files and missing members."""
        inputs = self.inputs
        return [
            *(inputs.held_out.limits if inputs.held_out else ()),
            *inputs.others.caveats(),
            *reading_caveats(self._files),
            *shared_records_caveats(inputs.attacker, inputs.victim),
            *([victim_copies_caveat(self._victim_copies)] if self._victim_copies else []),
            *unvouched_caveats(self.request, self.audited),
            *([NO_MEMBERS_CAVEAT] if inputs.victim and not inputs.members else []),
        ]


def prepare_context(
    view: ModelView,
    audited: AuditTarget,
    attacker: InputFile,
    victim: InputFile | None,
    request: AuditRequest,
    watch: Watcher,
) -> tuple[AttackContext, dict[str, float | str]]:
    """Return the attacks' context, without a prompt start, and the measured effect."""
    changed: dict[str, float | str] = {}
    base = audited.untuned
    if base:
        try:
            changed = preflight.measure_effect(
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
        detector=registry.create(
            "detector", request.detector, request.options.get(request.detector)
        ),
        progress=watch,
    )
    return context, changed


def measure_prompt_start(
    view: ModelView, documents: Sequence[Document]
) -> preflight.PromptStartScores:
    """Return how the prompts of an attacker with these documents begin."""
    return preflight.choose_prompt_start(
        view.engine, view.tuned, pii_occurrences(view.engine, documents, CONTEXT)
    )
