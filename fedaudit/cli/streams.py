"""Standard output and error that raise nothing: what cannot be shown changes no result.

A closed pipe, a full disk, a closed stream or one without Unicode ends no command halfway.
"""

import codecs
import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from fedaudit.api.errors import Interrupted

if TYPE_CHECKING:
    from typing_extensions import Buffer

ESCAPED = "fedaudit.escaped"
"""The error handler that writes characters missing from the stream's encoding as JSON does."""


class _Raw(io.FileIO):
    """A stream that forgets what it cannot write, and remembers why."""

    failure: OSError | None = None

    def write(self, data: "Buffer", /) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


@dataclass
class Streams:
    """The streams of one command."""

    closed: bool
    """Whether there was no standard output from the beginning."""
    out: _Raw | None = None

    def lost(self) -> str:
        """Return why results were not shown; "" where they were, or the reader did not want more.

        Anyone who closes a pipe (`| head`) has what it wanted.
        """
        with suppress(ValueError):
            sys.stdout.flush()
        if self.closed:
            return "it is closed"
        failure = self.out.failure if self.out else None
        if failure is None or failure.errno == errno.EPIPE:
            return ""
        return failure.strerror or str(failure)

    def code(self, code: int) -> int:
        """Return the exit code of a command whose own is `code`.

        It is `code`, unless a successful command could not write its results (the disk is full):
        then it is the code of an interruption.
        """
        return code or (Interrupted.exit_code if self.lost() and not self.closed else code)


@contextmanager
def streams() -> Iterator[Streams]:
    """Replace the standard streams within the block by ones that raise nothing."""
    before = sys.stdout, sys.stderr
    command_streams = Streams(closed=sys.stdout is None)
    _fill()
    codecs.register_error(ESCAPED, _escaped)
    try:
        sys.stdout, command_streams.out = _replace_stream(sys.stdout, 1)
        sys.stderr, _ = _replace_stream(sys.stderr, 2)
        yield command_streams
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError):
                stream.flush()
        sys.stdout, sys.stderr = before


def _fill() -> None:
    """Open closed standard streams on the null device: else the next file would become one."""
    for handle in (0, 1, 2):
        try:
            os.fstat(handle)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            os.dup2(opened, handle)
            if opened > 2:
                os.close(opened)


def _replace_stream(stream: TextIO | None, handle: int) -> tuple[TextIO, _Raw | None]:
    """Return a stream on a handle in the encoding of `stream`; itself if it is not a file."""
    try:
        is_terminal = stream is not None and stream.fileno() >= 0 and stream.isatty()
    except (OSError, ValueError):  # a test's, which is in memory
        assert stream is not None
        return stream, None
    raw = _Raw(handle, "wb", closefd=False)
    text = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding if stream else "utf-8",
        errors=ESCAPED,
        line_buffering=is_terminal or handle == 2,
    )
    return text, raw


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Spell what cannot be encoded as JSON does, in UTF-16 code units."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[i : i + 2].hex() for i in range(0, len(units), 2))
    return "".join(f"\\u{pair}" for pair in pairs), error.end
