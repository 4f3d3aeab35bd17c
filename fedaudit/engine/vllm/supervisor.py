"""Runs another program and ends it, with all processes that it started, at the end of stdin.

Standard input is a pipe from the parent process, so it ends with the parent, however that dies.
Ctrl-C in a terminal reaches neither the supervisor nor the program.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

GRACE = 15.0
"""Seconds between SIGTERM and SIGKILL."""


def main() -> None:
    """Run the program given by the arguments and exit with its status, 128 + n for signal n."""
    program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_end_with_input, args=(program,), daemon=True).start()
    status = program.wait()
    _signal(program, signal.SIGKILL)  # processes that outlive the program
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
