"""The process in which Flower runs: each round of the simulation is the sum over one cohort.

`main` finds plan.json and each client's vector in a folder and leaves there a sum for each cohort,
and where one is missing, why. Only here is Flower imported; nothing else imports this module.
"""

import json
import logging
import os
import shutil
import signal
import sys
import threading
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GROUP = 0
"""The number of the round before the first, in which clients say which they are."""


class Halted(Exception):
    """A round that gave no sum over its whole cohort."""


class ErrorCollector(logging.Handler):
    """Keeps every error that Flower logs in one line; those of more lines are tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it unless it is a traceback."""
        if len(lines := record.getMessage().splitlines()) == 1:
            self.lines += lines


def main() -> None:
    """Run the plan in the folder that the command line names."""
    folder, problems = Path(sys.argv[1]), ErrorCollector()
    threading.Thread(target=end_with_parent, args=(folder,), daemon=True).start()
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    try:
        from flwr.simulation import run_simulation

        logging.getLogger("flwr").addHandler(problems)
        run_simulation(
            server_app=server_app(folder, plan),
            client_app=client_app(folder),
            num_supernodes=plan["clients"],
            backend_config=backend(plan["clients"]),
        )
    except Exception as error:
        (folder / "problem").write_text(reason(error, problems.lines), "utf-8")
        raise


def reason(error: Exception, logged: Sequence[str]) -> str:
    """Return in one line what went wrong, and what Flower logged of it last."""
    lines = [*(str(error) or type(error).__name__).splitlines()[:1], *logged[-1:]]
    return "".join(c for c in "; ".join(line.rstrip(". ") for line in lines) if c.isprintable())


def end_with_parent(folder: Path) -> None:
    """End this group of processes, and leave no updates behind, if the one who asked dies."""
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def backend(clients: int) -> dict[str, dict[str, Any]]:
    """Return how Ray runs: a client a core, and reachable from this machine only."""
    cores = min(clients, os.cpu_count() or 1)
    ray = {"num_cpus": cores, "_node_ip_address": "127.0.0.1", "include_dashboard": False}
    return {"init_args": ray, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}


def read(folder: Path, number: int) -> "NDArray[np.float64]":
    """Return a client's vector; float32 would round again where Flower computes the levels."""
    import numpy as np

    vector = np.load(folder / f"client-{number}.npy", allow_pickle=False)
    return np.asarray(vector, dtype=np.float64)


def client_app(folder: Path) -> Any:
    """Return the clients: each knows its own vector and masks it as the protocol says."""
    import numpy as np
    from flwr.client import ClientApp, NumPyClient
    from flwr.client.mod import secaggplus_mod

    class FlowerClient(NumPyClient):  # type: ignore[misc]
        def __init__(self, number: int) -> None:
            self.number = number

        def get_properties(self, config: Mapping[str, Any]) -> dict[str, int]:
            return {"number": self.number}

        def fit(self, parameters: Any, config: Any) -> tuple[list[Any], int, dict[str, Any]]:
            vector = read(folder, self.number)
            # Flower rounds at random, next, in this process: a client's levels are then always
            # the same, and so are all sums, whatever the masks.
            np.random.seed(zlib.crc32(vector.tobytes()))
            return [vector], 1, {}

    def client(context: Any) -> Any:
        return FlowerClient(int(context.node_config["partition-id"])).to_client()

    return ClientApp(client_fn=client, mods=[secaggplus_mod])


def server_app(folder: Path, plan: Mapping[str, Any]) -> Any:
    """Return the server: it sees sums over cohorts only, and writes them to `folder`."""
    from flwr.server import LegacyContext, ServerApp, ServerConfig
    from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

    app = ServerApp()

    def run(grid: Any, context: Any) -> None:
        rounds = strategy(folder, plan)
        config = ServerConfig(num_rounds=len(plan["cohorts"]))
        secure = SecAggPlusWorkflow(
            num_shares=plan["shares"],
            reconstruction_threshold=plan["reconstruction"],
            max_weight=1.0,  # of a client with one example: all weigh the same, at full precision
            clipping_range=plan["clipping"],
            quantization_range=plan["levels"],
            timeout=plan["timeout"],
        )
        legacy = LegacyContext(context=context, config=config, strategy=rounds)
        DefaultWorkflow(fit_workflow=secure)(grid, legacy)
        rounds.check(config.num_rounds)

    app.main()(run)
    return app


def strategy(folder: Path, plan: Mapping[str, Any]) -> Any:
    """Return what chooses a round's cohort and keeps its sum."""
    import numpy as np
    from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server.strategy import FedAvg

    class Cohorts(FedAvg):  # type: ignore[misc]
        def __init__(self) -> None:
            nothing = ndarrays_to_parameters([])
            super().__init__(fraction_evaluate=0.0, initial_parameters=nothing)
            self.clients: dict[int, Any] = {}
            self.done = 0

        def check(self, rounds: int) -> None:
            if self.done != rounds:
                raise Halted("its round gave no sum")

        def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> Any:
            # Flower goes on with the next round after one that halted.
            self.check(server_round - 1)
            if not self.clients:
                self.clients = parties(client_manager, plan["clients"], plan["timeout"])
            cohort = plan["cohorts"][server_round - 1]
            return [(self.clients[number], FitIns(parameters, {})) for number in cohort]

        def aggregate_fit(
            self, server_round: int, results: Sequence[Any], failures: Sequence[Any]
        ) -> tuple[None, dict[str, Any]]:
            cohort = plan["cohorts"][server_round - 1]
            if failures or len(results) != len(cohort):
                raise Halted(f"only {len(results)} of its {len(cohort)} clients answered")
            (mean,) = parameters_to_ndarrays(results[0][1].parameters)
            np.save(folder / f"sum-{server_round - 1}.npy", mean * len(cohort), allow_pickle=False)
            self.done += 1
            return None, {}

    return Cohorts()


def parties(client_manager: Any, clients: int, timeout: float) -> dict[int, Any]:
    """Return every client by its number, which it is asked for; Flower's own ids are random."""
    from flwr.common import GetPropertiesIns

    if not client_manager.wait_for(clients, timeout=int(timeout) + 1):
        raise Halted(f"not all {clients} clients came within {timeout:g} seconds")
    return {
        int(proxy.get_properties(GetPropertiesIns({}), timeout, GROUP).properties["number"]): proxy
        for proxy in client_manager.all().values()
    }
