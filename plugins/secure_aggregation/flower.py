"""SecAgg+ (Bell et al., 2020) as Flower runs it, between simulated clients on this machine.

Every set that a sum is asked for is a secure round of its own, in one simulation. It runs in a
process of its own, so that what Flower and Ray leave behind (threads, environment, handlers of the
log) ends with it. docs/secure-aggregation.md says what of it is only simulated.
"""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fedaudit.api import InputError, SecureAggregation, TargetError, Update, UsageError
from fedaudit.engine.parallel.ray_cluster import RAY, environment, too_old

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MISSING = "The secure aggregation flower needs Flower: pip install 'fedaudit[flower]'."

LEVELS = 2**22
"""Flower's quantisation: a value is one of as many levels between -clipping and +clipping."""

MAX_CLIENTS = 2**32 // LEVELS - 1
"""The most clients whose levels add up without a carry out of the 32 bits of a masked value."""

START = 120.0
"""Seconds in which Flower and Ray have to start and to end, besides what the clients may take."""

CHILD = "from fedaudit_plugins.secure_aggregation import flower_protocol as p; p.main()"


def step(clipping: float) -> float:
    """Return the difference of two neighbouring levels; a client's rounding error is below it."""
    return 2 * clipping / LEVELS


@dataclass(frozen=True, kw_only=True)
class Flower(SecureAggregation):
    """Runs Flower's SecAgg+ between simulated clients; needs the extra `flower`."""

    name: ClassVar[str] = "flower"
    paper: ClassVar[str] = "Bell et al. 2020, doi:10.1145/3372297.3417885"

    threshold: int = 5
    """The fewest clients that a sum may include."""
    clipping: float = 0.0
    """Values are cut to [-clipping, clipping]; 0 takes the largest absolute value of the updates,
    which no one knows in a real run: there, a value is agreed on beforehand."""
    shares: float = 1.0
    """The fraction of a cohort that holds shares of a client's keys."""
    reconstruction: float = 0.5
    """The fraction of these shares that gives a key back."""
    timeout: float = 120.0
    """Seconds to wait for the clients, at first and in each of the four stages of a round."""

    def __post_init__(self) -> None:
        if self.threshold < 2:
            raise ValueError("threshold must be at least 2.")
        if not (0 < self.shares <= 1 and 0 < self.reconstruction <= 1):
            raise ValueError("shares and reconstruction must be above 0 and at most 1.")
        if not 0 <= self.clipping < float("inf"):
            raise ValueError("clipping must be a number of at least 0.")
        if not 0 < self.timeout < float("inf"):
            raise ValueError("timeout must be a number above 0.")

    def check(self) -> None:
        """Raise UsageError where Flower is missing or its Ray too old."""
        _check_installed()

    def add(self, updates: Mapping[str, Update], sets: Sequence[tuple[str, ...]]) -> list[Update]:
        """Return the sum over each set, to within a `step` for each of its members.

        Raises UsageError where Flower is missing, Ray too old or a set too large, InputError for an
        update that cannot be added, and TargetError when the protocol halts: no sum is left out.
        """
        if not sets:
            return []
        _check_installed()
        if (most := max(map(len, sets))) > MAX_CLIENTS:
            raise UsageError(
                f"SecAgg+ of Flower adds up at most {MAX_CLIENTS} clients, not {most}."
            )
        clients = sorted({client for members in sets for client in members})
        layout = layout_of(updates[clients[0]])
        vectors = [flatten(updates[client], layout, client) for client in clients]
        cohorts = [sorted(clients.index(client) for client in members) for members in sets]
        return [unflatten(total, layout) for total in self._run(vectors, cohorts)]

    def _run(
        self, vectors: "Sequence[NDArray[np.float32]]", cohorts: Sequence[Sequence[int]]
    ) -> "list[NDArray[np.float64]]":
        """Return the sums over cohorts of vectors, through the files of a folder of their own."""
        import numpy as np

        largest = max((float(np.abs(vector).max(initial=0.0)) for vector in vectors), default=0.0)
        plan = {
            "cohorts": cohorts,
            "clients": len(vectors),
            "clipping": float(self.clipping or largest or 1.0),
            "levels": LEVELS,
            "shares": float(self.shares),
            "reconstruction": float(self.reconstruction),
            "timeout": float(self.timeout),
        }
        with tempfile.TemporaryDirectory(prefix="fedaudit-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
            for i, vector in enumerate(vectors):
                np.save(folder / f"client-{i}.npy", vector, allow_pickle=False)
            _simulate(folder, limit=START + self.timeout * (1 + 4 * len(cohorts)))
            return [_sum(folder, number, len(cohort)) for number, cohort in enumerate(cohorts)]


def _check_installed() -> None:
    """Raise UsageError where Flower or Ray is missing, or Ray cannot keep strangers out."""
    if find_spec("flwr") is None or find_spec("ray") is None:
        raise UsageError(MISSING)
    ray_version = version("ray")
    if too_old(ray_version):
        raise UsageError(
            f"Ray {ray_version} runs what anybody on the network sends it; the secure aggregation "
            f"flower needs {RAY[0]}.{RAY[1]} or newer: pip install --upgrade 'flwr[simulation]'."
        )


def _environment(folder: Path) -> dict[str, str]:
    """Return what the simulation runs under: no telemetry, nothing written outside `folder`."""
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    quiet |= {"FLWR_HOME": str(folder / "flwr"), **environment(folder)}
    return {**os.environ, "OMP_NUM_THREADS": "1", **quiet}


def _simulate(folder: Path, limit: float) -> None:
    """Run the protocol on the plan in `folder`, for `limit` seconds at most; end all it started."""
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", CHILD, str(folder)],
            stdin=subprocess.PIPE,  # closes when this process dies, and the child with it
            stdout=log,
            stderr=log,
            env=_environment(folder),
            start_new_session=True,  # Ctrl-C is ours to handle
        )
        try:
            child.wait(limit)
        except subprocess.TimeoutExpired:
            raise TargetError(f"Flower did not end within {limit:.0f} seconds.") from None
        finally:
            _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the simulation and all of Ray: they are a process group of their own."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def _sum(folder: Path, number: int, members: int) -> "NDArray[np.float64]":
    """Return the sum of a round; raises TargetError where the protocol gave none."""
    import numpy as np

    path, problem = folder / f"sum-{number}.npy", folder / "problem"
    if path.exists():
        total: NDArray[np.float64] = np.load(path, allow_pickle=False)
        return total
    reason = problem.read_text("utf-8") if problem.exists() else "Flower gave no reason"
    raise TargetError(f"Secure aggregation halted at a sum over {members} clients: {reason}.")


Layout = Mapping[str, tuple[int, ...]]
"""The shape of each tensor by name; its order is the order in the vector."""


def layout_of(update: Update) -> Layout:
    """Return the layout of an update's vector: its names in alphabetical order."""
    return {name: tuple(update[name].shape) for name in sorted(update)}


def flatten(update: Update, layout: Layout, client: str) -> "NDArray[np.float32]":
    """Return the update of `client` as one vector, float32, in the order of `layout`.

    Raises InputError for tensors that differ from `layout` and for a value that is not finite.
    """
    import torch

    if layout_of(update) != layout:
        raise InputError(
            f"The update of {client} has other tensors than those of the other clients."
        )
    vector = torch.cat(
        [torch.zeros(0)] + [update[name].detach().cpu().float().reshape(-1) for name in layout]
    )
    if not torch.isfinite(vector).all():
        raise InputError(f"The update of {client} has a value that is not a finite number.")
    return vector.numpy()


def unflatten(vector: "NDArray[np.floating]", layout: Layout) -> Update:
    """Return the tensors, float32, that a vector of that layout holds."""
    import torch

    update, start = {}, 0
    for name, shape in layout.items():
        end = start + math.prod(shape)
        update[name] = torch.from_numpy(vector[start:end]).float().reshape(shape).clone()
        start = end
    return update
