"""Runs another program, and ends it with all that it started when standard input ends.

Standard input is a pipe from the process that wants the program: it ends with that process, however
that dies. Ctrl-C in a terminal reaches neither of the two.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

GRACE = 15.0
"""Seconds within which the program must end by itself."""


def main() -> None:
    """Run the program that the arguments name; exit with its status."""
    program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_end_with_input, args=(program,), daemon=True).start()
    status = program.wait()
    _signal(program, signal.SIGKILL)  # what it has left behind
    os._exit(status if status >= 0 else 128 - status)


def _end_with_input(program: "subprocess.Popen[bytes]") -> None:
    sys.stdin.buffer.read()
    _signal(program, signal.SIGTERM)
    try:
        program.wait(GRACE)
    except subprocess.TimeoutExpired:
        _signal(program, signal.SIGKILL)


def _signal(program: "subprocess.Popen[bytes]", number: int) -> None:
    """Send a signal to a program's whole session."""
    with suppress(ProcessLookupError):
        os.killpg(program.pid, number)


if __name__ == "__main__":
    main()
