"""What a library does with an untrusted file, tried in a process that can be killed.

A file of a kilobyte can make a library compute for years, fill the memory, or take its process
with it. So what is to be done with such a file here is done before in a process with limits: where
that ends well, it will end well here. The process has as much time and memory as it is given, and
may write no files, start no programs and use no network, as far as the system can see to that.
"""

import importlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from fedaudit.api.errors import InputError
from fedaudit.system import landlock
from fedaudit.system.files import atomic

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
    What it raises is left to whoever does the same here. `without` names modules that the process
    cannot import. Raises TrialEnded where the process did not come to an end by itself,
    and InputError where the trial does.
    """
    payload = _encode_request(trial, question, seconds, memory, without)
    wait = START + SLOW * seconds
    try:
        done = subprocess.run(
            _COMMAND,
            input=payload,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=wait,
            check=False,
        )
        code, written = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, written = -signal.SIGKILL, late.stdout or b""
    return _answer(code, list(_lines(written)), seconds, memory)


def receive(
    trial: str,
    question: Any,
    places: Sequence[Path],
    *,
    seconds: float,
    memory: int = MEMORY,
    most: int,
) -> Any:
    """Return what `attempt` does, of a trial that yields an `Output` for each of `places`.

    Each is written as it comes, whole or not at all. Raises InputError where one has over `most`
    bytes, and TrialEnded where the trial did not give them all.
    """
    with subprocess.Popen(
        _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        late = threading.Timer(START + SLOW * seconds, process.kill)
        late.start()
        try:
            with suppress(BrokenPipeError), _pipe(process.stdin) as ask:
                ask.write(_encode_request(trial, question, seconds, memory, ()))
            written, messages = _save_outputs(_pipe(process.stdout), places, most)
            process.wait()
        finally:
            late.cancel()
            process.kill()
    answer = _answer(process.returncode, messages, seconds, memory)
    if missing := [path.name for path in places if path not in written]:
        raise TrialEnded("", f"it gave no {missing[0]}")
    return answer


def _save_outputs(
    stream: IO[bytes], places: Sequence[Path], most: int
) -> tuple[set[Path], list[dict[str, Any]]]:
    """Write the files that a trial gives away; return which it gave, and its last message."""
    written, messages = set[Path](), list[dict[str, Any]]()
    for line in iter(lambda: stream.readline(LONGEST), b""):
        for message in _lines(line):
            if "bytes" in message:
                path = dict(enumerate(places))[int(message["place"])]
                _save(stream, path, int(message["bytes"]), most)
                written.add(path)
            else:
                messages = [message]
    return written, messages


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    assert end is not None  # it was asked for
    return end


def _save(source: IO[bytes], path: Path, size: int, most: int) -> None:
    """Write what a trial gives away."""
    if size > most:
        raise InputError(f"{path} would have {size:,} bytes, over {most:,}.")
    with atomic(path) as temporary, temporary.open("wb") as file:
        while size > 0 and (block := source.read(min(size, 2**20))):
            file.write(block)
            size -= len(block)
        if size > 0:
            raise TrialEnded("", "it ended within a file")


def _encode_request(
    trial: str, question: Any, seconds: float, memory: int, without: Sequence[str]
) -> bytes:
    request: Mapping[str, Any] = {
        "trial": trial.rpartition(".")[::2],
        "question": question,
        "seconds": seconds,
        "memory": memory,
        "without": list(without),
    }
    return json.dumps(request).encode()


def _lines(written: bytes) -> Iterator[dict[str, Any]]:
    for line in written.splitlines():
        with suppress(ValueError):  # the process was ended within it
            yield json.loads(line)


def _answer(code: int, messages: list[dict[str, Any]], seconds: float, memory: int) -> Any:
    last = messages[-1] if messages else {}
    if "refused" in last:
        raise InputError(str(last["refused"]))
    if "answer" in last:
        return last["answer"]
    raise TrialEnded(str(last.get("at", "")), _exit_reason(code, seconds, memory))


def _exit_reason(code: int, seconds: float, memory: int) -> str:
    late = (-signal.SIGALRM, -signal.SIGXCPU, -signal.SIGKILL)
    if code in late:
        return f"it takes over {seconds:.0f} seconds"
    room = f"it takes over {memory / 2**30:g} GiB of memory"
    if code == _NO_MEMORY:
        return room
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"{room}, or ends its process ({how})"


def serve() -> None:
    """Do the trial that stdin names, as the process that `attempt` starts."""
    request = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    sys.dont_write_bytecode = True
    vars(sys)["modules"].update(dict.fromkeys(request["without"]))  # what is None is not found
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
    module, name = request["trial"]
    trial = getattr(importlib.import_module(module), name)
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
    except Exception:  # whoever does the same without limits will see it
        say({"answer": None})


def limit(seconds: float, memory: int) -> None:
    """Put limits on this process, for good, as far as the system has them."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    trial_limits = {"DATA": memory, "CPU": math.ceil(used.ru_utime + used.ru_stime + seconds)}
    for name, most in (LIMITS | trial_limits).items():
        with suppress(ValueError, OSError, AttributeError):
            _lower(getattr(resource, f"RLIMIT_{name}"), most)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, SLOW * seconds)
    landlock.restrict()


def _lower(kind: int, most: int) -> None:
    """Set a limit of the system; a lower one that is set already stays."""
    import resource

    _, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY:
        hard = most + 1  # one more than the soft one, whose signal says which it was
    resource.setrlimit(kind, (min(most, hard), min(most + 1, hard)))


def protections(_asked: object) -> Generator[str, None, list[str]]:
    """Return the protections that hold in this process, by trying them; run it as a trial."""
    active: list[str] = []
    with suppress(ImportError):
        import resource

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
