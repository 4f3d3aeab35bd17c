"""From a request to its inputs: all that is read from disk before a model is loaded."""

from collections.abc import Callable, Mapping
from typing import Any

from fedaudit.audit import attack_pipeline, cross_client
from fedaudit.audit.epsilon import pipeline as epsilon
from fedaudit.audit.epsilon.request import EpsilonRequest
from fedaudit.audit.exposure import pipeline as exposure
from fedaudit.audit.exposure.request import ExposureRequest
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.inputs.resolution import Inputs
from fedaudit.audit.memorization import pipeline as memorization
from fedaudit.audit.memorization.request import MemorizationRequest
from fedaudit.audit.request import (
    AuditRequest,
    CrossClientRequest,
    ExtractionRequest,
    InferenceRequest,
)

RESOLVERS: Mapping[type[AuditRequest], Callable[[Any, InputReader], Inputs[Any]]] = {
    ExtractionRequest: attack_pipeline.resolve,
    InferenceRequest: attack_pipeline.resolve,
    CrossClientRequest: cross_client.resolve,
    MemorizationRequest: memorization.resolve,
    ExposureRequest: exposure.resolve,
    EpsilonRequest: epsilon.resolve,
}


def resolve(request: AuditRequest, reader: InputReader) -> Inputs[Any]:
    """Return the inputs of a request: found, read and checked.

    Every error that needs no model is raised here: UsageError for an option or a plugin, InputError
    for a file. `reader` may have read some of the files already.
    """
    return RESOLVERS[type(request)](request, reader)
