"""A Ray cluster, used through a child process, so that Ray never runs in this process.

Ray prints, handles signals, changes the environment and may end the process that it runs in. All
that happens to the child only, and ends with it.
"""

import os
import pickle
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import Any, TypeVar

from fedaudit import __version__
from fedaudit.api.errors import Interrupted, TargetError, UsageError
from fedaudit.engine.parallel.worker_pool import WorkerDied

ClusterT = TypeVar("ClusterT", bound="RayCluster")


@dataclass(frozen=True, slots=True)
class ResourceShare:
    """The CPUs and GPUs of a cluster that one engine or training takes."""

    cpus: int
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class ClusterCapacity:
    """The CPU and GPU slots of a whole cluster."""

    cpus: int
    gpus: int

    def shared(self, count: int, device: str) -> tuple[int, ResourceShare]:
        """Return the number of engines and each engine's share.

        The number is `count`, or, if that is 0, one per GPU; without GPUs, or on the device "cpu",
        one per CPU slot. Raises UsageError if `count` engines do not fit, TargetError for "cuda"
        without a GPU.
        """
        gpus = 0 if device == "cpu" else self.gpus
        if device == "cuda" and not gpus:
            raise TargetError("The Ray cluster has no GPU; leave --device out or name cpu.")
        slots = gpus or self.cpus
        if not 1 <= (count or slots) <= slots:
            kind = "GPUs" if gpus else "CPU slots"
            raise UsageError(f"The Ray cluster has {slots} {kind}: no room for {count} engines.")
        return (count or slots), (
            ResourceShare(1, 1) if gpus else ResourceShare(self.cpus // (count or slots))
        )


MISSING = "--engine ray needs Ray: pip install 'fedaudit[ray]'."

RAY = (2, 52)
"""The first version of Ray that supports token authentication."""

RAY_PATH = 40
"""The longest path of a temporary folder in which names of Ray's sockets have a legal length."""

START = 300.0
"""The time limit, in seconds, for starting or reaching Ray."""

PAUSE = 1.0
"""Seconds without a message after which it is checked whether the child still lives."""

CHILD = (sys.executable, "-P", "-c", "from fedaudit.engine.parallel.ray_worker import main; main()")
RAY_ENDED = "Ray ended unexpectedly."
DIED = (
    "A training died several times on the Ray cluster (out of memory?); give the same command to "
    "go on after the last finished round, perhaps with --engine ray:1."
)


def check(device: str = "auto") -> None:
    """Raise UsageError if Ray cannot run here, or not on this device."""
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(
            f"Ray gives every engine a GPU of its own: with --engine ray, --device is cpu, cuda or "
            f"auto, not {device}."
        )
    try:
        ray_version = version("ray")
    except PackageNotFoundError:
        raise UsageError(MISSING) from None
    if too_old(ray_version):
        raise UsageError(
            f"Ray {ray_version} runs what anybody on the network sends it; --engine ray needs "
            f"{RAY[0]}.{RAY[1]} or newer: pip install --upgrade 'fedaudit[ray]'."
        )


def too_old(ray_version: str) -> bool:
    """Tell whether this version of Ray lacks token authentication."""
    return tuple(int(x) for x in ray_version.split(".")[:2]) < RAY


def environment(folder: Path) -> dict[str, str]:
    """Return the environment variables of a Ray cluster that fedaudit starts.

    They turn telemetry off and let Ray write into `folder` if its path is short enough. Ray listens
    on every network interface and runs any code it is sent, so a random token is required.
    """
    quiet = {"RAY_USAGE_STATS_ENABLED": "0"}
    quiet |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if len(str(folder)) <= RAY_PATH:
        quiet["RAY_TMPDIR"] = str(folder)
    return quiet


def address() -> str:
    """Return the address of the running cluster in RAY_ADDRESS; empty if there is none."""
    named = os.environ.get("RAY_ADDRESS", "")
    return "" if named == "local" else named


class RayCluster(Executor):
    """The running cluster that RAY_ADDRESS names, or else a new, private one on this machine.

    It runs functions in any process (`submit`), or in numbered ones that stay, as a WorkerPool has
    them. Release it with `close`. Raises TargetError if Ray cannot be started or reached.
    """

    label = "Ray"
    child = CHILD
    share = ResourceShare(1)
    """What each process takes."""

    def __init__(self, slots: int = 0, *arguments: str) -> None:
        self._joins = bool(self._address())
        self._folder = Path(tempfile.mkdtemp(prefix="fedaudit-"))  # only this user can read it
        variables = {} if self._joins else self._environment(self._folder)
        parent_socket, child_socket = socketpair()
        slots = max(slots, len(os.sched_getaffinity(0)))
        with child_socket:
            self._child = subprocess.Popen(
                [
                    *self.child,
                    str(child_socket.fileno()),
                    str(slots),
                    str(self._folder),
                    *arguments,
                ],
                pass_fds=[child_socket.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self._folder,  # Ray lets workers import from here, so it is empty
                env={**os.environ, **variables},
                start_new_session=True,  # only this process handles Ctrl-C
            )
        self._connection = Connection(parent_socket.detach())
        self._waiting: dict[int, Future[Any]] = {}
        self._tickets = 0
        try:
            self.room = self._await_start()
        except BaseException:
            self.close()
            raise
        self._reader = threading.Thread(
            target=_read, args=(self._connection, self._child.pid, self._waiting), daemon=True
        )
        self._reader.start()

    def _address(self) -> str:
        """Return the address of a running cluster; empty if the child starts one."""
        return address()

    def _environment(self, folder: Path) -> dict[str, str]:
        """Return further environment variables of a child that starts a cluster."""
        return environment(folder)

    def start(self) -> tuple[int, "Future[Any]"]:
        """Start an actor process; return its number and a future that is done once it runs."""
        ticket, future = self._ticket()
        self._send("start", ticket, self.share.cpus, self.share.gpus)
        return ticket, future

    def stop(self, worker: int) -> None:
        """End an actor process."""
        self._send("stop", worker)

    def ask(
        self, worker: int, question: tuple[Callable[..., Any], *tuple[Any, ...]]
    ) -> "Future[Any]":
        """Call a question's function in an actor process; return a future of the result."""
        ticket, future = self._ticket()
        self._send("ask", ticket, worker, pack(*question))
        return future

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run `fn`, which must be safe to run twice, in any process, and in another if that dies.

        The future raises WorkerDied if it has died several times.
        """
        if kwargs:
            raise TypeError("Values are told by place.")
        ticket, future = self._ticket()
        self._send("run", ticket, self.share.cpus, self.share.gpus, pack(fn, *args))
        return future

    def close(self) -> None:
        """End all processes that were started, leave a joined cluster, and delete the folder."""
        if self._joins and self._child.poll() is None:
            with suppress(Exception):
                self._connection.send(("end",))
                self._child.wait(10)
        self._child.kill()
        if not self._joins:  # the child is not reaped yet, so its PID is still its own
            end_session(self._child.pid)
        self._child.wait()
        if (reader := getattr(self, "_reader", None)) and reader is not threading.current_thread():
            reader.join(10)
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _await_start(self) -> ClusterCapacity:
        try:
            reply = self._connection.recv() if self._connection.poll(START) else "it takes too long"
        except EOFError:
            reply = "its process ended"
        if isinstance(reply, str):
            done = "reached" if self._joins else "started"
            raise TargetError(f"{self.label} cannot be {done}: {reply.rstrip('.')}.")
        return ClusterCapacity(*reply)

    def _ticket(self) -> tuple[int, "Future[Any]"]:
        self._tickets += 1
        self._waiting[self._tickets] = future = Future[Any]()
        return self._tickets, future

    def _send(self, *message: Any) -> None:
        try:
            self._connection.send(message)
        except OSError:
            raise Interrupted(RAY_ENDED) from None


def end_session(session: int) -> None:
    """Kill all processes of a session except this one.

    They cannot be killed by process group, since Ray gives each worker its own. A process that
    outlives its log folder would create the folder again.
    """
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            if os.getsid(int(entry.name)) == session and int(entry.name) != os.getpid():
                os.kill(int(entry.name), signal.SIGKILL)


def pack(work: Callable[..., Any], *values: Any) -> bytes:
    """Return a pickled call for a worker, with fedaudit's version and the current folder."""
    return pickle.dumps((__version__, str(Path.cwd()), pickle.dumps((work, values))))


def _read(connection: Connection, child: int, waiting: dict[int, "Future[Any]"]) -> None:
    """Set the results of futures until the child ends, and fail those that are left.

    A process that the child forked may hold the connection open, so the end of the child does not
    always close the connection.
    """
    with suppress(EOFError, OSError):
        while connection.poll(PAUSE) or not _has_ended(child):
            if not connection.poll():
                continue
            ticket, kind, content = connection.recv()
            future = waiting.pop(ticket)
            if kind == "answer":
                answer, error = pickle.loads(content)
                future.set_exception(error) if error else future.set_result(answer)
            elif kind == "lost":
                future.set_exception(WorkerDied(content))
            else:
                future.set_exception(TargetError(f"The Ray cluster cannot work: {content}."))
    for future in list(waiting.values()):
        future.set_exception(Interrupted(RAY_ENDED))


def _has_ended(child: int) -> bool:
    """Tell whether a child process has ended, without reaping it."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@contextmanager
def training_pool(count: int, device: str) -> Iterator[Executor]:
    """Yield an executor on a cluster; raises Interrupted if a training dies repeatedly."""
    with until_it_dies(RayCluster(count), DIED) as cluster:
        _, cluster.share = cluster.room.shared(count, device)
        yield cluster


@contextmanager
def until_it_dies(cluster: ClusterT, died: str) -> Iterator[ClusterT]:
    """Yield a cluster and close it; raises Interrupted, saying `died`, if work dies repeatedly."""
    try:
        yield cluster
    except WorkerDied:
        raise Interrupted(died) from None
    finally:
        cluster.close()
