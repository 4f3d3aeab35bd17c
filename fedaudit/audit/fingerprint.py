"""The identity of a run: its settings, data, and the audited model."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit import __version__
from fedaudit.config import registry
from fedaudit.report.run_header import run_id

if TYPE_CHECKING:
    from fedaudit.audit.inputs import Inputs
    from fedaudit.audit.request import AuditRequest

IDENTITY = ("base", "base_url", "tokenizer", "context")
"""The options that answers depend on; all others may change when an audit is resumed."""

SETTINGS_WITHOUT_EFFECT = ("batch_size", "workers", "device", "engine", "vllm")
"""Settings that change results by rounding at most: a resumed run may change them. Whether vLLM
answers is a separate fact."""


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


def compute_fingerprint(inputs: "Inputs[Any]") -> RunFingerprint:
    """Return the fingerprint of a run."""
    table, adapter, base = _settings(inputs.request), inputs.adapter_sha256, inputs.audited.base
    fixed_settings = {
        key: value for key, value in table.items() if key not in SETTINGS_WITHOUT_EFFECT
    }
    if isinstance(how := fixed_settings.get("endpoint"), dict):
        fixed_settings["endpoint"] = {name: how[name] for name in IDENTITY}
    facts = {
        **fixed_settings,
        "data": {str(path): digest for path, digest in inputs.digests.items()},
        "base": base,
        "adapter's SHA-256": adapter,
        **inputs.facts,
        "version": __version__,
    }
    files = [inputs.digests[path] for path in inputs.files]
    subject = {"files": files, "base": base, "adapter": adapter}
    return RunFingerprint(
        run=run_id({**fixed_settings, **subject}),
        settings=table,
        facts=dict(_flat("", json.loads(json.dumps(facts, default=str)))),
        adapter_sha256=adapter,
    )


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
    table["detector"] = {request.detector: dict(request.options.get(request.detector, {}))}
    table["attacks"] = attacks
    return {key: _plain_paths(value) for key, value in table.items()}


def _plain_paths(value: Any) -> Any:
    """Return a path as text, and so those of a tuple of paths."""
    if isinstance(value, tuple) and all(isinstance(one, Path) for one in value):
        return list(map(str, value))
    return str(value) if isinstance(value, Path) else value


def _short(table: Mapping[str, str], name: str) -> str:
    value = table.get(name)
    return "absent" if value is None else value if len(value) <= 60 else f"{value[:12]}…"


def _flat(above: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(f"{above}{key}.", value)
        else:
            yield f"{above}{key}", json.dumps(value, sort_keys=True, ensure_ascii=False)
