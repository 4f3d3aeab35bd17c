"""What a client deploys: its fused adapters, its keys and its gate, in a folder of its own.

The weights are what nevergrad's NGOpt finds within [-bound, bound], as in LoRAHub. It minimises the
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedaudit.api import (
    ClientState,
    DeployedClient,
    Document,
    FinishedFederation,
    Measurement,
    ModelEngine,
    Progress,
    TargetError,
    no_progress,
    text_start,
)

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


Weights = tuple[float, float]
SINGLE_WEIGHTS: tuple[Weights, Weights] = ((1.0, 0.0), (0.0, 1.0))
"""The first adapter alone, and the second."""
MAX_BUDGET = 100
"""Beyond this NGOpt builds a metamodel under a time limit, so that no seed makes it repeatable;
nevergrad 1.0.12 cannot build it at all with numpy 2.4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """How two adapters were fused, and what it gained on the query set."""

    weights: Weights
    loss: float
    """Mean token loss of the fused adapter, in nats, without the penalty."""
    objective: float
    """The loss plus psi times the sum of the weights' absolute values: what was minimised."""
    first: float
    """Loss of the first adapter alone."""
    second: float
    """Loss of the second adapter alone."""
    evaluations: int
    """How many different weights were tried."""


def fuse(
    engine: ModelEngine,
    first: Path,
    second: Path,
    query: Sequence[Sequence[int]],
    out: Path,
    *,
    psi: float = 0.01,
    budget: int = 40,
    bound: float = 1.5,
    seed: int,
    progress: Progress = no_progress,
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
        fused = search(
            lambda weights: pair.loss(weights, query),
            psi=psi,
            budget=budget,
            bound=bound,
            seed=seed,
            progress=progress,
        )
    adapters.write(*composition.weighted_sum((first, second), fused.weights), out)
    return fused


def search(
    loss: Callable[[Weights], float],
    *,
    psi: float,
    budget: int,
    bound: float,
    seed: int,
    progress: Progress = no_progress,
) -> Fused:
    """Return the weights of the lowest loss plus psi * sum |w| that `budget` evaluations find.

    Each adapter alone is evaluated first, and counts. Of equals, the first that was tried wins.
    """
    if not 2 <= budget <= MAX_BUDGET:
        raise ValueError(f"The fusion's budget must be at least 2 and at most {MAX_BUDGET}.")
    if psi < 0 or not 1 <= bound < math.inf:
        raise ValueError("The fusion's psi must be at least 0, and its bound at least 1.")
    losses: dict[Weights, float] = {}

    def objective(weights: Weights) -> float:
        if weights not in losses:
            losses[weights] = _finite(loss(weights), weights)
        return losses[weights] + psi * sum(map(abs, weights))

    with _random_numbers_kept():
        _ask(objective, budget, bound, seed, progress)
    best = min(losses, key=objective)
    return Fused(
        weights=best,
        loss=losses[best],
        objective=objective(best),
        first=losses[SINGLE_WEIGHTS[0]],
        second=losses[SINGLE_WEIGHTS[1]],
        evaluations=len(losses),
    )


def _ask(
    objective: Callable[[Weights], float], budget: int, bound: float, seed: int, progress: Progress
) -> None:
    """Have NGOpt ask for `budget` values of the objective, both adapters alone first."""
    import nevergrad
    import numpy as np

    space = nevergrad.p.Array(init=np.zeros(2), lower=-bound, upper=bound)
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
                progress(number, budget)
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


def _finite(loss: float, weights: Weights) -> float:
    """Return `loss`; raises TargetError unless it is a finite number."""
    if not math.isfinite(loss):
        first, second = weights
        raise TargetError(
            f"The loss of the adapters fused by {first:.3g} and {second:.3g} is not finite."
        )
    return loss
