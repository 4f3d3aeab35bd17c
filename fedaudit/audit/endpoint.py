"""An audited model behind a server: the options that it allows, and the connection."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedaudit.api.engine import Engine
from fedaudit.api.errors import UsageError
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.target import AuditTarget
from fedaudit.engine.remote.options import EndpointOptions, ServedModel

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest
    from fedaudit.engine.remote.connection import RemoteConnection

KINDS = ("extract", "cross_client", "infer", "memorize")
"""The kinds of request that can audit a model behind a server."""
IDENTITY = ("base", "base_url", "tokenizer", "context")
"""The options that answers depend on; all others may change when an audit is resumed."""

Tell = Callable[[str], None]
DryRun = Callable[[Engine], object]


def endpoint_target(request: "AuditRequest") -> AuditTarget:
    """Return the served model that a request names; UsageError for options it does not allow."""
    assert request.target is not None
    if request.kind not in KINDS:
        raise UsageError(
            f"{request.command} needs a federation or a model's files: a server is audited with "
            "extract, infer and memorize."
        )
    file_options = {
        "--adapter": request.adapter,
        "--round": request.round is not None,
        "--client": request.client,
        "--key": request.keys,
        "--engine": request.engine != "local",
        "--counterfactual": request.counterfactual_path,
        "--reference": request.reference_paths,
    }
    if option := next((name for name, value in file_options.items() if value), None):
        raise UsageError(
            f"{option} needs a model's files and does not work with a server, which serves a "
            "model by its name (--model) and the base by another (--set endpoint.base=NAME)."
        )
    try:
        served = ServedModel(
            url=request.target,
            model=request.model or "",
            options=request.endpoint or EndpointOptions(),
        )
    except ValueError as error:
        raise UsageError(f"--target: {error}") from None
    if served.has_base and served.options.base == request.model and not served.options.base_url:
        raise UsageError("endpoint.base names the model under audit itself, not its base.")
    name = served.base_name if served.has_base else served.name
    return AuditTarget(base=name, served=served)


@contextmanager
def open_connection(
    served: ServedModel,
    form: PromptTemplate,
    *,
    ask: DryRun,
    tell: Tell,
) -> "Iterator[RemoteConnection]":
    """Provide an unopened connection to a served model, after a dry run of `ask`.

    The estimated cost is reported and checked against the budget before anything is sent.
    """
    from fedaudit.engine.remote.connection import RemoteConnection

    connection = RemoteConnection(served, form)
    ask(connection.dry_run())
    tell(connection.estimate.describe())
    try:
        yield connection
    finally:
        connection.close()
