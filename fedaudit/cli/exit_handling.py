"""Being asked to stop, and plugins that end a run which nobody asked to stop."""

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

_asked = threading.Event()


@contextmanager
def note_interrupts() -> Iterator[None]:
    """Note in the block that Ctrl-C was pressed: what raises KeyboardInterrupt may be a plugin."""
    _asked.clear()
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


@contextmanager
def handle_sigterm() -> Iterator[None]:
    """Take SIGTERM, which schedulers send, as Ctrl-C is taken: what was begun is put away."""
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
        raise PluginCrash(_told(error)) from error


def invoke_command(command: Any, words: Sequence[str]) -> int:
    """Run a command by its words and return its exit code; what goes wrong is raised.

    Typer's own runner would take a closed pipe for an error, and a plugin's sys.exit for success.
    """
    try:
        with raise_plugin_crashes(), command.make_context("fedaudit", list(words)) as context:
            return int(command.invoke(context) or 0)
    except typer.Exit as left:
        return left.exit_code


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _asked.set()
    raise KeyboardInterrupt


def _by_a_plugin(error: KeyboardInterrupt) -> bool:
    """Tell whether a plugin raised it, as far as one can know: no signal came."""
    from fedaudit.config import registry

    heard = signal.getsignal(signal.SIGINT) is _interrupt
    return heard and not _asked.is_set() and registry.plugin_behind(error) is not None


def _told(error: BaseException) -> str:
    """Say in one line what ended, and where; not with what words, which may be personal data."""
    from fedaudit.config import registry

    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    found = registry.plugin_behind(error)
    who = f"The plugin {found[0]!r} of {found[1]}" if found else "fedaudit, or a library under it,"
    return (
        f"{who} ended with {type(error).__name__}{place} in place of a result. That is a bug of "
        f"{'the plugin' if found else 'fedaudit'}, not in your input."
    )
