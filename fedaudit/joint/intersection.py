"""Private set intersection, with sets padded to public sizes.

The protocol is that of OpenMined's PSI library: elements are hashed to points of the curve P-256
and multiplied by a secret number of each side (ECDH; Meadows 1986, Huberman, Franklin & Hogg 1999),
and the larger set is sent compressed as a Golomb-coded set (Angelou et al. 2020,
https://arxiv.org/abs/2011.09350). It is secure against a party that follows the protocol and keeps
what it sees (semi-honest). The side that asks learns which of its elements the other one has, and
a bound on the size of the other set; the other one learns a bound on the number asked.

The library runs once for each bin of keys (`Elements`), so the memory is that of a bin. All bins of
a set are padded to one size.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.joint.elements import WIDTH, Elements

if TYPE_CHECKING:
    from fedaudit.joint.elements import Bin

FALSE_POSITIVES = 1e-12
"""The probability that an element that is asked seems to be common and is not."""
LEAST = 64
"""The smallest padded size of a bin."""
_LARGEST_HASH = 2**62
"""The library codes hashes as signed numbers of 64 bits; a larger range would wrap unseen."""


def padded_size(size: int) -> int:
    """Return the smallest of 64, 96, 128, 192, 256, ... that is not below `size`."""
    power = LEAST
    while power < size:
        if size <= power * 3 // 2:
            return power * 3 // 2
        power *= 2
    return power


def padded_bin(elements: Elements) -> int:
    """Return how many elements each bin of a set has when it is padded."""
    return padded_size(max(map(len, elements.bins)))


def false_positives(size: int) -> float:
    """Return the probability of a false positive in a bin of `size` elements."""
    return max(FALSE_POSITIVES, size / _LARGEST_HASH)


def _padded(keys: "Bin", size: int) -> list[str]:
    """Return the keys, and as many random ones as `size` has room for, in the library's form."""
    random_ones = (secrets.token_hex(WIDTH) for _ in range(size - len(keys)))
    return [*(key.hex() for key in keys.tolist()), *random_ones]


def library() -> Any:
    """Return OpenMined's library; raises UsageError unless it is installed."""
    try:
        import private_set_intersection.python as psi
    except ImportError:
        raise UsageError(
            "fedaudit joint needs OpenMined's PSI library: pip install 'fedaudit[joint]'."
        ) from None
    return psi


@dataclass(frozen=True, slots=True)
class Holder:
    """The side with the large set, which others ask about; `secret` must stay with it."""

    secret: bytes

    @classmethod
    def new(cls) -> "Holder":
        """Return a holder with a new secret."""
        return cls(library().server.CreateWithNewKey(True).GetPrivateKeyBytes())

    def setup(self, elements: Elements) -> list[bytes]:
        """Return the padded and encrypted set, bin by bin."""
        psi, server, size = library(), self._server(), padded_bin(elements)
        rate = false_positives(size)
        return [
            server.CreateSetupMessage(
                rate, 1, _padded(keys, size), psi.DataStructure.GCS
            ).SerializeToString()
            for keys in elements.bins
        ]

    def answer(self, request: Sequence[bytes], asked: int) -> list[bytes]:
        """Return the answer to a request of exactly `asked` elements; raises InputError if not."""
        messages = [_parse("Request", content) for content in request]
        sizes = [len(message.encrypted_elements) for message in messages]
        even = len({*sizes}) == 1 and all(one.reveal_intersection for one in messages)
        if sum(sizes) != asked or not even:
            raise InputError(
                f"A request asks {sum(sizes):,} elements{'' if even else ', unevenly'}, not the "
                f"{asked:,} that its sender committed to."
            )
        server = self._server()
        try:
            return [server.ProcessRequest(message).SerializeToString() for message in messages]
        except RuntimeError as error:
            raise InputError(f"A request cannot be answered: {error}.") from None

    def _server(self) -> Any:
        return library().server.CreateFromKey(self.secret, True)


@dataclass(frozen=True, slots=True)
class Asker:
    """The side that asks which of its elements another one has; `secret` must stay with it."""

    secret: bytes

    @classmethod
    def new(cls) -> "Asker":
        """Return an asker with a new secret."""
        return cls(library().client.CreateWithNewKey(True).GetPrivateKeyBytes())

    def request(self, elements: Elements) -> list[bytes]:
        """Return the padded and encrypted elements, bin by bin, for any number of holders."""
        client, size = self._client(), padded_bin(elements)
        return [
            client.CreateRequest(_padded(keys, size)).SerializeToString() for keys in elements.bins
        ]

    def common(
        self, elements: Elements, setup: Sequence[bytes], answer: Sequence[bytes]
    ) -> frozenset[bytes]:
        """Return which of the elements of a request the holder's set has."""
        client = self._client()
        found: set[bytes] = set()
        for keys, *contents in zip(elements.bins, setup, answer, strict=True):
            sets = _parse("ServerSetup", contents[0]), _parse("Response", contents[1])
            try:
                places = client.GetIntersection(*sets)
            except RuntimeError as error:
                raise InputError(f"An answer cannot be read: {error}.") from None
            found.update(keys[place].tobytes() for place in places if place < len(keys))
        return frozenset(found)

    def _client(self) -> Any:
        return library().client.CreateFromKey(self.secret, True)


def _parse(kind: str, content: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return getattr(library(), kind).FromString(content)
    except DecodeError:
        raise InputError(f"What should be a {kind} of the PSI library is something else.") from None
