"""Client trainings in Flower's simulation engine, which runs in a child process.

Each client of the federation is a Flower node; each of its trainings is one message to the node,
and the result is the reply. The child is started and addressed as in `ray_cluster`.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedaudit.api.errors import UsageError
from fedaudit.engine.parallel.ray_cluster import RayCluster, environment, pack, until_it_dies

MISSING = "--engine flower needs Flower: pip install 'fedaudit[flower]'."
FLOWER = (1, 41)
"""The oldest version of Flower whose simulation was tested."""

CHILD = "from fedaudit.engine.parallel.flower_worker import main; main()"
DIED = (
    "A training died several times in Flower's simulation (out of memory?); give the same command "
    "to go on after the last finished round, perhaps with --engine flower:1."
)


def check(device: str) -> None:
    """Raise UsageError if Flower's simulation cannot train on a device, or is not installed."""
    if device not in ("auto", "cpu"):
        raise UsageError(f"--engine flower trains on CPUs: --device is cpu or auto, not {device}.")
    if find_spec("flwr") is None or find_spec("ray") is None:
        raise UsageError(MISSING)
    flower_version = version("flwr")
    if tuple(int(x) for x in flower_version.split(".")[:2]) < FLOWER:
        raise UsageError(
            f"--engine flower needs Flower {FLOWER[0]}.{FLOWER[1]} or newer, not {flower_version}: "
            "pip install --upgrade 'fedaudit[flower]'."
        )


class FlowerSimulation(RayCluster):
    """Flower's simulation engine in a child process; end it with `close`."""

    label = "Flower's simulation"
    child = (sys.executable, "-P", "-c", CHILD)

    def __init__(self, slots: int, nodes: int) -> None:
        """Start `nodes` nodes, of which `slots` train at once (0: one per core)."""
        self.nodes = nodes
        self._numbers: dict[str, int] = {}
        super().__init__(slots, str(nodes), str(slots))

    def _address(self) -> str:
        return ""  # Flower starts its own Ray cluster

    def _environment(self, folder: Path) -> dict[str, str]:
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        variables = {"FLWR_HOME": str(folder / "flwr"), "RAY_ADDRESS": "local"}
        return {**quiet, **variables, **environment(folder)}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn` on a training, its only argument; all models of a client train at its node.

        It must be safe to repeat.
        """
        if kwargs or len(args) != 1:
            raise TypeError("Values are told by place: a training and nothing else.")
        client = args[0].model_name.partition("/")[0]
        number = self._numbers.setdefault(client, len(self._numbers) % self.nodes)
        ticket, future = self._ticket()
        self._send(ticket, number, pack(fn, *args))
        return future


@contextmanager
def training_pool(slots: int, nodes: int) -> Iterator[Executor]:
    """Yield an executor with `nodes` nodes; raises Interrupted if a training dies repeatedly."""
    with until_it_dies(FlowerSimulation(slots, nodes), DIED) as simulation:
        yield simulation
