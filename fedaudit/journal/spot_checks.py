"""Asking again a random sample of what shards say, because somebody else may have made them.

Which questions are asked again is drawn when the shards are merged, so that nobody who makes a
shard knows. A model may round otherwise in other batches: what differs is asked once more with the
whole piece, as the shard asked it, and only what differs then too counts.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import isclose
from typing import Any

from fedaudit.api.errors import FedauditError, InputError
from fedaudit.journal.journal import JournalPass
from fedaudit.metrics.spot_check import detection_probability

SHARE = 0.01
"""Of the questions of each shard, by default."""
FORGED = 0.05
"""The share of forged answers of which a report says how likely it would have been seen."""
TOLERANCE = 1e-4
"""Numbers that differ by less are the same, absolutely or relatively: rounding, not a forgery."""

Ask = Callable[[Sequence[int]], Sequence[Any]]
"""Asks some questions of a piece, by their places in it, together."""


class OtherAnswers(FedauditError):
    """A shard says what the model does not; no InputError, for it stops all attacks."""

    exit_code = InputError.exit_code


@dataclass(slots=True)
class ShardCheck:
    """What was asked again of one shard."""

    device: str
    questions: int = 0
    asked: int = 0
    otherwise: int = 0
    """Of those asked, how many were answered otherwise on a device that is not the shard's."""
    spare: tuple[int, Callable[[], None]] | None = None
    """The draw nearest to being asked again, and what asks it: at least one is, of every shard."""


class SpotCheck:
    """Draws questions, asks them again and compares; raises OtherAnswers for a forged shard."""

    def __init__(self, share: float, device: str, draw: str | None = None) -> None:
        self.share, self.device = share, device
        self.draw = draw or secrets.token_hex(16)
        """What decides which questions are asked again: nobody knew it before."""
        self.shards: dict[str, ShardCheck] = {}

    def check(
        self, stream: JournalPass, piece: bytes, said: Sequence[Any], ask: Ask, fresh: Sequence[int]
    ) -> None:
        """Ask again what is drawn of a piece whose answers a shard `said`.

        `fresh` are the places of the questions that the shard asked, together; others it knew.
        """
        checked = self._of(stream)
        checked.questions += len(fresh)
        drawn = {place: self._draw(stream.name + piece, place) for place in fresh}
        chosen = [place for place in fresh if drawn[place] < self.share * 2**64]
        if chosen:
            self._compare(stream, chosen, said, ask, fresh)
        elif fresh and self.share > 0:
            place = min(fresh, key=lambda one: drawn[one])
            if checked.spare is None or drawn[place] < checked.spare[0]:
                again = drawn[place], lambda: self._compare(stream, [place], said, ask, fresh)
                checked.spare = again

    def finish(self) -> None:
        """Ask one question of each shard of which none was drawn."""
        for checked in self.shards.values():
            if not checked.asked and checked.spare:
                checked.spare[1]()
            checked.spare = None

    def table(self) -> list[dict[str, Any]]:
        """Return what was asked again, as the report has it."""
        return [
            {
                "shard": name,
                "device": one.device,
                "questions": one.questions,
                "asked_again": one.asked,
                "answered_otherwise": one.otherwise,
                "draw": self.draw,
                "forged": FORGED,
                "seen": detection_probability(one.questions, one.asked, FORGED),
            }
            for name, one in sorted(
                self.shards.items(), key=lambda item: int(item[0].split("/")[0])
            )
        ]

    def caveats(self) -> list[str]:
        """Return what a reader should know of the shards, in words."""
        if self.share == 0:
            return ["No answer of the shards was asked again (--recheck 0): they are believed."]
        return [_told(row, self.device) for row in self.table()]

    def _of(self, stream: JournalPass) -> ShardCheck:
        header = stream.journal.header
        device = str(header.get("device") or "an unknown device")
        return self.shards.setdefault(str(header.get("shard")), ShardCheck(device))

    def _draw(self, what: bytes, place: int) -> int:
        digest = blake2b(
            what + place.to_bytes(8, "big"), key=bytes.fromhex(self.draw), digest_size=8
        ).digest()
        return int.from_bytes(digest, "big")

    def _compare(
        self,
        stream: JournalPass,
        chosen: Sequence[int],
        said: Sequence[Any],
        ask: Ask,
        fresh: Sequence[int],
    ) -> None:
        checked = self._of(stream)
        checked.asked += len(chosen)
        other = _differing(chosen, said, ask)
        if other and list(chosen) != list(fresh):
            other = sorted(set(other) & set(_differing(fresh, said, ask)))
        if other and checked.device == self.device:
            raise OtherAnswers(
                f"Shard {stream.journal.header.get('shard')} in {stream.journal.place} does not "
                f"hold what the model answers: {len(other)} of {len(chosen)} questions that were "
                "asked again, on the same device, have other answers. Make it anew."
            )
        checked.otherwise += len(other)


def _differing(places: Sequence[int], said: Sequence[Any], ask: Ask) -> list[int]:
    found = ask(places)
    return [
        place for place, one in zip(places, found, strict=True) if not same_answer(one, said[place])
    ]


def same_answer(one: Any, other: Any) -> bool:
    """Tell whether two answers are the same, to rounding in their numbers; lists are as tuples."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_answer(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_answer, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(one == other)


def _told(row: Mapping[str, Any], device: str) -> str:
    name = f"Shard {row['shard']}: {row['asked_again']:,} of {row['questions']:,} questions"
    if row["answered_otherwise"]:
        return (
            f"{name} were asked again, and {row['answered_otherwise']:,} answered otherwise, on "
            f"another device ({device}; the shard's: {row['device']}). Devices round otherwise, so "
            "this is no evidence of a forgery and none against it: merge on the shard's device."
        )
    return (
        f"{name} were asked again and answered alike; were {row['forged']:.0%} of them forged, "
        f"that would have been seen with a chance of {row['seen']:.1%}."
    )
