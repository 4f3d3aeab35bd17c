"""What a member compares: its records, those that it set aside, and its canaries."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document
from fedaudit.canaries.canary_file import Canary, CanarySet
from fedaudit.metrics.privacy import text_baseline
from fedaudit.pii.normalized_search import fold

Unit = tuple[Document, ...]
"""The records of a group (a person, a case), or one record that has no group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRecords:
    """What every round's model is asked about; nothing of it depends on a model."""

    own: tuple[Unit, ...]
    held_out: tuple[Unit, ...]
    canaries: CanarySet | None = None
    """The whole file, other clients' canaries included: no reference may be a planted secret."""
    clients: frozenset[str] = frozenset()
    """The clients of whose canaries the own records hold every copy."""
    heading: str = ""
    """What stands before the sentence of a canary in training."""
    references: int
    """The number of secrets that each canary is ranked among, itself not counted."""
    refusal: str = ""
    """Why own and held-out records cannot be compared; empty if they can."""
    seed: int = 0

    @property
    def unit(self) -> str:
        """What is counted: "group" if any record has one, else "record"."""
        return "group" if any(d.group for unit in self.own for d in unit) else "record"

    @property
    def documents(self) -> list[Document]:
        """The member's own records."""
        return [document for unit in self.own for document in unit]

    @property
    def own_canaries(self) -> list[Canary]:
        """The canaries that are counted: those planted in the own records."""
        planted = self.canaries.planted if self.canaries else ()
        return [canary for canary in planted if canary.client in self.clients]

    @property
    def limits(self) -> tuple[str, ...]:
        """The caveat about canaries of other clients, if the file has any."""
        planted = len(self.canaries.planted) if self.canaries else 0
        if others := planted - len(self.own_canaries):
            return (
                f"Of the {planted:,} planted canaries in the file, the {len(self.own_canaries):,} "
                f"that the own records hold were counted; the other {others:,} are other clients'.",
            )
        return ()


def watched_records(
    own: Iterable[Document],
    held_out: Sequence[Document],
    canaries: CanarySet | None = None,
    *,
    heading: str = "",
    references: int,
    seed: int = 0,
) -> WatchedRecords:
    """Return what is compared: every text once, held-out ones only of texts and groups not in own.

    Sets that can be told apart by their texts alone are not comparable (Das et al. 2024,
    arXiv:2406.16201), and `refusal` says so. Raises InputError if a side is empty, if own records
    lack the canaries, and if fewer secrets are left than references.
    """
    own = list(own)
    clients = _planted_clients(canaries, [document.text for document in own]) if canaries else ()
    sentences = {heading + canary.sentence for canary in canaries.planted} if canaries else set()
    inside = {d.text: d for d in own if not d.is_prompt and d.text not in sentences}
    # What was trained on is not a control: a text on both sides, and other records of its group.
    trained = {fold(text) for text in inside}
    groups = {d.group for d in inside.values()} - {""}
    outside = {
        d.text: d
        for d in held_out
        if not d.is_prompt and fold(d.text) not in trained and d.group not in groups
    }
    if not inside or not outside:
        raise InputError(
            "There is nothing to compare: own records, which were trained on, and held-out ones, "
            "which were not, are needed; the same text on both sides does not count."
        )
    if canaries and references > (left := canaries.space.size - len(canaries.canaries)):
        raise InputError(f"The canaries' space has {left:,} secrets left: fewer --references.")
    return WatchedRecords(
        own=_units(inside.values()),
        held_out=_units(outside.values()),
        canaries=canaries,
        clients=frozenset(clients),
        heading=heading,
        references=references,
        refusal=_refusal(tuple(inside.values()), tuple(outside.values()), seed),
        seed=seed,
    )


def _planted_clients(canaries: CanarySet, texts: Sequence[str]) -> list[str]:
    """Return the clients all of whose canaries the texts hold, with their copies.

    Raises InputError if no client has all of them there.
    """
    clients = Counter(canary.client for canary in canaries.planted)
    missing = {client: canaries.missing_from(texts, client) for client in clients}
    client = min(missing, key=lambda name: missing[name] / clients[name])
    if missing[client]:
        raise InputError(
            f"Own records lack {missing[client]:,} of {clients[client]:,} canaries or copies of "
            "them: what was not trained on cannot be learnt. Name the records that `fedaudit "
            "canary plant` wrote."
        )
    return [client for client, count in missing.items() if not count]


def _units(documents: Iterable[Document]) -> tuple[Unit, ...]:
    """Return records by group, sorted, so that the order of a file does not matter."""
    groups: dict[tuple[str, str], list[Document]] = {}
    for document in sorted(documents, key=lambda d: d.text):
        key = ("group", document.group) if document.group else ("text", document.text)
        groups.setdefault(key, []).append(document)
    return tuple(tuple(groups[key]) for key in sorted(groups))


def _refusal(own: Sequence[Document], held_out: Sequence[Document], seed: int) -> str:
    """Return what tells the sets apart without any model; empty if nothing does."""
    area = text_baseline.area(own, held_out, seed=seed)
    reason = text_baseline.refusal(own, held_out, area, seed=seed)
    return f"{reason}: set records aside at random from the same source" if reason else ""
