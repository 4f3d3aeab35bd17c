"""What a library does with an untrusted file, tried in a process that can be killed.

A file of a kilobyte can make a library compute for years, fill the memory, or take its process
with it. So what is to be done with such a file here is done before in a process with limits: where
that ends well, it will end well here. The process has as much time and memory as it is given, and
may write no files, start no programs and use no network, as far as the system can see to that.

To import what a trial needs takes seconds. On Linux it is done once: each trial has a fork of a
process that has imported it and has seen nothing of any trial.

The system calls and numbers are those of the kernel's include/uapi/linux/landlock.h
(https://docs.kernel.org/userspace-api/landlock.html); C libraries have no functions for them.
"""

import atexit
import ctypes
import importlib
import json
import math
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from fedaudit.api.errors import InputError
from fedaudit.system.files import atomic

_CREATE, _RESTRICT = 444, 446
_NO_NEW_PRIVILEGES = 38
_FILES = {1: 0b1_1111_1111_0011, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Rights on files, by the version that knows them: to execute, change, remove and make any."""
_NETWORK = {4: 0b11}
"""To bind and to connect over TCP."""
_SCOPES = {6: 0b11}
"""To reach other processes by abstract sockets and by signals."""


class _Rules(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


def version() -> int:
    """Return the version of Landlock that the running kernel has; 0 where it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(_CREATE, None, 0, 1))


def restrict() -> int:
    """Take from this process the right to change files, start programs and use TCP.

    Returns the version of Landlock that holds from now on: below 4 it leaves the network open, and
    0 takes nothing. Pipes and files that are open already stay usable.
    """
    abi = version()
    if not abi:
        return 0
    rules = _Rules(*(_upto(abi, rights) for rights in (_FILES, _NETWORK, _SCOPES)))
    handle = _call(_CREATE, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if handle < 0:
        return 0
    try:
        _library().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return 0 if _call(_RESTRICT, handle, 0) else abi
    finally:
        os.close(handle)


def _upto(abi: int, rights: dict[int, int]) -> int:
    return sum(bits for since, bits in rights.items() if since <= abi)


def _call(number: int, *values: object) -> int:
    arguments = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    return int(_library().syscall(ctypes.c_long(number), *arguments))


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


MEMORY = 2**30
"""Bytes that a trial may take."""
SLOW = 3.0
"""How much longer than its time on a processor a trial may take: other work is going on."""
START = 120.0
"""Seconds that a process may take to start and import, with all else that the machine does."""
LIMITS = {"NOFILE": 64, "FSIZE": 0, "CORE": 0}
"""Further limits of the system: open files, the size of files that are written, core dumps."""

LONGEST = 2**28
"""Bytes of what a trial may say at once, but for what it gives away."""

FORKS = sys.platform == "linux"
"""Whether trials are forks of one process; elsewhere each has a process that starts anew."""
_CODE_BYTES = 4
_NO_MEMORY = 9
_COMMAND = (sys.executable, "-P", "-c", "from fedaudit.system.sandbox import serve; serve()")


class TrialEnded(Exception):
    """A trial that took too long or too much, or its process with it; its text says which."""

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(f"{step}: {reason}" if step else reason)
        self.step, self.reason = step, reason


class Output(NamedTuple):
    """A file that a trial gives away by yielding it: its place among those asked for."""

    position: int
    data: bytes


def attempt(
    trial: str,
    question: Any,
    *,
    seconds: float,
    memory: int = MEMORY,
    without: Sequence[str] = (),
) -> Any:
    """Return what a trial returns in a process with limits; None where it raised an exception.

    A trial is a function, by its module and name: it is given what JSON can hold, yields what it is
    about to open, and returns what JSON can hold. Its module is imported before there are limits.
    What it raises, the caller will meet in doing the same. `without` names modules that the process
    cannot import. Raises TrialEnded where the process did not come to an end by itself, and
    InputError where the trial does.
    """
    return receive(trial, question, (), seconds=seconds, memory=memory, most=0, without=without)


def receive(
    trial: str,
    question: Any,
    places: Sequence[Path],
    *,
    seconds: float,
    memory: int = MEMORY,
    most: int,
    without: Sequence[str] = (),
) -> Any:
    """Return what `attempt` does, of a trial that yields an `Output` for each of `places`.

    Each is written as it comes, whole or not at all. Raises InputError where one has over `most`
    bytes, and TrialEnded where the trial did not give them all.
    """
    module, _, name = trial.rpartition(".")
    request = {
        "trial": name,
        "question": question,
        "seconds": seconds,
        "memory": memory,
        "folder": str(Path.cwd()),
    }
    start = _in_fork if FORKS else _in_new_process
    with start(module, tuple(without), START + SLOW * seconds) as (asked, said, exit_code):
        with suppress(BrokenPipeError), asked:
            asked.write(json.dumps(request).encode())
        with said:
            written, messages = _save_outputs(said, places, most)
        code = exit_code()
    answer = _answer(code, messages, seconds, memory)
    if missing := [path.name for path in places if path not in written]:
        raise TrialEnded("", f"it gave no {missing[0]}")
    return answer


_Running = tuple[IO[bytes], IO[bytes], Callable[[], int]]
"""Where a trial's request is written, where its messages are read, and what waits for its end."""


@contextmanager
def _in_new_process(module: str, without: tuple[str, ...], wait: float) -> Iterator[_Running]:
    with subprocess.Popen(
        (*_COMMAND, module, *without),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        late = threading.Timer(wait, process.kill)
        late.start()
        try:
            assert process.stdin is not None  # asked for
            assert process.stdout is not None
            yield process.stdin, process.stdout, process.wait
        finally:
            late.cancel()
            process.kill()


class _Host:
    """A process that has imported a trial's module and opened no file of a stranger.

    It forks a child for each trial, one at a time, so that only the first waits for the imports.
    """

    def __init__(self, module: str, without: tuple[str, ...]) -> None:
        self.control, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                (*_COMMAND, module, *without),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def fork(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return the ends of the pipes that a new child reads from and writes to."""
        (theirs_in, asked), (said, theirs_out) = os.pipe(), os.pipe()
        try:
            with suppress(ConnectionError):  # it has ended, and `exit_code` says how
                socket.send_fds(self.control, [b"+"], [theirs_in, theirs_out])
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return os.fdopen(asked, "wb"), os.fdopen(said, "rb")

    def exit_code(self) -> int:
        """Return the child's exit code, or the host's own if that ended."""
        with suppress(ConnectionError):
            if code := self.control.recv(_CODE_BYTES):
                return int.from_bytes(code, signed=True)
        return self.process.wait()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self.process.wait()
        self.control.close()


_hosts: dict[tuple[str, tuple[str, ...]], _Host] = {}
_hosts_lock = threading.Lock()


@contextmanager
def _in_fork(module: str, without: tuple[str, ...], wait: float) -> Iterator[_Running]:
    with _hosts_lock:
        host = _hosts.pop((module, without), None)
        if host and host.process.poll() is not None:  # ended meanwhile
            host.close()
            host = None
        host = host or _Host(module, without)
        late = threading.Timer(wait, host.kill)
        late.start()
        try:
            yield *host.fork(), host.exit_code
        except BaseException:
            host.close()
            raise
        finally:
            late.cancel()
        if host.process.poll() is None:
            _hosts[module, without] = host
        else:
            host.close()


def _end_hosts() -> None:
    while _hosts:
        _hosts.popitem()[1].close()


def _forget_hosts() -> None:
    """Leave the hosts of a process to it, in its fork."""
    global _hosts_lock  # noqa: PLW0603, a thread that there is no longer may hold it
    _hosts_lock = threading.Lock()
    while _hosts:
        host = _hosts.popitem()[1]
        host.control.close()
        host.process.returncode = 0


atexit.register(_end_hosts)
if FORKS:
    os.register_at_fork(after_in_child=_forget_hosts)


def _save_outputs(
    stream: IO[bytes], places: Sequence[Path], most: int
) -> tuple[set[Path], list[dict[str, Any]]]:
    """Write the files that a trial gives away; return which it gave, and its last message."""
    written, messages = set[Path](), list[dict[str, Any]]()
    for line in iter(lambda: stream.readline(LONGEST), b""):
        for message in _lines(line):
            if "bytes" in message:
                path, size = _place(message, places)
                _save(stream, path, size, most)
                written.add(path)
            else:
                messages = [message]
    return written, messages


def _place(message: dict[str, Any], places: Sequence[Path]) -> tuple[Path, int]:
    """Return where a file goes and its bytes; TrialEnded for what no trial of ours says."""
    position, size = message.get("place"), message["bytes"]
    if isinstance(position, int) and isinstance(size, int) and size >= 0:
        with suppress(IndexError):
            return places[position if position >= 0 else len(places)], size
    raise TrialEnded("", "it named a file that was not asked for")


def _save(source: IO[bytes], path: Path, size: int, most: int) -> None:
    if size > most:
        raise InputError(f"{path} would have {size:,} bytes, over {most:,}.")
    with atomic(path) as temporary, temporary.open("wb") as file:
        while size > 0 and (block := source.read(min(size, 2**20))):
            file.write(block)
            size -= len(block)
        if size > 0:
            raise TrialEnded("", "it ended within a file")


def _lines(written: bytes) -> Iterator[dict[str, Any]]:
    for line in written.splitlines():
        with suppress(ValueError):  # the process was ended within it
            if isinstance(message := json.loads(line), dict):
                yield message


def _answer(code: int, messages: list[dict[str, Any]], seconds: float, memory: int) -> Any:
    last = messages[-1] if messages else {}
    if "refused" in last:
        raise InputError(str(last["refused"]))
    if "answer" in last:
        return last["answer"]
    raise TrialEnded(str(last.get("at", "")), _exit_reason(code, seconds, memory))


def _exit_reason(code: int, seconds: float, memory: int) -> str:
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    with suppress(ValueError):  # a real-time signal has no name
        how = signal.Signals(-code).name
    if how in ("SIGALRM", "SIGXCPU", "SIGKILL"):
        return f"it takes over {seconds:.0f} seconds"
    room = f"it takes over {memory / 2**30:g} GiB of memory"
    if code == _NO_MEMORY:
        return room
    return f"{room}, or ends its process ({how})"


def serve() -> None:
    """Import the module that the command line names and do trials, as the process of a trial."""
    name, *without = sys.argv[1:]
    sys.dont_write_bytecode = True
    vars(sys)["modules"].update(dict.fromkeys(without))  # what is None is not found
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
    module = importlib.import_module(name)
    if not FORKS:
        _run_trial(module)
    control = socket.socket(fileno=os.dup(0))
    while ends := socket.recv_fds(control, 1, 2)[1]:
        if not (child := os.fork()):
            control.close()
            for standard, end in enumerate(ends):
                os.dup2(end, standard)
                os.close(end)
            _run_trial(module)
        for end in ends:
            os.close(end)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        control.sendall(code.to_bytes(_CODE_BYTES, signed=True))


def _run_trial(module: object) -> NoReturn:
    """Do the trial that stdin asks for, with limits, and end this process."""
    request = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print, too, and that must not be read as an answer
    os.chdir(request["folder"])
    trial = getattr(module, request["trial"])
    limit(request["seconds"], request["memory"])
    try:
        _send_steps(trial(request["question"]), out)
    except MemoryError:
        os._exit(_NO_MEMORY)
    os._exit(0)


def _send_steps(steps: Iterator[str | Output], out: IO[bytes]) -> None:
    def say(message: dict[str, Any], data: bytes = b"") -> None:
        out.write(json.dumps(message).encode() + b"\n" + data)
        out.flush()

    try:
        while True:
            step = next(steps)
            if isinstance(step, Output):
                say({"place": step.position, "bytes": len(step.data)}, step.data)
            else:
                say({"at": step})
    except StopIteration as end:
        say({"answer": end.value})
    except InputError as error:
        say({"refused": str(error)})
    except MemoryError:
        raise
    except Exception:  # the caller meets it without limits
        say({"answer": None})


def limit(seconds: float, memory: int) -> None:
    """Put limits on this process, for good, as far as the system has them."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    trial_limits = {"DATA": memory, "CPU": math.ceil(used.ru_utime + used.ru_stime + seconds)}
    for name, most in (LIMITS | trial_limits).items():
        with suppress(ValueError, OSError, AttributeError):
            _lower(getattr(resource, f"RLIMIT_{name}"), most)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, SLOW * seconds)
    restrict()


def _lower(kind: int, most: int) -> None:
    """Set a limit of the system; a lower one that is set already stays."""
    _, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY:
        hard = most + 1  # one more than the soft one, whose signal says which it was
    resource.setrlimit(kind, (min(most, hard), min(most + 1, hard)))


def protections(_asked: object) -> Generator[str, None, list[str]]:
    """Return the protections that hold in this process, by trying them; run it as a trial."""
    active: list[str] = []
    for name, label in (("DATA", "memory"), ("CPU", "time"), ("NOFILE", "open files")):
        if resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] != resource.RLIM_INFINITY:
            active.append(f"limits on {label}")
    tries: dict[str, Callable[[], object]] = {
        "no writing": lambda: os.close(os.open(os.devnull, os.O_WRONLY)),
        "no programs": lambda: os.posix_spawn(sys.executable, [sys.executable, "-V"], {}),
        "no TCP": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1).close(),
    }
    for label, do in tries.items():
        yield label
        try:
            do()
        except PermissionError:
            active.append(label)
        except OSError:
            continue
    return active
