"""The check that clients' records hold the canaries that the canary file gives them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fedaudit.api.errors import InputError
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.canaries.canary_file import CanarySet
from fedaudit.federation.folder import Federation
from fedaudit.metrics.document_frequency import document_frequency


@dataclass(frozen=True, slots=True)
class CanaryCopies:
    """The number of canaries that each client was given, and the number that its records hold."""

    given: Mapping[str, int]
    found: Mapping[str, int]
    """By client whose records are at hand, the number of canaries with all their copies."""

    def check(self, folder: object) -> None:
        """Raise InputError if a client's records lack copies of its canaries."""
        for client, count in self.found.items():
            if count < self.given[client]:
                raise InputError(
                    f"The records of {client} in {folder} lack {self.given[client] - count:,} of "
                    f"its {self.given[client]:,} canaries or copies of them, so their exposure "
                    "would mean nothing: plant them with `fedaudit canary plant` before training."
                )

    def caveats(self) -> Iterator[str]:
        """Yield a caveat about clients whose records are not at hand."""
        unknown = sorted(self.given.keys() - self.found.keys())
        if unknown:
            yield (
                f"The records of {', '.join(unknown)} are not at hand: whether the canaries were "
                "planted was not checked, and if they were not, their exposure means nothing."
            )


def count_canary_copies(
    federation: Federation | None, canaries: CanarySet, reader: InputReader
) -> CanaryCopies:
    """Return the number of canaries in the records of a federation's clients, if they are kept."""
    given: dict[str, int] = {}
    for canary in canaries.planted:
        given[canary.client] = given.get(canary.client, 0) + 1
    found: dict[str, int] = {}
    for client in federation.manifest.clients if federation else ():
        path = federation.path / client.data if federation and client.data else None
        if client.id in given and path is not None and path.is_file():
            assert federation is not None
            texts = [d.text for d in reader.corpus(path, federation.template).documents]
            own = [canary for canary in canaries.planted if canary.client == client.id]
            copies = document_frequency([canary.sentence for canary in own], texts)
            found[client.id] = sum(copies[canary.sentence] >= canary.times for canary in own)
    return CanaryCopies(given, found)
