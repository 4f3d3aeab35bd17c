"""What a client deploys: its fused adapters, its keys and its gate, in a folder of its own.

The weights are what nevergrad's NGOpt finds within [-1.5, 1.5], as in LoRAHub. It minimises the
mean token loss on a few texts of the organisation plus psi times the SUM of the weights' absolute
values (equation 7; LoRAHub takes their mean). Each adapter alone is suggested to it, so that the
fused one is never worse than either under this objective.

For two weights and at most 100 evaluations NGOpt is COBYLA, which draws nothing at random: it
begins at the better adapter alone. The seed would only matter if it gave up before the budget is
spent.
"""

import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api import (
    DeployedClient,
    Document,
    FinishedFederation,
    Measurement,
    ModelEngine,
    Target,
    TargetError,
    text_start,
)

if TYPE_CHECKING:
    from .gate import GateDesign
    from .responder import GateResponder

PLUGIN = "secure_gate"
LOSS_STEPS = (1, 5, 10, 20, 50, 100, 200, 500, 1000)
"""The steps of a gate's training whose loss is reported."""


def deploy_client(
    finished: FinishedFederation,
    client: str,
    views: Iterable[tuple[str, Path, Sequence[Document]]],
    *,
    query: int,
    psi: float,
    budget: int,
    tau: float,
    design: "GateDesign",
) -> list[Measurement]:
    """Fuse every adapter of a client with the global one, and train a gate for new keys.

    `views` are (name, the client's own adapter, what it was trained on), the secure one first; the
    other arguments are options of the defence.

    The secure adapter's query set is of the masked view, a revealing one's of its raw view
    (SecureGate, section 4.3).
    """
    from .rekeying import create

    folder, rows, names = finished.folder / client, list[Measurement](), list[str]()
    for name, adapter, documents in views:
        sample = _query(finished, client, documents, query)
        fused = fuse(
            finished.engine,
            finished.adapter,
            adapter,
            sample,
            folder / name,
            psi=psi,
            budget=budget,
            seed=finished.seed,
        )
        scope = {"stage": "fusion", "client": client, "adapter": name}
        weights = ", ".join(f"{weight:.3f}" for weight in fused.weights)
        rows.append(_row("defense", "loss", fused.loss, {**scope, "weights": weights}))
        target = Target(name=name, adapter=str(folder / name))
        flops = finished.engine.flops(target, sample) * fused.evaluations
        rows.append(_row("cost", "flops", float(flops), scope))
        names.append(name)
    losses = create(folder, finished.engine, names, tau=tau, design=design, seed=finished.seed)
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


def _row(kind: Any, metric: str, value: float, scope: dict[str, Any]) -> Measurement:
    return Measurement(kind=kind, plugin=PLUGIN, metric=metric, value=value, scope=scope)


Weights = tuple[float, float]
SINGLE_WEIGHTS: tuple[Weights, Weights] = ((1.0, 0.0), (0.0, 1.0))
"""The first adapter alone, and the second."""
BOUND = 1.5
"""The largest absolute value of a weight, as in LoRAHub."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """How two adapters were fused."""

    weights: Weights
    loss: float
    """Mean token loss of the fused adapter, in nats, without the penalty."""
    evaluations: int
    """How many different weights were tried."""


def fuse(
    engine: ModelEngine,
    first: Path,
    second: Path,
    query: Sequence[Sequence[int]],
    out: Path,
    *,
    psi: float,
    budget: int,
    seed: int,
) -> Fused:
    """Write the best weighted sum of two adapters into the folder `out`, and return its weights.

    `query` are token sequences. The engine is afterwards as it was. Raises InputError for adapters
    that cannot be summed and for a query set without a token to predict, TargetError for a loss
    that is not finite.
    """
    from fedaudit.engine.lora import composition
    from fedaudit.engine.parallel.engine import local_engine
    from fedaudit.federation import adapters

    with composition.attached_composition(local_engine(engine), (first, second)) as pair:
        fused = search(lambda weights: pair.loss(weights, query), psi=psi, budget=budget, seed=seed)
    adapters.write(*composition.weighted_sum((first, second), fused.weights), out)
    return fused


def search(loss: Callable[[Weights], float], *, psi: float, budget: int, seed: int) -> Fused:
    """Return the weights of the lowest loss plus psi * sum |w| that `budget` evaluations find.

    Each adapter alone is evaluated first, and counts. Of equals, the first that was tried wins.
    Raises TargetError for a loss that is not finite.
    """
    losses: dict[Weights, float] = {}

    def objective(weights: Weights) -> float:
        if weights not in losses:
            losses[weights] = loss(weights)
            if not math.isfinite(losses[weights]):
                raise TargetError(
                    "The loss of the adapters fused by {:.3g} and {:.3g} is not finite.".format(
                        *weights
                    )
                )
        return losses[weights] + psi * sum(map(abs, weights))

    with _random_numbers_kept():
        _ask(objective, budget, seed)
    best = min(losses, key=objective)
    return Fused(weights=best, loss=losses[best], evaluations=len(losses))


def _ask(objective: Callable[[Weights], float], budget: int, seed: int) -> None:
    """Have NGOpt ask for `budget` values of the objective, both adapters alone first."""
    import nevergrad
    import numpy as np

    space = nevergrad.p.Array(init=np.zeros(2), lower=-BOUND, upper=BOUND)
    space.random_state = np.random.RandomState(seed % 2**32)
    optimizer = nevergrad.optimizers.NGOpt(space, budget=budget, num_workers=1)
    for weights in reversed(SINGLE_WEIGHTS):  # what is suggested last is asked first
        optimizer.suggest(np.array(weights))
    try:
        with _quiet():
            for number in range(1, budget + 1):
                candidate = optimizer.ask()
                first, second = map(float, candidate.value)
                value = objective((first, second))
                if number < budget:  # the last would start a needless search in a thread
                    optimizer.tell(candidate, value)
    finally:
        # That thread lives until its optimizer is gone, and Python waits for the thread: no
        # traceback may keep a reference to the optimizer.
        del optimizer


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what COBYLA says of settings that nevergrad chose."""
    from nevergrad.common.errors import FinishedUnderlyingOptimizerWarning

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "COBYLA: Invalid", UserWarning)
        warnings.simplefilter("ignore", FinishedUnderlyingOptimizerWarning)
        yield


@contextmanager
def _random_numbers_kept() -> Iterator[None]:
    """Restore the global random states: nevergrad draws from them, even when it is imported."""
    import numpy as np

    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
