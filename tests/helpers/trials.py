"""What is tried in tests with limits; the process imports this module anew."""

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.system import sandbox


def squared(number):
    yield "the number"
    print("no answer")
    return number**2


SEEN = []


def begins(_asked):
    """Return what this process has seen, and its limits."""
    import resource

    yield "the limits"
    SEEN.append(1)
    return {
        "seen": len(SEEN),
        "folder": os.getcwd(),
        "memory": resource.getrlimit(resource.RLIMIT_DATA)[0],
        "files": sorted(os.listdir("/proc/self/fd")),
        "environment": dict(os.environ),
    }


def parent(_asked):
    yield from ()
    return os.getppid()


def without_json(_asked):
    yield from ()
    import fractions  # noqa: F401


def busy(_asked):
    yield "the clock"
    while True:
        pass


def greedy(size):
    yield "the memory"
    return len(bytearray(size))


def aborting(_asked):
    yield "the end"
    os.abort()


def leaving(_asked):
    yield "the exit"
    sys.exit(0)


def refusing(asked):
    yield "the file"
    raise InputError(f"{asked} is nothing.")


def raising(_asked):
    yield "the error"
    raise RuntimeError


def forbidden(folder):
    """Try what a trial may not do; returns what could be done."""
    done = []
    for name, do in {
        "made a file": lambda: Path(folder, "new").touch(),
        "changed a file": lambda: Path(folder, "old").write_text("changed"),
        "removed a file": lambda: Path(folder, "old").unlink(),
        "made a folder": lambda: Path(folder, "sub").mkdir(),
        "connected": lambda: socket.create_connection(("127.0.0.1", 9), timeout=5),
        "ran a program": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    }.items():
        yield name
        try:
            do()
        except PermissionError:
            continue
        except OSError:
            pass
        done.append(name)
    return done


def giving(asked):
    """Give away files: for each [place, text], the text as it is."""
    for place, text in asked:
        yield f"file {place}"
        yield sandbox.Output(place, text.encode())
    return len(asked)


def shouting(text):
    """Say what no trial says, as what runs a stranger's code could."""
    for number in range(3, 64):
        with suppress(OSError):
            os.write(number, text.encode())
    yield from ()
    return 1
