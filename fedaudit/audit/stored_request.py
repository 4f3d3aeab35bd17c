"""Requests as JSON in a cache, so that an audit can be resumed or merged from its folder alone.

A folder may come from someone else, so only a request as this version writes it is accepted. The
files, model and plugins that it names are checked as for any request. Only the user decides what
could send data away or run a program: which servers are asked, and how vLLM is started, which no
cache states.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit.clients import read_clients
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import AuditRequest, ClientData
from fedaudit.audit.resolve import BY_REQUEST
from fedaudit.config.options import build
from fedaudit.engine.remote.options import EndpointOptions, is_url
from fedaudit.report.redaction import make_visible

KINDS: Mapping[str, type[AuditRequest]] = {request.kind: request for request in BY_REQUEST}
"""The kinds of request that can be resumed and sharded, by their name in a cache."""
NOT_KEPT = ("vllm",)
"""Fields left out, as they would let the author of a cache choose a program to run."""
QUOTED_CHARS = 200
"""The most characters of a refused value that an error quotes."""


def to_table(request: AuditRequest) -> dict[str, Any]:
    """Return a request as JSON: its kind, and its fields by name.

    Of a client, only the name and the path of the file are stored. Raises UsageError for an option
    that JSON cannot represent, and for a path that is not text.
    """
    named = {
        field.name: _plain(getattr(request, field.name))
        for field in fields(request)
        if field.name not in NOT_KEPT
    }
    try:
        table: dict[str, Any] = json.loads(
            json.dumps({"kind": request.kind, **named}, allow_nan=False)
        )
        _check_text(table)
    except (TypeError, ValueError) as error:
        raise UsageError(f"A request with such an option cannot be kept: {error}.") from None
    return table


def from_table(table: Mapping[str, Any], folder: Path, servers: Sequence[str] = ()) -> AuditRequest:
    """Return the request that the cache in `folder` has.

    Raises InputError for anything but a result of `to_table` and if a client's file no longer
    exists, and UsageError for a request to a server that is not among `servers`, or a server
    among them that it does not ask.
    """
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(
            f"{folder} is of the command {kind!r:.{QUOTED_CHARS}}, which has no shards."
        )
    try:
        _check_text(table)
        request = _build_request(
            KINDS[kind], {name: v for name, v in table.items() if name != "kind"}
        )
        if to_table(request) != table:
            raise UsageError("something is missing, or written in another way")
    except (UsageError, ValueError, RecursionError) as error:
        raise InputError(
            f"{folder} holds no request in the form that this version of fedaudit keeps: "
            f"{error!s:.{QUOTED_CHARS}}"
        ) from None
    _check_servers(request, folder, servers)
    return replace(request, **_clients(request))


def _check_servers(request: AuditRequest, folder: Path, servers: Sequence[str]) -> None:
    """Raise UsageError unless the user has named every server that a stored request would ask.

    A server that it would not ask is refused, too.
    """
    asked = _asked_servers(request)
    named = {server.rstrip("/") for server in servers}
    unnamed = [url for url in asked if url.rstrip("/") not in named]
    if unnamed:
        raise UsageError(
            f"{folder} would send records and a key to {make_visible(', '.join(unnamed))}: name "
            "each such server with --server if that is right."
        )
    known = {url.rstrip("/") for url in asked}
    if unasked := [server for server in servers if server.rstrip("/") not in known]:
        raise UsageError(
            f"{folder} asks no server {make_visible(', '.join(unasked))}: --server names servers "
            "that the audit asked."
        )


def _asked_servers(request: AuditRequest) -> list[str]:
    """Return the addresses of all servers that a request asks, each once."""
    if not is_url(request.target):
        return []
    options = request.endpoint or EndpointOptions()
    return list(dict.fromkeys(filter(None, (request.target, *options.urls, options.base_url))))


def _build_request(kind: type[AuditRequest], table: dict[str, Any]) -> AuditRequest:
    clients = table.get("clients")
    if isinstance(clients, list):
        rows = [{**row, "sha256": ""} if isinstance(row, dict) else row for row in clients]
        table = {**table, "clients": rows}
    return build(kind, table, "request")


def _clients(request: AuditRequest) -> dict[str, Any]:
    """Return the clients with the present content of their files, whatever the cache says."""
    named = [(client.name, Path(client.path)) for client in request.participants]
    return {"clients": read_clients(named, InputReader())} if named else {}


def _plain(value: Any) -> Any:
    """Return a value of a request with JSON types."""
    if isinstance(value, ClientData):
        return {"name": value.name, "path": value.path}
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _check_text(value: Any) -> None:
    """Raise ValueError for a string with a null character or a lone surrogate."""
    if isinstance(value, str):
        os.fsencode(value)
        if "\0" in value:
            raise ValueError("a text with a zero in it")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _check_text(key)
            _check_text(item)
    elif isinstance(value, list):
        for item in value:
            _check_text(item)
