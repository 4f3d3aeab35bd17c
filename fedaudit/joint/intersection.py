"""Private set intersection, with sets padded to public sizes.

The protocol is that of OpenMined's PSI library: elements are hashed to points of the curve P-256
and multiplied by a secret number of each side (ECDH; Meadows 1986, Huberman, Franklin & Hogg 1999),
and the larger set is sent compressed as a Golomb-coded set (Angelou et al. 2020,
https://arxiv.org/abs/2011.09350). It is secure against a party that follows the protocol and keeps
what it sees (semi-honest). The side that asks learns which of its elements the other one has, and
a bound on the size of the other set; the other one learns a bound on the number asked.
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from fedaudit.api.errors import InputError, UsageError

FALSE_POSITIVES = 1e-9
"""The probability that any of the elements asked at once seems to be common and is not."""
LEAST = 1024
"""The smallest padded size."""
PADDING_BYTES = 16


def padded_size(size: int) -> int:
    """Return the smallest of 1024, 1536, 2048, 3072, 4096, ... that is not below `size`."""
    power = LEAST
    while power < size:
        if size <= power * 3 // 2:
            return power * 3 // 2
        power *= 2
    return power


def _padded(elements: Sequence[str], size: int) -> list[str]:
    """Return the elements and as many random ones as `size` has room for; none has a key's form."""
    random_ones = (secrets.token_hex(PADDING_BYTES) for _ in range(size - len(elements)))
    return [*elements, *random_ones]


def _library() -> Any:
    try:
        import private_set_intersection.python as psi
    except ImportError:
        raise UsageError(
            "fedaudit joint needs OpenMined's PSI library: pip install 'fedaudit[joint]'."
        ) from None
    return psi


def check_library() -> None:
    """Raise UsageError unless the library is installed."""
    _library()


@dataclass(frozen=True, slots=True)
class Holder:
    """The side with the large set, which others ask about; `secret` must stay with it."""

    secret: bytes

    @classmethod
    def new(cls) -> "Holder":
        """Return a holder with a new secret."""
        return cls(_library().server.CreateWithNewKey(True).GetPrivateKeyBytes())

    def setup(self, elements: Collection[str], asked: int) -> bytes:
        """Return the padded and encrypted set, to be asked for at most `asked` elements at once."""
        psi, size = _library(), padded_size(len(elements))
        message = self._server().CreateSetupMessage(
            FALSE_POSITIVES, asked, _padded(list(elements), size), psi.DataStructure.GCS
        )
        return bytes(message.SerializeToString())

    def answer(self, request: bytes, asked: int) -> bytes:
        """Return the answer to a request of exactly `asked` elements; raises InputError if not."""
        message = _parse("Request", request)
        if not message.reveal_intersection or len(message.encrypted_elements) != asked:
            raise InputError(f"A request asks {len(message.encrypted_elements):,} elements, not "
                             f"the {asked:,} that its sender committed to.")  # fmt: skip
        try:
            return bytes(self._server().ProcessRequest(message).SerializeToString())
        except RuntimeError as error:
            raise InputError(f"A request cannot be answered: {error}.") from None

    def _server(self) -> Any:
        return _library().server.CreateFromKey(self.secret, True)


@dataclass(frozen=True, slots=True)
class Asker:
    """The side that asks which of its elements another one has; `secret` must stay with it."""

    secret: bytes

    @classmethod
    def new(cls) -> "Asker":
        """Return an asker with a new secret."""
        return cls(_library().client.CreateWithNewKey(True).GetPrivateKeyBytes())

    def request(self, elements: Sequence[str]) -> bytes:
        """Return the padded and encrypted elements, for any number of holders."""
        padded = _padded(elements, padded_size(len(elements)))
        return bytes(self._client().CreateRequest(padded).SerializeToString())

    def common(self, elements: Sequence[str], setup: bytes, answer: bytes) -> frozenset[str]:
        """Return which of the elements of a request the holder's set has."""
        sets = _parse("ServerSetup", setup), _parse("Response", answer)
        try:
            places = self._client().GetIntersection(*sets)
        except RuntimeError as error:
            raise InputError(f"An answer cannot be read: {error}.") from None
        return frozenset(elements[place] for place in places if place < len(elements))

    def _client(self) -> Any:
        return _library().client.CreateFromKey(self.secret, True)


def _parse(kind: str, content: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return getattr(_library(), kind).FromString(content)
    except DecodeError:
        raise InputError(f"What should be a {kind} of the PSI library is something else.") from None
