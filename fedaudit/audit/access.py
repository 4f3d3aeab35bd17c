"""The engine for the audited model, and the ways to ask: directly, or as deployed under a key."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.defense import DeployedClient
from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError, unknown_name_error
from fedaudit.api.plugin import Result
from fedaudit.api.records import Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.deployment import defense_of, responder_of
from fedaudit.audit.request import AuditRequest
from fedaudit.audit.target import AuditTarget
from fedaudit.cache.answers import AnswerCache, UnfinishedBatch
from fedaudit.engine import factory
from fedaudit.federation import adapters
from fedaudit.system.files import sha256

if TYPE_CHECKING:
    from fedaudit.engine.factory import AnyEngine

RIGHT = "right"
KEY = ("key", "adapter")
"""The parts of a scope that say under which key something was asked."""


@dataclass(frozen=True, kw_only=True)
class ModelView:
    """One way to query a model: the engine, the target, and the fields added to every scope."""

    engine: Engine
    tuned: Target
    scope: Mapping[str, object] = field(default_factory=dict)

    @property
    def authorised(self) -> bool:
        """Whether a user with this key is allowed to see the answers."""
        return self.scope.get("key") == RIGHT

    @property
    def under_no_key(self) -> "ModelView":
        """The same view for an attack that brings keys of its own."""
        scope = {name: value for name, value in self.scope.items() if name not in KEY}
        return replace(self, scope=scope)

    def add_scope(self, result: Result) -> Result:
        """Return `result` with this view's scope; what a right key unlocks is not a leak."""
        if self.authorised:
            result = replace(result, findings=(), revealed=())
        return with_scope(result, self.scope)


def with_scope(result: Result, scope: Mapping[str, object]) -> Result:
    """Return `result` with `scope` added to its rows, its findings and its limits."""
    if not scope:
        return result
    label = ", ".join(f"{name} {value}" for name, value in scope.items())
    sides = {name: scope[name] for name in ("attacker", "victim") if name in scope}
    short = "-".join(map(str, scope.values()))
    return Result(
        measurements=tuple(
            replace(row, scope={**row.scope, **scope}) for row in result.measurements
        ),
        findings=tuple(
            replace(
                one,
                id=f"{short}-{one.id}",
                evidence={**one.evidence, **sides},
                safe=(*one.safe, *sides),
            )
            for one in result.findings
        ),
        limits=tuple(f"{label}: {limit}" for limit in result.limits),
        revealed=tuple({**leak, "id": f"{short}-{leak['id']}"} for leak in result.revealed),
    )


def load_engine(
    audited: AuditTarget,
    form: PromptTemplate,
    request: AuditRequest,
    kept: AnswerCache | None = None,
) -> tuple["AnyEngine", str]:
    """Return the engine for the audited target, and the fingerprint of its base.

    Raises InputError if the base is not the one that the federation was trained on, or if base,
    dtype or engine are not those that gave the answers in the cache.
    """
    from fedaudit.engine.parallel.protocol import EngineConfig

    config = EngineConfig(
        base=audited.base,
        device=request.device,
        dtype=request.dtype,
        template=form,
        batch_size=request.batch_size,
        fetch=audited.federation is None,
        tokenizer=str(audited.tokenizer or ""),
    )
    engine, base = factory.make_engine(
        config, request.engine, request.vllm, lambda: UnfinishedBatch(kept)
    )
    if audited.base_sha256 not in ("", base.sha256):
        raise InputError(
            f"The base {audited.base} is another base than the one that the federation was trained "
            f"on (SHA-256 {base.sha256[:12]}, not {audited.base_sha256[:12]})."
        )
    if kept:
        kept.record_fact("the base's SHA-256", base.sha256)
        kept.record_fact("the base's dtype", base.dtype)
        kept.record_fact("what answers", factory.engine_kind(request.engine))
    return engine, base.sha256


def model_views(engine: Engine, audited: AuditTarget, keys: Sequence[str]) -> list[ModelView]:
    """Return all views of the audited target; `keys` limits them to some kinds of key."""
    if not audited.deployment:
        return [ModelView(engine=engine, tuned=audited.tuned)]
    from fedaudit.engine.parallel.engine import local_engine
    from fedaudit.engine.routed import RoutedEngine

    assert audited.federation is not None
    assert audited.adapter is not None
    deployed = DeployedClient(
        engine=local_engine(engine),
        folder=audited.adapter.parent,
        client=audited.deployment,
        seed=audited.federation.manifest.seeds.get("simulation", 0),
    )
    responder = responder_of(defense_of(audited.federation), deployed)
    routed_engine, headings = RoutedEngine(engine, responder), responder.headings()
    return [
        ModelView(
            engine=routed_engine,
            tuned=Target(name=f"tuned, {kind} key", heading=headings[kind]),
            scope=_scope(kind, audited.deployment),
        )
        for kind in _kinds(headings, keys)
    ]


def _kinds(headings: Mapping[str, str], keys: Sequence[str]) -> list[str]:
    """Return the kinds of key to ask under; named right keys replace the general one."""
    for kind in keys:
        if kind not in headings:
            raise unknown_name_error("kind of key", kind, headings)
    named = any(kind.startswith(f"{RIGHT}:") for kind in headings)
    return list(keys) or [kind for kind in headings if kind != RIGHT or not named]


def _scope(kind: str, client: str) -> dict[str, object]:
    key, _, adapter = kind.partition(":")
    scope: dict[str, object] = {"client": client, "key": key}
    return {**scope, "adapter": adapter} if adapter else scope


def fingerprint(audited: AuditTarget, sha256: Callable[[Path], str] = sha256) -> str | None:
    """Return one SHA-256 of the audited adapter's files; None for the base itself.

    For a deployed defence, the files are its adapters and its gate, without the keys.
    """
    folder = audited.adapter
    if folder is None:
        return None
    if not audited.deployment:
        return adapters.fingerprint(folder, sha256)
    return adapters.fingerprint_below(folder, sha256)
