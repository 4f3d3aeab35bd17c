"""The child process that talks to Ray for an audit, and the code that Ray's workers run.

Work and results pass through Ray as opaque bytes, and errors as results, so that nothing private
gets into Ray's logs.
"""

import os
import pickle
import shutil
import sys
import traceback
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

from fedaudit import __version__
from fedaudit.api.errors import InputError
from fedaudit.engine.parallel.ray_cluster import address, end_session
from fedaudit.engine.parallel.worker_pool import ATTEMPTS, portable_error
from fedaudit.system.failures import first_line

STORE = 256 * 2**20
"""The size of the object store of a Ray cluster started here, in bytes."""


def main() -> None:
    """Serve the parent process at the other end of a socket until either process ends."""
    descriptor, slots, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    os.set_inheritable(descriptor, False)
    try:
        _serve(Connection(descriptor), slots)
    finally:  # the parent may have ended without cleaning up
        end_session(os.getpid())  # this process leads its own session
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def _serve(connection: Connection, slots: int) -> None:
    try:
        ray: Any = import_module("ray")
        if address():
            ray.init(log_to_driver=False, logging_level="error")
        else:
            _begin(ray, slots)
        resources = ray.cluster_resources()
    except Exception as error:
        connection.send(error_line(error))
        return
    connection.send((int(resources.get("CPU", 0)), int(resources.get("GPU", 0))))
    with suppress(EOFError):
        RayRelay(ray, connection).serve()
    if address():
        ray.shutdown()


def _begin(ray: Any, slots: int) -> None:
    """Start a local Ray cluster, retrying since Ray gives up early on a busy machine."""
    ours = {"num_cpus": slots, "include_dashboard": False, "object_store_memory": STORE}
    for remaining in reversed(range(ATTEMPTS)):
        try:
            ray.init(address="local", log_to_driver=False, logging_level="error", **ours)
            return
        except Exception:
            if not remaining:
                raise
            ray.shutdown()
            end_session(os.getpid())


def error_line(error: BaseException) -> str:
    """Return an error's message as one line of printable characters."""
    return "".join(filter(str.isprintable, first_line(error)))


class RayActor:
    """A long-lived process, whose loaded engine stays in memory for the next call."""

    def ping(self) -> bytes:
        """Return an empty result; it arrives once the process has started."""
        return pickle.dumps((None, None))

    def run(self, work: bytes) -> bytes:
        """Return the packed result of packed work."""
        return run_packed(work)


def run_packed(work: bytes) -> bytes:
    """Run packed work and return its packed result, or the packed error that it raised."""
    try:
        return pickle.dumps((_done(work), None))
    except Exception as error:
        error.add_note(f"On the Ray cluster:\n{traceback.format_exc()}")
        return pickle.dumps((None, portable_error(error)))


def _done(work: bytes) -> Any:
    ours, folder, packed = pickle.loads(work)
    if ours != __version__:
        raise InputError(
            f"A machine of the Ray cluster has fedaudit {__version__}, not {ours} as this one."
        )
    try:
        os.chdir(folder)
    except OSError:
        raise InputError(
            f"A machine of the Ray cluster has no folder {folder}: all need the same files."
        ) from None
    function, values = pickle.loads(packed)
    return function(*values)


class RayRelay:
    """Carries out the parent's commands with Ray and sends back their results."""

    def __init__(self, ray: Any, connection: Connection) -> None:
        self.ray, self.connection = ray, connection
        self._places: dict[int, Any] = {}
        self._lock = Lock()

    def serve(self) -> None:
        """Carry out commands until "end"; raises EOFError if the parent process has ended."""
        while (message := self.connection.recv()) != ("end",):
            self._handle(*message)

    def _handle(self, command: str, number: int, *arguments: Any) -> None:
        if command == "stop":
            self.ray.kill(self._places.pop(number))
        elif command == "start":
            cpus, gpus = arguments
            actor_class = self.ray.remote(RayActor).options(
                num_cpus=cpus, num_gpus=gpus, max_restarts=0
            )
            self._places[number] = actor = actor_class.remote()
            self._tell(number, actor.ping.remote())
        elif command == "ask":
            actor, work = arguments
            self._tell(number, self._places[actor].run.remote(work))
        else:
            cpus, gpus, work = arguments
            run = self.ray.remote(run_packed).options(
                num_cpus=cpus, num_gpus=gpus, max_retries=ATTEMPTS - 1
            )
            self._tell(number, run.remote(work))

    def _tell(self, ticket: int, reference: Any) -> None:
        reference.future().add_done_callback(lambda future: self._send_result(ticket, future))

    def _send_result(self, ticket: int, future: "Future[bytes]") -> None:
        error = future.exception()
        if error is None:
            message: tuple[Any, ...] = (ticket, "answer", future.result())
        elif _is_lost(self.ray.exceptions, error):
            message = (ticket, "lost", type(error).__name__)
        else:
            message = (ticket, "failed", error_line(error))
        with self._lock, suppress(OSError):
            self.connection.send(message)


def _is_lost(exceptions: Any, error: BaseException) -> bool:
    """Tell whether a process or its result was lost: any Ray error except one in the work."""
    return isinstance(error, exceptions.RayError) and not isinstance(error, exceptions.RayTaskError)
