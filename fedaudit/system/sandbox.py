"""What a stranger's file makes of a library, tried in a process that can be ended.

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
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.system import landlock

MEMORY = 3 * 2**29
"""Bytes that a trial may take."""
SLOW = 3.0
"""How much longer than its time on a processor a trial may take: other work is going on."""
START = 120.0
"""Seconds that a process may take to start and import, with all else that the machine does."""
LIMITS = {"NOFILE": 64, "FSIZE": 0, "CORE": 0}
"""Further limits of the system: open files, the size of files that are written, core dumps."""

_NO_MEMORY = 9
_COMMAND = (sys.executable, "-P", "-c", "from fedaudit.system.sandbox import serve; serve()")


class Ended(Exception):
    """A trial that took too long or too much, or its process with it; its text says which."""

    def __init__(self, at: str, why: str) -> None:
        super().__init__(f"{at}: {why}" if at else why)
        self.at, self.why = at, why


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
    does as if there were none of. Raises Ended where the process did not come to an end by itself,
    and InputError where the trial does.
    """
    asked = {
        "trial": trial.rpartition(".")[::2],
        "question": question,
        "seconds": seconds,
        "memory": memory,
        "without": list(without),
    }
    wait = START + SLOW * seconds
    try:
        done = subprocess.run(
            _COMMAND,
            input=json.dumps(asked).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=wait,
            check=False,
        )
        code, written = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, written = -signal.SIGKILL, late.stdout or b""
    return _answer(code, list(_lines(written)), seconds, memory)


def _lines(written: bytes) -> Iterator[dict[str, Any]]:
    for line in written.splitlines():
        with suppress(ValueError):  # the process was ended within it
            yield json.loads(line)


def _answer(code: int, said: list[dict[str, Any]], seconds: float, memory: int) -> Any:
    last = said[-1] if said else {}
    if "refused" in last:
        raise InputError(str(last["refused"]))
    if "answer" in last:
        return last["answer"]
    raise Ended(str(last.get("at", "")), _why(code, seconds, memory))


def _why(code: int, seconds: float, memory: int) -> str:
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
    asked = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    sys.dont_write_bytecode = True
    vars(sys)["modules"].update(dict.fromkeys(asked["without"]))  # what is None is not found
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
    module, name = asked["trial"]
    trial = getattr(importlib.import_module(module), name)
    limit(asked["seconds"], asked["memory"])
    try:
        _do(trial(asked["question"]), lambda said: print(json.dumps(said), file=out, flush=True))
    except MemoryError:
        os._exit(_NO_MEMORY)
    os._exit(0)


def _do(steps: Iterator[str], say: Callable[[dict[str, Any]], None]) -> None:
    try:
        while True:
            say({"at": next(steps)})
    except StopIteration as end:
        say({"answer": end.value})
    except InputError as error:
        say({"refused": str(error)})
    except MemoryError:
        raise
    except Exception:  # whoever does the same without limits tells it
        say({"answer": None})


def limit(seconds: float, memory: int) -> None:
    """Put limits on this process, for good, as far as the system has them."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    own = {"DATA": memory, "CPU": math.ceil(used.ru_utime + used.ru_stime + seconds)}
    for name, most in (LIMITS | own).items():
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
    """Return what holds in this process, tried: as a trial, what holds in any."""
    held: list[str] = []
    with suppress(ImportError):
        import resource

        for name, what in (("DATA", "memory"), ("CPU", "time"), ("NOFILE", "open files")):
            if resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] != resource.RLIM_INFINITY:
                held.append(f"limits on {what}")
    tries: dict[str, Callable[[], object]] = {
        "no writing": lambda: os.close(os.open(os.devnull, os.O_WRONLY)),
        "no programs": lambda: os.posix_spawn(sys.executable, [sys.executable, "-V"], {}),
        "no TCP": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1).close(),
    }
    for what, do in tries.items():
        yield what
        try:
            do()
        except PermissionError:
            held.append(what)
        except OSError:
            continue
    return held
