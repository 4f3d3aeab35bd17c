"""Landlock, the Linux kernel's way for a process to give up rights, for itself and for good.

The system calls and numbers are those of the kernel's include/uapi/linux/landlock.h
(https://docs.kernel.org/userspace-api/landlock.html); C libraries have no functions for them.
"""

import ctypes
import os
import sys

_CREATE, _RESTRICT = 444, 446
_NO_NEW_PRIVILEGES = 38
_FILES = {1: 0b1_1111_1111_0011, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Rights on files, by the version that knows them: to execute, change, remove and make any."""
_NETWORK = {4: 0b11}
"""To bind and to connect over TCP."""
_SCOPES = {6: 0b11}
"""To reach other processes by abstract sockets and by signals."""


class _Rules(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


def version() -> int:
    """Return the version of Landlock that the running kernel has; 0 where it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(_CREATE, None, 0, 1))


def restrict() -> int:
    """Take from this process the right to change files, start programs and use TCP.

    Returns the version of Landlock that holds from now on: below 4 it leaves the network open, and
    0 takes nothing. Pipes and files that are open already stay usable.
    """
    abi = version()
    if not abi:
        return 0
    rules = _Rules(*(_upto(abi, rights) for rights in (_FILES, _NETWORK, _SCOPES)))
    handle = _call(_CREATE, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if handle < 0:
        return 0
    try:
        _library().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return 0 if _call(_RESTRICT, handle, 0) else abi
    finally:
        os.close(handle)


def _upto(abi: int, rights: dict[int, int]) -> int:
    return sum(bits for since, bits in rights.items() if since <= abi)


def _call(number: int, *values: object) -> int:
    arguments = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    return int(_library().syscall(ctypes.c_long(number), *arguments))


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library
