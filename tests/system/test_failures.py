"""A failure of the machine is found under the errors that libraries make of it."""

import errno
import subprocess
import sys

import pytest

from fedaudit.api.errors import InputError, Interrupted
from fedaudit.system.failures import is_machine_failure, machine_failure
from fedaudit.system.files import atomic
from fedaudit.system.tensor_files import reading_tensors


def wrapped(inner: BaseException, text: str = "a library's own") -> BaseException:
    try:
        try:
            raise inner
        except BaseException as error:
            raise ValueError(text) from error
    except ValueError as outer:
        return outer


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (wrapped(OSError(errno.ENOSPC, "full")), 6),
        (wrapped(OSError(errno.EIO, "broken")), 6),
        (wrapped(OSError(errno.ENOMEM, "little")), 3),
        (wrapped(MemoryError()), 3),
        (RuntimeError("I/O error: No space left on device (os error 28)"), 6),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), 3),
        (wrapped(FileNotFoundError(errno.ENOENT, "none", "a")), None),
        (ValueError("a bug"), None),
    ],
)
def test_what_is_found(tmp_path, error, code):
    found = machine_failure(error)
    assert (found and found.exit_code) == code
    with pytest.raises((InputError, Interrupted, type(error))) as raised, atomic(tmp_path / "a"):
        raise error
    assert getattr(raised.value, "exit_code", None) == code
    assert not list(tmp_path.iterdir())
    (tmp_path / "a").write_bytes(b"\2" + bytes(7) + b"{}")  # a file without tensors
    with pytest.raises((InputError, Interrupted)) as raised, reading_tensors(tmp_path / "a"):
        raise error
    assert raised.value.exit_code == (code or 3)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_file_that_cannot_be_written_is_told_from_bad_data(tmp_path, number):
    with pytest.raises((InputError, Interrupted)) as raised, atomic(tmp_path / "a"):
        raise OSError(number, "no")
    assert is_machine_failure(raised.value)
    assert not is_machine_failure(InputError("a.json is not JSON."))


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
@pytest.mark.parametrize(("room", "near"), [(2**24, True), (2**29, False)])
def test_a_process_that_comes_close_to_a_limit_on_memory_knows(limit, room, near):
    if sys.platform != "linux":
        pytest.skip("/proc is Linux's")
    code = f"""
import re, resource
from fedaudit.system.failures import near_memory_limit
assert not near_memory_limit()
name = {"VmPeak" if limit == "RLIMIT_AS" else "VmData"!r}
used = int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
resource.setrlimit(resource.{limit}, (used + {room}, used + {room}))
assert near_memory_limit() == {near}
"""
    subprocess.run([sys.executable, "-c", code], check=True)
