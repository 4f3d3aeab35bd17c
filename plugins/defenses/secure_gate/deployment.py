"""What a client deploys: its fused adapters, its keys and its gate, in a folder of its own."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedaudit.api import (
    ClientState,
    DeployedClient,
    Document,
    FinishedFederation,
    Measurement,
    text_start,
)

from .fusion import fuse

if TYPE_CHECKING:
    from .gate import GateDesign
    from .responder import GateResponder

PLUGIN = "secure_gate"
LOSS_STEPS = (1, 5, 10, 20, 50, 100, 200, 500, 1000)
"""The steps of a gate's training whose loss is reported."""


class GateSettings(Protocol):
    """The settings of the defence that its deployment needs."""

    @property
    def query(self) -> int:
        """How many of a client's documents judge fusion weights."""
        ...

    @property
    def psi(self) -> float:
        """What a unit of a fusion weight costs, in nats a token."""
        ...

    @property
    def budget(self) -> int:
        """How many pairs of fusion weights are tried for each adapter."""
        ...

    @property
    def tau(self) -> float:
        """The probability that an adapter must exceed to be chosen."""
        ...

    @property
    def design(self) -> "GateDesign":
        """What its gates read, and how they are trained."""
        ...

    def views(self, client_state: ClientState) -> Iterator[tuple[str, Path, Sequence[Document]]]:
        """Yield (name, the client's own adapter, what it was trained on)."""
        ...


def deploy_client(
    defense: GateSettings, finished: FinishedFederation, client: str, client_state: ClientState
) -> list[Measurement]:
    """Fuse every adapter of a client with the global one, and train a gate for new keys.

    The secure adapter's query set is of the masked view, a revealing one's of its raw view
    (SecureGate, section 4.3).
    """
    from .rekeying import create

    folder, rows, names = finished.folder / client, list[Measurement](), list[str]()
    for name, adapter, documents in defense.views(client_state):
        query = _query(finished, client, documents, defense.query)
        fused = fuse(
            finished.engine,
            finished.adapter,
            adapter,
            query,
            folder / name,
            psi=defense.psi,
            budget=defense.budget,
            seed=finished.seed,
        )
        scope = {"stage": "fusion", "client": client, "adapter": name}
        weights = ", ".join(f"{weight:.3f}" for weight in fused.weights)
        rows.append(_row("defense", "loss", fused.loss, {**scope, "weights": weights}))
        flops = finished.engine.flops(_target(folder / name), query) * fused.evaluations
        rows.append(_row("cost", "flops", float(flops), scope))
        names.append(name)
    losses = create(
        folder, finished.engine, names, tau=defense.tau, design=defense.design, seed=finished.seed
    )
    return [*rows, *_loss_rows(client, losses)]


def _loss_rows(client: str, losses: Sequence[float]) -> Iterator[Measurement]:
    """Yield the loss of a gate's training at some of its steps (SecureGate, figure 7)."""
    for step in LOSS_STEPS:
        if step <= len(losses):
            scope = {"stage": "gate training", "client": client, "step": step}
            yield _row("defense", "loss", losses[step - 1], scope)


def open_gate(deployed: DeployedClient) -> "GateResponder":
    """Return a client's gate with its adapters; the other clients' keys are known to it as such."""
    from .rekeying import load

    other_folders = sorted(
        path for path in deployed.folder.iterdir() if path.is_dir() and path.name != deployed.client
    )
    return load(deployed.folder / deployed.client, deployed.engine, other_folders, deployed.seed)


def _query(
    finished: FinishedFederation, client: str, documents: Sequence[Document], count: int
) -> list[tuple[int, ...]]:
    """Return some documents as they were trained on, drawn by the seed and nothing else."""
    ordered = sorted(documents, key=lambda document: (document.id, document.text))
    rng = random.Random(f"query {finished.seed} {client}")
    sample = rng.sample(ordered, min(count, len(ordered)))
    begin = text_start(finished.engine)
    tokens = finished.engine.tokenize([document.text for document in sample])
    return [(*begin, *encoding.ids)[: finished.max_length] for encoding in tokens]


def _target(folder: Path) -> Any:
    from fedaudit.api import Target

    return Target(name=folder.name, adapter=str(folder))


def _row(kind: Any, metric: str, value: float, scope: dict[str, Any]) -> Measurement:
    return Measurement(kind=kind, plugin=PLUGIN, metric=metric, value=value, scope=scope)
