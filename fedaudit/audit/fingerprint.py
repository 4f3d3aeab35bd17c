"""What makes two runs the same: settings, data, and what is audited."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit import __version__
from fedaudit.audit.access import fingerprint
from fedaudit.audit.inputs.other_members import member_files
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.system.files import sha256

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest

FREE = ("batch_size", "workers", "device", "engine")
"""Settings that change no result, but by rounding: a run may go on with others."""


def settings(request: "AuditRequest") -> dict[str, Any]:
    """Return a request as the report and its fingerprint hold it."""
    attacks = {
        name: asdict(registry.create("attack", name, request.options.get(name)))
        for name in request.attacks
    }
    table = {key: value for key, value in asdict(request).items() if key != "options"}
    table["detector"] = {request.detector: dict(request.options.get(request.detector, {}))}
    paths = {key: str(value) for key, value in table.items() if isinstance(value, Path)}
    return {**table, **paths, "members": list(map(str, request.members)), "attacks": attacks}


def identity(request: "AuditRequest", audited: AuditTarget) -> str:
    """Return the run's id: the fingerprint of its settings, its data and what it audits.

    It goes on under the same id with other settings that change no result.
    """
    files = [sha256(path) for path in _files(request, audited)]
    wanted = {key: value for key, value in settings(request).items() if key not in FREE}
    table = {**wanted, "files": files, "base": audited.base}
    return run_id({**table, "adapter": fingerprint(audited)})


def run_id(config: Mapping[str, Any]) -> str:
    """Return a short name for a run: the fingerprint of its settings."""
    text = json.dumps(config, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run_facts(request: "AuditRequest", audited: AuditTarget) -> dict[str, str]:
    """Return all that the answers of a run follow from, by name: another run differs in some."""
    table = {key: value for key, value in settings(request).items() if key not in FREE}
    files = [*_files(request, audited), *_clients(request)]
    found = {
        **table,
        "data": {str(path): sha256(path) for path in files},
        "base": audited.base,
        "adapter's SHA-256": fingerprint(audited),
        "version": __version__,
    }
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return dict(_flat("", plain))


def describe_changes(now: Mapping[str, str], then: Mapping[str, str]) -> str:
    """Return what differs between two runs, in words; empty where nothing does."""
    names = [name for name in {**then, **now} if now.get(name) != then.get(name)]
    told = [f"{name} is {_short(now, name)}, not {_short(then, name)}" for name in names[:3]]
    return ", ".join(told) + (f", and {len(names) - 3} more" if len(names) > 3 else "")


def _short(table: Mapping[str, str], name: str) -> str:
    value = table.get(name)
    return "absent" if value is None else value if len(value) <= 60 else f"{value[:12]}…"


def _files(request: "AuditRequest", audited: AuditTarget) -> list[Path]:
    """Return every file of documents that an audit reads, but those of a matrix's clients."""
    from fedaudit.audit.inputs import held_out

    members = member_files(request, audited).values()
    unseen = held_out.held_out_path(request, audited)
    return [p for p in (request.own, request.others, *members, request.control, unseen) if p]


def _clients(request: "AuditRequest") -> list[Path]:
    return [Path(one.path) for one in getattr(request, "clients", ())]


def _flat(above: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(f"{above}{key}.", value)
        else:
            yield f"{above}{key}", json.dumps(value, sort_keys=True, ensure_ascii=False)
