"""A fedaudit command in a forked child, which a signal may stop, and what became of it."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FinishedProcess:
    """A process that ended: exit code (negative: the signal), output, and how long it ran."""

    code: int
    output: str
    seconds: float


def run(
    words: Sequence[str], folder: Path, *, signal_number: int = 0, after: float = 0.0
) -> FinishedProcess:
    """Run fedaudit in a child process in `folder`; send it a signal `after` so many seconds."""
    log = folder / "log"
    log.write_text("")  # it may be killed before it opens it
    start = time.monotonic()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if not child:
        _exec_fedaudit(words, folder, log)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if signal_number:
        _wait(child, start + after)
        with suppress(ProcessLookupError):
            os.kill(child, signal_number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _kill_orphans(child)
    return FinishedProcess(code, log.read_text(errors="replace"), time.monotonic() - start)


def _exec_fedaudit(words: Sequence[str], folder: Path, log: Path) -> None:
    """Become fedaudit, in a process group of its own and with the handlers that a shell leaves."""
    code = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.setpgid(0, 0)
        os.chdir(folder)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(handle, stream)
        sys.argv = ["fedaudit", *words]
        from fedaudit import cli

        cli.main()
    except SystemExit as error:
        code = int(error.code or 0)
    except KeyboardInterrupt as interrupt:
        code = 128 + signal.SIGINT
        frames = traceback.extract_tb(interrupt.__traceback__)
        if any(frame.name == "invoke_command" for frame in frames):  # which must handle it
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # nothing of the parent's program may run in here


def _wait(child: int, deadline: float) -> None:
    """Wait until the deadline, or until the child has ended."""
    while (remaining := deadline - time.monotonic()) > 0:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(min(remaining, 0.02))


def _kill_orphans(group: int) -> None:
    """Kill the processes that a killed child left running."""
    for _ in range(50):
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.1)
    print(f"processes of {group} were still running after 5 s", file=sys.stderr, flush=True)
    os.killpg(group, signal.SIGKILL)
