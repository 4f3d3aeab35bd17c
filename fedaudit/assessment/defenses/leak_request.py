"""The attack on every trained federation: the cheap part of the audit's own attacks."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedaudit import __version__
from fedaudit.api.errors import UsageError
from fedaudit.api.records import Measurement
from fedaudit.api.target_sets import EXCLUSIVE
from fedaudit.assessment.plan import Plan
from fedaudit.audit.access import RIGHT
from fedaudit.audit.request import ExtractionRequest
from fedaudit.federation.folder import open_federation
from fedaudit.system.files import sha256

ATTACKS = ("contextual", "verbatim")
"""The attacks on every trained federation; recommendations are based on the first."""
PARTIAL_SCOPE_KEYS = frozenset(
    {"label", "category", "budget", "samples", "task", "estimator", "corpus"}
)
"""Scope keys that are absent from rows about all targets and all requests."""


def leak_request(plan: Plan) -> ExtractionRequest:
    """Return the request for every trained federation: the same records, options and seed.

    Raises UsageError where the audit itself has no records to attack with.
    """
    step = plan.requests.get("extraction")
    if not isinstance(step, ExtractionRequest) or step.victim is None:
        raise UsageError(
            "--defenses needs the records of an attacker and of a victim: name them with "
            "--prefixes and --victim."
        )
    options: dict[str, Mapping[str, Any]] = {}
    for request in reversed(list(plan.requests.values())):
        options |= {
            name: request.options[name] for name in request.options if name in request.attacks
        }
    attack_options = {name: options[name] for name in ATTACKS if name in options}
    detector_options = {
        name: step.options[name] for name in (step.detector,) if name in step.options
    }
    return replace(
        step, attacks=ATTACKS, options={**detector_options, **attack_options}, held_out=None,
        adapter=None, round=None, client=None, keys=(), counterfactual=None,
    )  # fmt: skip


def on_federation(
    request: ExtractionRequest, folder: Path, clients: Mapping[str, str]
) -> ExtractionRequest:
    """Return the request on the federation in `folder`, as the victim's deployed model answers.

    `clients` are the files that it was trained on, by client. The attack uses the federation's own
    copies of them, so that no client is taken for another member.
    """
    manifest = open_federation(folder).manifest
    copies = {c.id: folder / c.data for c in manifest.clients}
    names = {Path(path).resolve(): name for name, path in clients.items()}
    attacker = names.get(request.prefixes.resolve())
    victim = names.get(request.victim.resolve()) if request.victim else None
    client = (victim or next(iter(copies))) if manifest.deployment is not None else None
    return replace(
        request,
        target=str(folder),
        client=client,
        prefixes=copies[attacker] if attacker else request.prefixes,
        victim=copies[victim] if victim else request.victim,
    )


def request_digest(request: ExtractionRequest) -> str:
    """Return the digest of what answers depend on besides the model: options and records."""
    files = [request.prefixes, *([request.victim] if request.victim else [])]
    facts = {
        "files": [sha256(path) for path in files],
        "options": {name: dict(options) for name, options in request.options.items()},
        "attacks": request.attacks,
        "seed": request.seed,
        "detector": request.detector,
        "template": request.template,
        "version": __version__,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def leak_row(rows: Sequence[Measurement], attack: str) -> Measurement | None:
    """Return the row with an attack's coverage of all its targets; None if there is no such row.

    The row counts what came out of the tuned model and not of its base, in the judged set of
    targets. For a deployed defence with keys, it is the row of the largest coverage under a wrong
    key.
    """
    coverage_rows = [
        row
        for row in rows
        if (row.kind, row.plugin, row.metric) == ("extraction", attack, "coverage")
        and row.scope.get("source") == "tuned-not-base"
        and not PARTIAL_SCOPE_KEYS & row.scope.keys()
        and row.scope.get("key") != RIGHT
    ]
    exclusive_rows = [row for row in coverage_rows if row.scope.get("set", EXCLUSIVE) == EXCLUSIVE]
    candidates = [row for row in exclusive_rows if row.value is not None and row.low is not None]
    if candidates:
        return max(candidates, key=lambda row: row.value or 0.0)
    return exclusive_rows[0] if exclusive_rows else None
