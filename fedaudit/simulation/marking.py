"""Clients that train on somebody's watermarked documents: who, and on which."""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedaudit import registry
from fedaudit.records import Document
from fedaudit.simulation.config import Simulation
from fedaudit.watermark import Mark, Watermark


@dataclass(frozen=True, slots=True)
class Marked:
    """Every client's documents, the marks that were issued, and which client has which."""

    clients: list[list[Document]]
    marks: tuple[Mark, ...] = ()
    holders: tuple[tuple[int, str], ...] = ()
    """(client, id of the mark)."""


def marked(
    config: Simulation,
    dealt: Sequence[Sequence[Document]],
    held_out: Sequence[Document],
    base: Any,
) -> Marked:
    """Return `dealt` with marked documents in place of some, for the clients that are drawn.

    Clients are drawn after the partition. Each has a mark of its own, as if its copy of the owner's
    documents had been made for it. Without a watermark nothing changes.
    """
    from fedaudit.engine.loader import load_base
    from fedaudit.engine.local import LocalEngine

    clients = [list(own) for own in dealt]
    name, options = config.marked()
    if not name:
        return Marked(clients)
    plugin: Watermark = registry.create("watermark", name, options)
    wanted = config.watermark
    model = base if not wanted.teacher else load_base(wanted.teacher, device=config.device)
    teacher = LocalEngine(model)
    prompts = [document.text for document in held_out]
    marks, holders = [], []
    chosen = drawn(config)
    for index in range(max(wanted.marks, len(chosen))):
        secret = plugin.issue(teacher, prompts, seed=config.seed, index=index)
        mark = Mark(id=f"mark{index}", name=name, options=_plain(plugin), secret=secret)
        marks.append(mark)
        if index < len(chosen):
            client = chosen[index]
            clients[client] = _replaced(plugin, secret, clients[client], teacher, config, index)
            holders.append((client, mark.id))
    return Marked(clients, tuple(marks), tuple(holders))


def drawn(config: Simulation) -> list[int]:
    """Return the clients that train on marked documents: a function of the seed."""
    count = min(config.watermark.clients, config.clients)
    order = random.Random(f"watermarked {config.seed}").sample(range(config.clients), count)
    return sorted(order)


def _replaced(
    plugin: Watermark,
    secret: dict[str, Any],
    own: list[Document],
    teacher: Any,
    config: Simulation,
    index: int,
) -> list[Document]:
    count = max(1, round(config.watermark.ratio * len(own)))
    rng = random.Random(f"marked documents {config.seed} {index}")
    places = sorted(rng.sample(range(len(own)), count))
    made = plugin.embed(secret, [own[at] for at in places], teacher, seed=config.seed)
    result = list(own)
    for at, document in zip(places, made, strict=True):
        result[at] = document
    return result


def _plain(plugin: Watermark) -> dict[str, Any]:
    options: dict[str, Any] = asdict(plugin)  # type: ignore[call-overload]
    return options
