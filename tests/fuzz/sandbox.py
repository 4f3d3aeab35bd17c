"""What a case may do: end in a result or in one line, in 20 seconds and 2 GB, in its folder."""

import faulthandler
import os
import resource
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from fedaudit.api.errors import FedauditError
from fedaudit.system.failures import machine_failure

SECONDS, MEMORY = 20, 2 * 2**30
WAIT = 3 * SECONDS
TICKS = os.sysconf("SC_CLK_TCK")
CODES = {2, 3, 4, 5, 6}
"""What an input may end a command with; 70 is a bug."""

_CHANGES = {
    *("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.chmod"),
    *("os.truncate", "os.mkfifo", "os.mknod"),
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_HARMLESS = {"/dev/null", "/dev/urandom", "/dev/shm"}


class Hang(BaseException):
    """A case took too long; no handler of errors takes it for one."""


def _placed(event: str, place: object, arguments: tuple[object, ...]) -> object:
    """Return a name that is relative to an open folder (dir_fd) as a whole path."""
    if event in ("os.remove", "os.rmdir") and isinstance(place, str):
        folder = arguments[1]
        if isinstance(folder, int) and folder >= 0:
            return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), place)
    return place


class _Watch:
    """Hears of every file that this process opens or changes, and of every connection."""

    def __init__(self) -> None:
        self.inside: Path | None = None
        self.seen: list[str] = []
        self._begun = False

    def begin(self, inside: Path) -> None:
        if not self._begun:  # a hook cannot be taken away
            sys.addaudithook(self._hear)
            self._begun = True
        self.inside, self.seen = inside, []

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.inside is None:
            return
        if event == "open":
            self._opened(arguments[0], int(arguments[2] or 0))  # type: ignore[call-overload]
        elif event in _CHANGES:
            two = event in ("os.rename", "os.link")
            for place in arguments[: 2 if two else 1]:
                self._changed(event, _placed(event, place, arguments))
        elif event == "socket.connect":
            self.seen.append(f"{event} {arguments[1]!r}")

    def _opened(self, place: object, flags: int) -> None:
        if flags & _WRITES:
            self._changed("open", place)
        elif isinstance(place, str | bytes | os.PathLike):
            name = os.fsdecode(place)
            if name.startswith("/dev/") and name not in _HARMLESS and _is_device(name):
                self.seen.append(f"open {name}")

    def _changed(self, event: str, place: object) -> None:
        if not isinstance(place, str | bytes | os.PathLike):
            return  # a handle, whose opening was heard of
        name = os.path.abspath(os.fsdecode(place))
        inside = str(self.inside)
        if name not in _HARMLESS and name != inside and not name.startswith(f"{inside}/"):
            self.seen.append(f"{event} {name}")


def _is_device(name: str) -> bool:
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


_WATCH = _Watch()


def judged(run: Callable[[], object], inside: Path) -> str:
    """Return "result", or the class of the error that a case ended in; AssertionError otherwise.

    `inside` is the one folder in which it may write.
    """
    refused: Exception | None = None
    with _limits(), _watched(inside):
        try:
            run()
        except FedauditError as error:
            refused = error
        except OSError as error:
            if not machine_failure(error):
                raise
            refused = error
    assert not _WATCH.seen, f"outside of its folder: {_WATCH.seen[:3]}"
    if isinstance(refused, FedauditError):
        assert refused.exit_code in CODES, f"exit code {refused.exit_code}: {refused}"
        assert str(refused).strip(), "an error without a word"
    return type(refused).__name__ if refused else "result"


@contextmanager
def _watched(inside: Path) -> Iterator[None]:
    before, written = tempfile.tempdir, sys.dont_write_bytecode
    tempfile.tempdir, sys.dont_write_bytecode = str(inside), True
    _WATCH.begin(inside)
    try:
        yield
    finally:
        _WATCH.inside = None
        tempfile.tempdir, sys.dont_write_bytecode = before, written


@contextmanager
def _limits() -> Iterator[None]:
    """End what takes too long, and let no more memory be taken than a case may.

    Too long is 20 seconds of the processor, with all processes that a case starts, or three times
    that by the clock: a case that waits for a busy machine does not hang, one that waits for ever
    does.
    """
    begin, used_before = time.monotonic(), _processor_seconds()

    def late(_number: int, _frame: FrameType | None) -> None:
        used, passed = _processor_seconds() - used_before, time.monotonic() - begin
        if used >= SECONDS or passed >= WAIT:
            raise Hang(f"{used:.0f} s of the processor, {passed:.0f} s by the clock")
        signal.setitimer(signal.ITIMER_REAL, max(1.0, min(SECONDS - used, WAIT - passed)))

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = signal.signal(signal.SIGALRM, late)
    faulthandler.dump_traceback_later(
        2 * WAIT, exit=True, file=sys.__stderr__
    )  # where no signal is heard
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def _processor_seconds() -> float:
    """Return what this process and all that it started have used of the processor."""
    return sum(map(_ticks, _processes(os.getpid()))) / TICKS


def _processes(process: int) -> Iterator[int]:
    """Yield a process and all that descend from it, as long as they are there."""
    yield process
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in path.read_text().split():
                yield from _processes(int(child))


def _ticks(process: int) -> int:
    """Return the ticks of a process and of its children that have ended; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
