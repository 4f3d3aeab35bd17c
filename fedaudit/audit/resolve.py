"""From a request to its inputs: all that is read from disk before a model is loaded."""

from collections.abc import Callable, Mapping
from typing import Any

from fedaudit.audit import attacks, epsilon, exposure, forget, watch
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.inputs import Inputs
from fedaudit.audit.memorization import run as memorization
from fedaudit.audit.request import (
    AuditRequest,
    CrossClientRequest,
    EpsilonRequest,
    ExposureRequest,
    ExtractionRequest,
    ForgetRequest,
    InferenceRequest,
    MemorizationRequest,
    WatchRequest,
)
from fedaudit.audit.run import AuditPipeline

Resolver = Callable[[Any, InputReader], Inputs[Any]]

BY_REQUEST: Mapping[type[AuditRequest], tuple[Resolver, type[AuditPipeline[Any]]]] = {
    ExtractionRequest: (attacks.resolve, attacks.AttackPipeline),
    InferenceRequest: (attacks.resolve, attacks.AttackPipeline),
    CrossClientRequest: (attacks.resolve, attacks.AttackPipeline),
    MemorizationRequest: (memorization.resolve, memorization.MemorizationPipeline),
    ExposureRequest: (exposure.resolve, exposure.ExposurePipeline),
    EpsilonRequest: (epsilon.resolve, epsilon.EpsilonPipeline),
    WatchRequest: (watch.resolve, watch.WatchPipeline),
    ForgetRequest: (forget.resolve, forget.ForgetPipeline),
}


def resolve(request: AuditRequest, reader: InputReader) -> Inputs[Any]:
    """Return the inputs of a request: found, read and checked.

    Every error that needs no model is raised here: UsageError for an option or a plugin, InputError
    for a file. `reader` may have read some of the files already.
    """
    return BY_REQUEST[type(request)][0](request, reader)


def pipeline_of(request: AuditRequest) -> type[AuditPipeline[Any]]:
    """Return the pipeline that runs a kind of request."""
    return BY_REQUEST[type(request)][1]
