"""Signals that ask a run to stop, and plugins that end a run unasked."""

import itertools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from fedaudit.api.errors import BUG_EXIT_CODE, PluginCrash
from fedaudit.config import registry
from fedaudit.report.redaction import make_visible
from fedaudit.system.failures import ARITY, error_text

BEGINS = "Give the same command to begin again."
NO_ANSWER, ANSWERS = (
    "No answer was kept: give the same command to begin again.",
    "The answers so far are kept: give the same command to go on with them.",
)
AUDITS = ("audit", "extract", "infer", "memorize")
GOES_ON = {
    ("simulate",): "Give the same command to go on after the last finished round.",
    ("reproduce",): "Give the same command to go on with what it has finished.",
    ("attribute", "score"): "Give the same command to go on after the last finished round.",
    ("attribute", "estimate"): "Give the same command to go on with the sets in its log.",
}
"""What commands keep that are not audits, by their words."""

TRACEBACK = "FEDAUDIT_TRACEBACK"
"""The variable that asks for the messages of errors that are bugs."""

RESEND = 0.01
"""Seconds until a signal is sent again that came where none is heard."""

_received: list[int] = []
"""The signals that asked the command to stop."""
_timers: list[threading.Timer] = []
"""Those that send a signal again."""


@contextmanager
def note_interrupts() -> Iterator[None]:
    """Record Ctrl-C and SIGTERM, which schedulers send, within the block.

    A KeyboardInterrupt may also come from a plugin. One that is raised in a finalizer or in the
    callback of a weak reference goes no further; the signal is then sent again.
    """
    _received.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as a shell starts what runs in the background
            signal.signal(number, _interrupt)
    usual = sys.unraisablehook

    def unraisable_hook(lost: "sys.UnraisableHookArgs") -> None:
        if isinstance(lost.exc_value, KeyboardInterrupt) and _received:
            _send_again(_received[-1])
        else:
            usual(lost)

    sys.unraisablehook = unraisable_hook
    try:
        yield
    finally:
        sys.unraisablehook = usual
        while _timers:
            _timers.pop().cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def finished_only() -> Iterator[None]:
    """Let the process end within the block by an error or a result, not by a plugin's `os._exit`.

    Its code would be taken for a verdict. The functions of `os` that end a process at once, or
    put another program in its place, end it with 70 and name the plugin until the block is over.
    Processes that are forked meanwhile may end as they like.
    """
    here, ending = os.getpid(), {name: getattr(os, name) for name in ("_exit", "execv", "execve")}

    def guarded(name: str) -> Callable[..., None]:
        def end(*arguments: Any) -> None:
            if os.getpid() != here:
                ending[name](*arguments)
            print(f"fedaudit: {_describe_exit(name)}", file=sys.stderr, flush=True)
            ending["_exit"](BUG_EXIT_CODE)

        return end

    modules = [os, *([sys.modules["posix"]] if "posix" in sys.modules else [])]
    for module, name in itertools.product(modules, ending):
        setattr(module, name, guarded(name))
    try:
        yield
    finally:
        for module, (name, function) in itertools.product(modules, ending.items()):
            setattr(module, name, function)


def _describe_exit(name: str) -> str:
    """Return one line on what ended the process by a function of `os`."""
    files = [frame.filename for frame in traceback.extract_stack()]
    return _describe_end(f"the process with os.{name}", registry.plugin_in(files))


def interrupt_received() -> bool:
    """Return whether Ctrl-C or SIGTERM came: native code may end in an error of its own for it."""
    return bool(_received)


def interrupt_hint(arguments: Sequence[str]) -> str:
    """Say how a command goes on that was stopped outside an audit, which says so itself."""
    words = tuple(word for word in arguments if not word.startswith("-"))
    if words[:1] and words[0] in AUDITS:
        return ANSWERS if "--resume" in arguments else NO_ANSWER
    return next((hint for name, hint in GOES_ON.items() if words[: len(name)] == name), BEGINS)


@contextmanager
def raise_plugin_crashes() -> Iterator[None]:
    """Raise PluginCrash for whatever else would end the process: sys.exit, a library's panic.

    Ctrl-C passes, and so does every Exception.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not _by_a_plugin(error):
            raise
        raise PluginCrash(_describe_crash(error)) from error


def invoke_command(command: Any, words: Sequence[str]) -> int:
    """Run a command by its words and return its exit code; what goes wrong is raised.

    Typer's own runner would take a closed pipe for an error, and a plugin's sys.exit for success.
    """
    try:
        with raise_plugin_crashes(), command.make_context("fedaudit", list(words)) as context:
            return int(command.invoke(context) or 0)
    except typer.Exit as exception:
        return exception.exit_code


def _interrupt(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    while frame is not None:
        if frame.f_code is _send_again.__code__:  # called where no exception is heard, either
            return _send_again(number)
        frame = frame.f_back
    raise KeyboardInterrupt


def _send_again(number: int) -> None:
    """Send this process a signal, once what runs now is over."""
    timer = threading.Timer(RESEND, os.kill, (os.getpid(), number))
    timer.daemon = True
    _timers.append(timer)
    timer.start()


def _by_a_plugin(error: KeyboardInterrupt) -> bool:
    """Tell whether a plugin raised it, as far as one can know: no signal came."""
    # Where signals are ignored, as in the background of a shell, none raises it.
    handler_active = signal.getsignal(signal.SIGINT) in (_interrupt, signal.SIG_IGN)
    return handler_active and not _received and registry.plugin_behind(error) is not None


def _describe_crash(error: BaseException) -> str:
    """Return one line on what ended, and where; not its message, which may be personal data."""
    frames = traceback.extract_tb(error.__traceback__)
    location = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return _describe_end(f"with {type(error).__name__}{location}", registry.plugin_behind(error))


def _describe_end(how: str, plugin: tuple[str, str] | None) -> str:
    source = (
        f"The plugin {plugin[0]!r} of {plugin[1]}" if plugin else "fedaudit, or a library under it,"
    )
    return (
        f"{source} ended {how} in place of a result. That is a bug in "
        f"{'the plugin' if plugin else 'fedaudit'}, not in your input."
    )


def print_crash(error: BaseException) -> None:
    """Print where an error came from, on stderr.

    Its message is left out: it may quote a record. TRACEBACK=1 in the environment shows it too.
    Nothing in it can steer the terminal.
    """
    shown = os.environ.get(TRACEBACK) == "1"
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in chain:
        chain.insert(0, following)
        following = following.__cause__ or (
            None if following.__suppress_context__ else following.__context__
        )
    for one in chain:
        lines = ["Traceback (most recent call last):\n", *traceback.format_tb(one.__traceback__)]
        text = error_text(one)
        if not shown and type(one).__name__ == "_RemoteTraceback":  # a worker's, as text
            text = "\n".join(line for line in text.splitlines() if line.startswith('  File "'))
        elif not shown and not (
            isinstance(one, AttributeError | NameError | ImportError)
            or (isinstance(one, TypeError) and ARITY.match(text))
        ):
            text = f"(its text, which may quote records, is shown with {TRACEBACK}=1)"
        lines.append(f"{type(one).__name__}: {text}\n")
        for line in "".join(lines).splitlines():
            print(make_visible(line), file=sys.stderr)
