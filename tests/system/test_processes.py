"""Worker processes: what they return, and what their end means."""

import os

import pytest
from processes import is_running, wait_until

from fedaudit.api.errors import Interrupted
from fedaudit.system.processes import processes


def test_work_comes_back_from_other_processes():
    with processes(1, "gone") as pool:
        assert pool.submit(os.getpid).result() != os.getpid()
        assert list(pool.map(abs, [-1, 2])) == [1, 2]


def test_a_worker_that_dies_is_an_interruption_with_the_line_that_was_given():
    with (
        pytest.raises(Interrupted, match="gone for good") as caught,
        processes(1, "gone for good") as pool,
    ):
        pool.submit(os._exit, 3).result()
    assert caught.value.exit_code == 6


def failed():
    with processes(1, "gone") as pool:
        raise KeyError(pool.submit(os.getpid).result())


def test_another_error_ends_the_workers_and_comes_through():
    with pytest.raises(KeyError) as caught:
        failed()
    [worker] = caught.value.args
    wait_until(lambda: not is_running(worker))


def lock_of_bars():
    from tqdm import tqdm

    return type(tqdm.get_lock()).__module__


def test_bars_in_a_worker_make_no_semaphore_that_would_outlive_it():
    with processes(1, "gone") as pool:
        assert pool.submit(lock_of_bars).result() == "_thread"
