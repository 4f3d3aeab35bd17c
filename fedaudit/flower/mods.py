"""The client mod that tells the server a client's name.

Flower numbers its nodes at random, anew in each simulation. With `name_mod` among the mods of a
ClientApp a client is called what `client-name` in its node's configuration says, or `c0`, `c1`, ...
by its `partition-id`, and keeps that name when a run is taken up again.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

flower_log = logging.getLogger("flwr")
RECORD, KEY = "fedaudit", "client"
"""Where in a reply the name stands: a ConfigRecord, and its entry."""
NAME, PARTITION = "client-name", "partition-id"
"""Entries of a node's configuration."""


def name_mod(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
    """Let the app answer, and put the client's name into the answer."""
    from flwr.app import ConfigRecord

    reply = call_next(message, context)
    if (name := node_name(context.node_config)) and not reply.has_error():
        reply.content[RECORD] = ConfigRecord({KEY: name})
    return reply


def node_name(node_config: Any) -> str:
    """Return what a node's configuration calls it; empty where it says nothing."""
    if name := node_config.get(NAME):
        return str(name)
    number = node_config.get(PARTITION)
    return "" if number is None else f"c{number}"


def reply_name(reply: Any) -> str:
    """Return the name of the client that sent a reply: its own word, or else its node's number."""
    name = reply.content.config_records.get(RECORD, {}).get(KEY)
    return str(name) if name else f"node-{reply.metadata.src_node_id}"


def sent_tensors(arrays: Mapping[str, Any]) -> "dict[str, torch.Tensor]":
    """Return the arrays of a message as tensors of their own."""
    import torch

    return {name: torch.from_numpy(array.numpy().copy()) for name, array in arrays.items()}
