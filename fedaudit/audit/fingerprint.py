"""The identity of a run: its settings, data, and the audited model."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit import __version__
from fedaudit.audit import access
from fedaudit.audit.endpoint import IDENTITY
from fedaudit.audit.inputs import (
    client_models,
    counterfactual,
    held_out,
    reference_models,
    round_models,
)
from fedaudit.audit.inputs.other_members import member_files
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.federation import adapters
from fedaudit.system.files import sha256

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest

SETTINGS_WITHOUT_EFFECT = ("batch_size", "workers", "device", "engine", "vllm")
"""Settings that change results by rounding at most: a resumed run may change them. Whether vLLM
answers is a separate fact."""

LATER_FIELDS = ("counterfactual", "model", "endpoint", "vllm", "attacker")
"""Newer fields of a request, left out if None, so that older runs keep their fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFingerprint:
    """The settings and facts that identify a run."""

    run: str
    """The id of the run, which stays the same if only settings without effect on results change."""
    settings: Mapping[str, Any]
    """The request as the report holds it."""
    facts: Mapping[str, str]
    """Everything that determines the answers, by name, as JSON; other runs differ in it."""
    adapter_sha256: str | None
    """The SHA-256 of the audited adapter; None for a base alone."""


def compute_fingerprint(request: "AuditRequest", audited: AuditTarget) -> RunFingerprint:
    """Return the fingerprint of a run; reads every document file and the adapter's files once."""
    files = _files(request, audited)
    clients = [Path(client.path) for client in request.participants]
    hashes = {path: sha256(path) for path in dict.fromkeys((*files, *clients))}
    table, adapter = _settings(request), access.fingerprint(audited)
    fixed_settings = {
        key: value for key, value in table.items() if key not in SETTINGS_WITHOUT_EFFECT
    }
    if isinstance(how := fixed_settings.get("endpoint"), dict):
        fixed_settings["endpoint"] = {name: how[name] for name in IDENTITY}
    facts = {
        **fixed_settings,
        "data": {str(path): digest for path, digest in hashes.items()},
        "base": audited.base,
        "adapter's SHA-256": adapter,
        **_counterfactual_hashes(request, audited),
        **_clients(request, audited),
        **_rounds(request, audited),
        **reference_models.facts(reference_models.find(request, audited)),
        "version": __version__,
    }
    subject = {"files": [hashes[path] for path in files], "base": audited.base, "adapter": adapter}
    return RunFingerprint(
        run=run_id({**fixed_settings, **subject}),
        settings=table,
        facts=dict(_flat("", json.loads(json.dumps(facts, default=str)))),
        adapter_sha256=adapter,
    )


def _counterfactual_hashes(request: "AuditRequest", audited: AuditTarget) -> dict[str, Any]:
    """Return hashes of the counterfactual federations to compare with, if any."""
    if every := counterfactual.find_every(request, audited):
        hashes = {client: adapters.fingerprint(run.adapter) for client, run in every.items()}
        return {"counterfactuals' SHA-256": hashes}
    run = counterfactual.find(request, audited)
    if run is None:
        return {}
    return {"counterfactual's SHA-256": adapters.fingerprint(run.adapter)}


def _clients(request: "AuditRequest", audited: AuditTarget) -> dict[str, Any]:
    """Return facts on the clients' own models and records, if the request uses any."""
    client_files = client_models.find(request, audited)
    if not client_files:
        return {}
    return {
        "clients' adapters' SHA-256": client_models.hashes(client_files),
        "clients' records": {
            client: sha256(files.records) for client, files in client_files.items()
        },
    }


def _rounds(request: "AuditRequest", audited: AuditTarget) -> dict[str, Any]:
    """Return facts on the models of earlier rounds, if the request uses any."""
    round_adapters = round_models.find(request, audited)
    return {"rounds' SHA-256": round_models.hashes(round_adapters)} if round_adapters else {}


def run_id(config: Mapping[str, Any]) -> str:
    """Return a short id for a run: a hash of its settings."""
    text = json.dumps(config, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def describe_changes(now: Mapping[str, str], then: Mapping[str, str]) -> str:
    """Return in words what differs between two runs; empty if nothing does."""
    names = [name for name in {**then, **now} if now.get(name) != then.get(name)]
    changes = [f"{name} is {_short(now, name)}, not {_short(then, name)}" for name in names[:3]]
    return ", ".join(changes) + (f", and {len(names) - 3} more" if len(names) > 3 else "")


def _settings(request: "AuditRequest") -> dict[str, Any]:
    """Return the request in the form that the report and the fingerprint use."""
    attacks = {
        name: asdict(registry.create("attack", name, request.options.get(name)))
        for name in request.attacks
    }
    table = {key: value for key, value in asdict(request).items() if key != "options"}
    for name in LATER_FIELDS:
        if table.get(name, "") is None:
            del table[name]
    if folders := table.pop("reference_folders", ()):
        table["reference_folders"] = list(map(str, folders))
    table["detector"] = {request.detector: dict(request.options.get(request.detector, {}))}
    paths = {key: str(value) for key, value in table.items() if isinstance(value, Path)}
    return {**table, **paths, "members": list(map(str, request.members)), "attacks": attacks}


def _short(table: Mapping[str, str], name: str) -> str:
    value = table.get(name)
    return "absent" if value is None else value if len(value) <= 60 else f"{value[:12]}…"


def _files(request: "AuditRequest", audited: AuditTarget) -> list[Path]:
    """Return every document file that an audit reads, except those of the clients in a matrix."""
    members = member_files(request, audited).values()
    held_out_file = held_out.held_out_path(request, audited)
    return [
        p
        for p in (request.input_path, request.victim_path, *members, request.control, held_out_file)
        if p
    ]


def _flat(above: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(f"{above}{key}.", value)
        else:
            yield f"{above}{key}", json.dumps(value, sort_keys=True, ensure_ascii=False)
