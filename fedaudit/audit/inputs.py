"""The inputs of an audit, resolved: found, read and checked before a model is loaded."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import PromptTemplate, template
from fedaudit.audit import access, other_models, records
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import TEMPLATE, AuditRequest
from fedaudit.audit.target import AuditTarget, endpoint_target, resolve
from fedaudit.config import registry
from fedaudit.data import corpus
from fedaudit.engine import factory
from fedaudit.engine.remote.options import is_url

R = TypeVar("R", bound=AuditRequest)


@dataclass(frozen=True, kw_only=True)
class Inputs(Generic[R]):
    """A request and everything that it names; nothing below reads the disk again.

    Each kind of audit adds the documents and models that its attacks are given.
    """

    request: R
    audited: AuditTarget
    form: PromptTemplate
    """The prompt template of the documents: the federation's own, or the requested one."""
    adapter_sha256: str | None
    """The SHA-256 of the audited adapter; None for a base alone."""
    files: tuple[Path, ...] = ()
    """The files of documents, except those of the clients in a matrix."""
    digests: Mapping[Path, str]
    """The SHA-256 of every file of documents."""
    facts: Mapping[str, Any]
    """What else determines the answers: hashes of the other models and records, by name."""
    models: Mapping[Path, str] = field(default_factory=dict)
    """The fingerprint of every other adapter that is read, by its folder."""


def common_inputs(
    request: AuditRequest, audited: AuditTarget, reader: InputReader, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields that the inputs of all kinds of audit have."""
    named = (
        request.input_path,
        request.victim_path,
        *records.member_files(request, audited).values(),
        request.control,
        records.held_out_path(request, audited),
    )
    files = tuple(path for path in named if path)
    clients = [Path(client.path) for client in request.participants]
    return {
        "request": request,
        "audited": audited,
        "form": form_of(request, audited),
        "adapter_sha256": access.fingerprint(audited, reader.sha256),
        "files": files,
        "digests": {path: reader.sha256(path) for path in dict.fromkeys((*files, *clients))},
        "facts": facts,
        "models": {p: d for p, d in reader.models.items() if p != audited.adapter},
    }


def form_of(request: AuditRequest, audited: AuditTarget) -> PromptTemplate:
    """Return the prompt template of the documents: the federation's own, or the requested one.

    If neither is named, an adapter's own chat template takes the place of the default.
    """
    if audited.federation:
        return audited.federation.template
    if audited.chat_template and request.template == TEMPLATE:
        return audited.chat_template
    return template(request.template)


def resolve_target(request: AuditRequest, reader: InputReader) -> AuditTarget:
    """Return the audited target, after the checks that all kinds of audit share.

    Raises UsageError for unknown plugins or options and for an attack that is named twice,
    InputError for missing files and for clients with the same name.
    """
    for index, name in enumerate(request.attacks):
        registry.create("attack", name, request.options.get(name))
        if name in request.attacks[:index]:
            raise UsageError(f"The attack {name} is named twice; each can be run only once.")
    registry.create("detector", request.detector, request.options.get(request.detector))
    template(request.template)
    factory.check(request.engine, request.device, request.vllm)
    records.check_held_out(request)
    other_models.check_references(request)
    corpus.existing_file(request.input_path, request.input_kind)
    for path in filter(None, (request.victim_path, request.held_out_path)):
        corpus.existing_file(path)
    records.check_files(request)
    for name, count in Counter(client.name for client in request.participants).items():
        if count > 1:
            raise InputError(f"Two clients are called {name}: each needs a name of its own.")
    if is_url(request.target):
        return endpoint_target(request)
    if request.model or request.endpoint:
        option = "--model" if request.model else "--set endpoint"
        raise UsageError(f"{option} needs a server's address as --target.")
    audited = resolve(
        request.target,
        request.adapter,
        request.round,
        request.input_path,
        request.client,
        request.victim_path,
        reader=reader,
    )
    if request.keys and not audited.deployment:
        raise UsageError("--key needs a federation whose model answers through a defence.")
    return audited
