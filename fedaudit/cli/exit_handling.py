"""Signals that ask a run to stop, and plugins that end a run unasked."""

import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from fedaudit.api.errors import PluginCrash

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
"""What commands keep that are no audits, by their words."""

_stop_requested = threading.Event()


@contextmanager
def note_interrupts() -> Iterator[None]:
    """Record Ctrl-C within the block: a KeyboardInterrupt may also come from a plugin."""
    _stop_requested.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt_received() -> bool:
    """Return whether Ctrl-C or SIGTERM came: native code may end in an error of its own for it."""
    return _stop_requested.is_set()


def interrupt_hint(arguments: Sequence[str]) -> str:
    """Say how a command goes on that was stopped outside an audit, which says so itself."""
    words = tuple(word for word in arguments if not word.startswith("-"))
    if words[:1] and words[0] in AUDITS:
        return ANSWERS if "--resume" in arguments else NO_ANSWER
    return next((hint for name, hint in GOES_ON.items() if words[: len(name)] == name), BEGINS)


@contextmanager
def handle_sigterm() -> Iterator[None]:
    """Treat SIGTERM, which schedulers send, like Ctrl-C: unfinished work is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def raise_plugin_crashes() -> Iterator[None]:
    """Raise PluginCrash for whatever else would end the process: sys.exit, a library's panic.

    Ctrl-C passes, and so does every Exception.
    """
    try:
        yield
    except (Exception, GeneratorExit):
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


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _stop_requested.set()
    raise KeyboardInterrupt


def _by_a_plugin(error: KeyboardInterrupt) -> bool:
    """Tell whether a plugin raised it, as far as one can know: no signal came."""
    from fedaudit.config import registry

    handler_active = signal.getsignal(signal.SIGINT) is _interrupt
    return (
        handler_active
        and not _stop_requested.is_set()
        and registry.plugin_behind(error) is not None
    )


def _describe_crash(error: BaseException) -> str:
    """Return one line on what ended, and where; not its message, which may be personal data."""
    from fedaudit.config import registry

    frames = traceback.extract_tb(error.__traceback__)
    location = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    plugin = registry.plugin_behind(error)
    source = (
        f"The plugin {plugin[0]!r} of {plugin[1]}" if plugin else "fedaudit, or a library under it,"
    )
    return (
        f"{source} ended with {type(error).__name__}{location} in place of a result. That is a "
        f"bug in {'the plugin' if plugin else 'fedaudit'}, not in your input."
    )
