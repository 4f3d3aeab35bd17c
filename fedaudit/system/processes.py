"""Worker processes that work for one parent and end with it."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from fedaudit.api.errors import Interrupted


@contextmanager
def processes(count: int, broken: str) -> Iterator[Executor]:
    """Give a pool of `count` fresh processes; what goes wrong inside ends them at once.

    Raises Interrupted, saying `broken`, when one of them dies.
    """
    os.environ["PYTHONSAFEPATH"] = "1"  # processes import nothing from the working directory
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_follow_parent)
    try:
        yield pool
    except BaseException as error:
        _end(pool)
        if isinstance(error, BrokenProcessPool):
            raise Interrupted(broken) from None
        raise
    pool.shutdown()


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Let processes that start meanwhile leave Ctrl-C to this one from their first moment."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(pool: ProcessPoolExecutor) -> None:
    """End a pool's processes at once, whatever they do."""
    running = list((pool._processes or {}).values())  # noqa: SLF001, shutdown forgets them
    pool.shutdown(wait=False, cancel_futures=True)
    for process in running:
        process.terminate()


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent, and end when it does: a killed parent cannot tell its workers."""
    import threading

    from tqdm import tqdm

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The lock that libraries' bars make is a semaphore; a process that is ended leaves it behind.
    tqdm.set_lock(threading.RLock())
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
