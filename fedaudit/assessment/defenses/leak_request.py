"""The attack on every trained federation: the audit's own, as far as it is cheap."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedaudit import __version__
from fedaudit.api.errors import UsageError
from fedaudit.api.records import Measurement
from fedaudit.assessment.plan import Plan
from fedaudit.audit.access import RIGHT
from fedaudit.audit.request import ExtractionRequest
from fedaudit.federation.folder import open_federation
from fedaudit.system.files import sha256

ATTACKS = ("contextual", "verbatim")
"""What is asked of every trained federation, the first being what is recommended by."""
PARTS = frozenset({"label", "category", "budget", "samples", "task", "estimator", "corpus"})
"""Parts of a scope that a row about all targets and everything asked does not have."""


def leak_request(plan: Plan) -> ExtractionRequest:
    """Return the request that is put to every trained federation: records, options, seed alike.

    Raises UsageError where the audit itself has no records to attack with.
    """
    step = plan.steps.get("extraction")
    if not isinstance(step, ExtractionRequest) or step.victim is None:
        raise UsageError(
            "--defenses needs the records of an attacker and of a victim: name them with "
            "--prefixes and --victim."
        )
    options: dict[str, Mapping[str, Any]] = {}
    for one in reversed(list(plan.steps.values())):
        options |= {name: one.options[name] for name in one.options if name in one.attacks}
    own = {name: options[name] for name in ATTACKS if name in options}
    found = {name: step.options[name] for name in (step.detector,) if name in step.options}
    return replace(
        step, attacks=ATTACKS, options={**found, **own}, held_out=None, adapter=None, round=None,
        client=None, keys=(), counterfactual=None,
    )  # fmt: skip


def on_federation(
    request: ExtractionRequest, place: Path, clients: Mapping[str, str]
) -> ExtractionRequest:
    """Return the request on the federation in `place`, as the victim's deployed model answers.

    `clients` are the files that it was trained on, by client: of those the federation's own copies
    are attacked with, so that nobody counts as another member than they are.
    """
    manifest = open_federation(place).manifest
    copies = {one.id: place / one.data for one in manifest.clients}
    names = {Path(path).resolve(): name for name, path in clients.items()}
    own = names.get(request.prefixes.resolve())
    victim = names.get(request.victim.resolve()) if request.victim else None
    client = (victim or next(iter(copies))) if manifest.deployment is not None else None
    return replace(
        request,
        target=str(place),
        client=client,
        prefixes=copies[own] if own else request.prefixes,
        victim=copies[victim] if victim else request.victim,
    )


def request_digest(request: ExtractionRequest) -> str:
    """Return what an answer to the request depends on, beside the model: options and records."""
    files = [request.prefixes, *([request.victim] if request.victim else [])]
    facts = {
        "files": [sha256(path) for path in files],
        "options": {name: dict(own) for name, own in request.options.items()},
        "attacks": request.attacks,
        "seed": request.seed,
        "detector": request.detector,
        "template": request.template,
        "version": __version__,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def leak_row(rows: Sequence[Measurement], attack: str) -> Measurement | None:
    """Return the coverage of all that an attack looked for, None without one.

    It is of what came out of the tuned model and not of its base, of the set that is judged. Where
    a deployed defence is asked under keys it is the largest under any but the right one.
    """
    own = [
        row
        for row in rows
        if (row.kind, row.plugin, row.metric) == ("extraction", attack, "coverage")
        and row.scope.get("source") == "tuned-not-base"
        and not PARTS & row.scope.keys()
        and row.scope.get("key") != RIGHT
    ]
    judged = [row for row in own if row.scope.get("set", "exclusive") == "exclusive"]
    known = [row for row in judged if row.value is not None and row.low is not None]
    if known:
        return max(known, key=lambda row: row.value or 0.0)
    return judged[0] if judged else None
