"""All of some work, batch by batch, each as large as memory allows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel

from fedaudit.engine import generate, mixed, score, shared
from fedaudit.engine.batching import Piece, by_length, padded, pieces
from fedaudit.engine.memory import Memory, exhausted, release
from fedaudit.records import Decoding, Probe

Drawn = tuple[list[Piece], list[list[int]]]
"""A batch, and the tokens that each of its samples drew."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What samples are drawn from, and how."""

    probes: Sequence[Probe]
    seed: int
    decoding: Decoding
    end: Sequence[int]


@dataclass(frozen=True, slots=True)
class Room:
    """How much goes through the model at once."""

    rows: int
    tokens: int
    memory: Memory
    """What was found too much."""


def drawn(model: PreTrainedModel, work: Drawing, room: Room) -> Iterator[Drawn]:
    """Yield the samples of all probes."""

    def draw(part: list[Piece]) -> list[list[int]]:
        return generate.continuations(
            model, work.probes, part, seed=work.seed, decoding=work.decoding, end=work.end
        )

    for batch in pieces(work.probes, room.rows, room.tokens):
        yield from room.memory.run(_length(work.probes, batch), batch, draw)


def drawn_together(
    model: PreTrainedModel, work: Drawing, adapters: mixed.Adapters, room: Room
) -> Iterator[Drawn]:
    """Yield the samples of all probes under each of `adapters`: adapter by adapter in a batch."""

    def draw(part: list[Piece]) -> list[list[int]]:
        everyone = part * adapters.count
        with adapters.active(len(everyone)):
            return generate.continuations(
                model,
                work.probes,
                everyone,
                seed=work.seed,
                decoding=work.decoding,
                end=work.end,
                kept=adapters.kept,
            )

    rows, tokens = (max(1, most // max(1, adapters.count)) for most in (room.rows, room.tokens))
    for batch in pieces(work.probes, rows, tokens):
        yield from room.memory.run(_length(work.probes, batch) * adapters.count, batch, draw)


def scored(
    model: PreTrainedModel, sequences: Sequence[Sequence[int]], room: Room
) -> Iterator[tuple[list[int], list[list[float]]]]:
    """Yield indices of sequences and their scores."""

    def read(part: list[Piece]) -> list[list[float]]:
        return score.log_probabilities(model, [sequences[one.index] or (0,) for one in part])

    lengths = [max(1, len(sequence)) for sequence in sequences]
    for batch in by_length(lengths, room.tokens):
        rows = [Piece(index, 0, 1) for index in batch]
        for part, found in room.memory.run(padded(lengths[batch[0]]), rows, read):
            yield [piece.index for piece in part], found


def scored_groups(
    model: PreTrainedModel, groups: Sequence[shared.Sequences], limits: shared.Limits
) -> Iterator[tuple[list[tuple[int, int]], list[list[float]]]]:
    """Yield (group, index) of sequences and their scores; groups that share nothing are left out.

    Where memory does not suffice, the limits are halved for good and what is left is begun again.
    """
    begins = {g: shared.beginning(group) for g, group in enumerate(groups)}
    known: set[tuple[int, int]] = set()
    while True:
        left = {
            g: begin
            for g, begin in begins.items()
            if begin and not all((g, i) in known for i in range(len(groups[g])))
        }
        try:
            for members, found in shared.log_probabilities(model, groups, left, limits.bounds):
                scores = {(m.group, m.index): row for m, row in zip(members, found, strict=True)}
                new = [place for place in scores if place not in known]
                known.update(new)
                yield new, [scores[place] for place in new]
            return
        except (RuntimeError, MemoryError) as error:
            if not exhausted(error) or not limits.halve():
                raise
        release()


def _length(probes: Sequence[Probe], batch: Sequence[Piece]) -> int:
    """Return how long a row of a batch gets."""
    probe = probes[batch[0].index]
    return padded(len(probe.prompt)) + probe.max_new_tokens
