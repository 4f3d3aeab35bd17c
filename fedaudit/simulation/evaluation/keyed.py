"""What a deployed defence costs in utility: perplexity under each key, beside adapters alone."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fedaudit.api.defense import ClientState, FinishedFederation, Responder
from fedaudit.api.progress import Progress
from fedaudit.api.records import Document, Measurement, Target
from fedaudit.engine.routed import RoutedEngine
from fedaudit.simulation.evaluation.utility import loss_rows, losses

Scope = tuple[tuple[str, str], ...]
"""A measurement's scope, as the key of a dict."""

EVERYBODY = "all"
"""The value of scope.client for measurements over all clients together."""

MEASURED_KEYS = ("right", "none")
"""Kinds of key under which perplexity is measured; others are routed as "none" is."""


def measure(
    finished: FinishedFederation,
    responders: Mapping[str, Responder],
    held_out: Sequence[Document],
    evaluated: int,
    progress: Progress,
) -> list[Measurement]:
    """Return the perplexity of what every client deployed, under keys and without the defence.

    It is measured on the client's own unmodified documents (scope.data "own") and on held-out ones
    ("held-out"), at most `evaluated` of each. Without the defence, each adapter that the client
    trained is measured alone: its last update of the shared one ("shared alone"), and each private
    one. Client "all" is all clients together.
    """
    means_by_scope: dict[Scope, list[float]] = {}
    for number, (client, responder) in enumerate(responders.items(), 1):
        client_state = finished.parties[client]
        sets = {"own": client_state.documents[:evaluated], "held-out": held_out[:evaluated]}
        texts = {data: documents for data, documents in sets.items() if documents}
        engine = RoutedEngine(finished.engine, responder)
        for target, scope in _targets(client_state, responder):
            for data, documents in texts.items():
                means = losses(engine, target, documents, finished.max_length)
                for name in (client, EVERYBODY):
                    key = (("source", "tuned"), ("client", name), ("data", data), *scope)
                    means_by_scope.setdefault(key, []).extend(means)
        progress(number, len(responders))
    rows = [
        row
        for scope, means in means_by_scope.items()
        for row in loss_rows(means, dict(scope), finished.seed)
    ]
    return [row for row in rows if row.metric == "perplexity"]


def _targets(client_state: ClientState, responder: Responder) -> Iterator[tuple[Target, Scope]]:
    """Yield every model to measure, with its part of the scope."""
    for kind, heading in responder.headings().items():
        key, _, adapter = kind.partition(":")
        if key in MEASURED_KEYS:
            named: Scope = (("adapter", adapter),) if adapter else ()
            yield Target(name=kind, heading=heading), (("key", key), *named)
    folders: dict[str, Path] = {"shared": client_state.shared, **client_state.private}
    for name, folder in folders.items():
        yield Target(name=name, adapter=str(folder)), (("adapter", f"{name} alone"),)
