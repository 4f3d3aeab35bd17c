"""A member's records and model, resolved: found, read and checked before the model is loaded."""

from dataclasses import dataclass
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.input_files import InputFile, InputReader
from fedaudit.audit.inputs import Inputs, common_inputs, form_of, resolve_target
from fedaudit.audit.records import annotated
from fedaudit.config import registry
from fedaudit.engine.remote.options import is_url
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.joint.request import JointRequest


@dataclass(frozen=True, kw_only=True)
class JointInputs(Inputs[JointRequest]):
    """A member's documents, annotated, and the controls."""

    ours: InputFile
    control: InputFile | None


def resolve(request: JointRequest) -> JointInputs:
    """Return the inputs, after every check that needs no model.

    Raises UsageError for an attack without prefixes, for an option that works only where all
    records are at hand, and for a model that is behind a server or a deployed defence.
    """
    attack = attack_of(request)
    if attack.estimator != "sample" or attack.labels:
        option = "labels" if attack.labels else "estimator exact"
        raise UsageError(f"The option {option} of {attack.name} does not work in a joint audit.")
    if is_url(request.target):
        raise UsageError("A joint audit needs the model itself: a server cannot be asked.")
    reader = InputReader()
    audited = resolve_target(request, reader)
    if audited.deployment:
        raise UsageError(
            "The federation answers through its clients' deployed defence: audit the global "
            "adapter with --round."
        )
    form = form_of(request, audited)
    ours = annotated(reader.corpus(request.ours, form), request)
    if not any(document.pii for document in ours.documents):
        raise InputError(f"{request.ours} holds no PII: there is nothing to ask or to look for.")
    control = annotated(reader.corpus(request.control, form), request) if request.control else None
    return JointInputs(**common_inputs(request, audited, reader, {}), ours=ours, control=control)


def attack_of(request: JointRequest) -> PrefixAttack:
    """Return the attack of all members; raises UsageError unless it is one that asks prefixes."""
    [name] = request.attacks
    attack: Any = registry.create("attack", name, request.options.get(name))
    if not isinstance(attack, PrefixAttack):
        raise UsageError(f"The attack {name} asks no prefixes: it does not work in a joint audit.")
    return attack
