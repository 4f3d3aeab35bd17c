"""From a request to a report: what every command that attacks a model has in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError, NoEffectError, UsageError
from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Target
from fedaudit.api.templates import PromptTemplate, template
from fedaudit.audit import attack_runner, environment, evidence
from fedaudit.audit.access import ModelView, fingerprint, model_views
from fedaudit.audit.fingerprint import identity, settings
from fedaudit.audit.inputs import held_out
from fedaudit.audit.inputs.files import InputFile, read, reading_caveats
from fedaudit.audit.inputs.other_members import ALONE, check_files, member_files
from fedaudit.audit.preflight import adapter_effect, prompt_start
from fedaudit.audit.request import AuditRequest
from fedaudit.audit.target import AuditTarget, resolve
from fedaudit.config import registry
from fedaudit.engine.parallel import ray_cluster
from fedaudit.extraction.prefixes import pii_occurrences
from fedaudit.federation.folder import unchecked_caveats
from fedaudit.journal.shards import AuditJournal
from fedaudit.system.files import existing_path

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine
    from fedaudit.engine.parallel.engine import ParallelEngine
    from fedaudit.report.document import Report
    from fedaudit.report.redaction import Redactor

CONTEXT = 50
"""Tokens of context with which the prompt's beginning is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A finished audit: its report, and the plain text that only --reveal may write."""

    report: "Report"
    revealed: tuple[Mapping[str, str], ...]
    audited: AuditTarget


Watcher = Callable[[str], Progress]


def no_watcher(_title: str) -> Progress:
    """Watch nothing."""
    return no_progress


def check(request: AuditRequest) -> AuditTarget:
    """Return what is audited, after every check that needs no model.

    Raises UsageError for unknown plugins and options and for an attack that is named twice,
    InputError for files that are not there.
    """
    for place, name in enumerate(request.attacks):
        registry.create("attack", name, request.options.get(name))
        if name in request.attacks[:place]:
            raise UsageError(f"The attack {name} is named twice; each can be made once.")
    registry.create("detector", request.detector, request.options.get(request.detector))
    template(request.template)
    ray_cluster.check(request.engine, request.device)
    held_out.check(request)
    for path in filter(None, (request.own, request.others, request.unseen)):
        if not existing_path(path, "file").is_file():
            raise InputError(f"{path} is no regular file; a JSONL file is needed.")
    check_files(request)
    return _resolved(request)


def _resolved(request: AuditRequest) -> AuditTarget:
    audited = resolve(
        request.target, request.adapter, request.round, request.own, request.client, request.others
    )
    if request.keys and not audited.deployment:
        raise UsageError("--key goes with a federation whose model answers through a defence.")
    return audited


def run(
    request: AuditRequest,
    redactor: Callable[[], "Redactor"],
    watch: Watcher = no_watcher,
    kept: AuditJournal | None = None,
) -> Audit:
    """Audit what `request` names: cheap checks first, then the model, then the attacks.

    `kept` has the answers that earlier runs were given, and gets those of this one.
    """
    from fedaudit.report.run_header import build_report

    started = datetime.now(UTC)
    attacks = [
        registry.create("attack", name, request.options.get(name)) for name in request.attacks
    ]
    audited = _resolved(request)
    form = audited.federation.template if audited.federation else template(request.template)
    attacker = read(request.own, form, request)
    victim = read(request.others, form, request) if request.others else None
    tried = [attacker, *([victim] if victim else [])]
    apart = held_out.read(request, audited, form, tried)
    members = {
        name: read(path, form, request) for name, path in member_files(request, audited).items()
    }
    control = read(request.control, form, request) if request.control else None
    files = [*tried, *members.values(), *([control] if control else [])]
    engine, base_sha256 = load(audited, form, request, kept)
    results: list[Result] = []
    found: dict[str, Any] = {}
    begun: prompt_start.PromptStartScores | None = None
    everywhere, once = ([a for a in attacks if a.once == flag] for flag in (False, True))
    memory, ways = (
        attack_runner.response_cache(everywhere),
        model_views(engine, audited, request.keys),
    )
    tries = attack_runner.AttackTries(alone=len(attacks) == 1)
    for view in ways:
        # Prompts begin alike under every key, as the first view's adapter expects it.
        begun = begun or prompt_start.choose_prompt_start(
            view.engine, view.tuned, pii_occurrences(view.engine, attacker.documents, CONTEXT)
        )
        case, measured = prepare(view, audited, attacker, victim, request, watch, begun=begun)
        case = replace(
            case,
            members={name: own.documents for name, own in members.items()},
            control=control.documents if control else (),
        )
        case = apart.given(case) if apart else case
        results += map(view.within, attack_runner.run(everywhere, case, memory, tries, kept))
        results += [view.under_no_key.within(tries.make(attack, case)) for attack in once]
        once = []
        found = found or measured
    tries.check()
    if kept:
        kept.asked()
    documents = [one for file in files for one in file.documents]
    names = [str(value) for view in ways for value in view.scope.values()]
    results = evidence.mask_results(results, documents, redactor, names)
    report = build_report(
        command=request.command,
        name=identity(request, audited),
        config={**settings(request), "round": audited.round},
        started=started,
        **resumption_facts(kept),
        base=audited.base,
        adapter=str(audited.adapter) if audited.adapter else None,
        sha256=fingerprint(audited) or base_sha256,
        base_sha256=base_sha256,
        **found,
        spent={"queries": attack_runner.count_queries(results, memory, ways)},
        environment=environment.describe(request.device),
        data=[file.row() for file in (*files, *([apart.file] if apart else []))],
        seeds={request.purpose: request.seed},
        measurements=[row for result in results for row in result.measurements],
        findings=evidence.mask_findings(
            [f for result in results for f in result.findings], redactor
        ),
        limits=[
            *(limit for result in results for limit in result.limits),
            *unchecked_caveats(audited.federation),
            *(apart.limits if apart else ()),
            *reading_caveats(files),
            *([ALONE] if victim and not members else []),
        ],
    )
    revealed = tuple(leak for result in results for leak in result.revealed)
    return Audit(report=report, revealed=revealed, audited=audited)


def load(
    audited: AuditTarget,
    form: PromptTemplate,
    request: AuditRequest,
    kept: AuditJournal | None = None,
) -> tuple["LocalEngine | ParallelEngine", str]:
    """Return the engine for what is audited, and its base's fingerprint.

    Raises InputError when the base is not the one that the federation was trained on, or not the
    one, in the same dtype, that gave the answers which are kept.
    """
    from fedaudit.engine.parallel import engine as spread
    from fedaudit.engine.parallel.protocol import EngineConfig

    order = EngineConfig(
        base=audited.base,
        device=request.device,
        dtype=request.dtype,
        template=form,
        batch_size=request.batch_size,
        fetch=audited.federation is None,
    )
    engine, known = spread.make_engine(order, request.engine)
    if audited.base_sha256 not in ("", known.sha256, known.earlier):
        raise InputError(
            f"The base {audited.base} is not the one that the federation was trained on "
            f"(SHA-256 {known.sha256[:12]}, not {audited.base_sha256[:12]})."
        )
    if kept:
        kept.record_fact("the base's SHA-256", known.sha256)
        kept.record_fact("the base's dtype", known.dtype)
    return engine, known.sha256


def prepare(
    view: ModelView,
    audited: AuditTarget,
    attacker: InputFile,
    victim: InputFile | None,
    request: AuditRequest,
    watch: Watcher,
    *,
    begun: prompt_start.PromptStartScores,
) -> tuple[AttackContext, dict[str, Any]]:
    """Return the case for the attacks, and what was measured of the target before any of them."""
    base = Target(name="base")
    changed = None
    if audited.adapter:
        try:
            changed = adapter_effect.measure(view.engine, view.tuned, base, attacker.documents)
        except NoEffectError:
            # Some adapter of several may do nothing; the one that a right key opens must not.
            if not view.scope or view.authorised:
                raise
    case = AttackContext(
        engine=view.engine,
        tuned=view.tuned,
        base=base if audited.adapter else None,
        attacker=attacker.documents,
        victim=victim.documents if victim else None,
        seed=request.seed,
        beginning=begun.chosen,
        detector=registry.create(
            "detector", request.detector, request.options.get(request.detector)
        ),
        progress=watch,
    )
    return case, {"effect": adapter_effect.table(changed), "beginning": begun.table()}


def resumption_facts(kept: AuditJournal | None) -> dict[str, Any]:
    """Return what a report says of the runs that this one goes on with."""
    if kept is None:
        return {}
    shards = (
        {"shards": kept.recheck.table(), "doubts": kept.recheck.caveats()} if kept.recheck else {}
    )
    return {"resumed_from": kept.resumed, "earlier": kept.spent, **shards}
