"""A set of keys in arrays: 16 bytes a key, where a Python set takes 200."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bin = NDArray[np.void]

WIDTH = 16
"""The bytes of a key."""
BINS = 16
"""How many bins a set is divided into, by the first bits of its keys."""
_AT_ONCE = 2**22
"""How many keys wait, with repetitions, until they are sorted into the bins."""


class Elements:
    """A set of keys of `WIDTH` bytes, each in the bin that its first bits name."""

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        import numpy as np

        self._bins: list[Bin] = [np.empty(0, f"V{WIDTH}")] * BINS
        self._waiting = bytearray()
        self.update(keys)

    def update(self, keys: Iterable[bytes]) -> None:
        """Add keys, each of `WIDTH` bytes and evenly distributed, as digests are."""
        self._waiting += b"".join(keys)
        if len(self._waiting) >= _AT_ONCE * WIDTH:
            self._sort()

    @property
    def bins(self) -> "list[Bin]":
        """The distinct keys of each bin, in ascending order."""
        self._sort()
        return self._bins

    def __len__(self) -> int:
        return sum(map(len, self.bins))

    def _sort(self) -> None:
        import numpy as np

        waiting = np.sort(np.frombuffer(self._waiting, f"V{WIDTH}"))
        self._waiting = bytearray()
        bins = waiting.view(np.uint8)[::WIDTH] // (256 // BINS)
        pieces = np.split(waiting, np.searchsorted(bins, range(1, BINS)))
        for i, piece in enumerate(pieces):
            self._bins[i] = np.union1d(self._bins[i], piece)
