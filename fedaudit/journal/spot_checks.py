"""Asking a random sample of the shards' questions again, as others may have made the shards.

The questions are drawn when the shards are merged, so that nobody who makes a shard knows them. A
model may round differently in other batches, so a question with a different answer is asked again
with its whole piece, as the shard asked it, and counts only if the answer differs again.
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
"""The share of each shard's questions that is asked again by default."""
FORGED = 0.05
"""The share of forged answers for which a report states the probability of detection."""
TOLERANCE = 1e-4
"""Numbers that differ by less, absolutely or relatively, differ by rounding, not by forgery."""

Ask = Callable[[Sequence[int]], Sequence[Any]]
"""Asks the questions of a piece at the given positions, in one call."""


class OtherAnswers(FedauditError):
    """A shard has answers that the model does not give; stops all attacks, so no InputError."""

    exit_code = InputError.exit_code


@dataclass(slots=True)
class ShardCheck:
    """The result of the spot check of one shard."""

    device: str
    questions: int = 0
    asked_again: int = 0
    answered_otherwise: int = 0
    """Of the questions asked again, how many got other answers on a device unlike the shard's."""
    spare: tuple[int, Callable[[], None]] | None = None
    """The lowest draw not asked again, and a function to ask it, as each shard has one checked."""


class SpotCheck:
    """Draws questions, asks them again and compares; raises OtherAnswers for a forged shard."""

    def __init__(self, share: float, device: str, draw: str | None = None) -> None:
        self.share, self.device = share, device
        self.draw = draw or secrets.token_hex(16)
        """The random key for drawing questions, which nobody knew before."""
        self.shards: dict[str, ShardCheck] = {}

    def check(
        self,
        journal_pass: JournalPass,
        piece: bytes,
        answers: Sequence[Any],
        ask: Ask,
        fresh: Sequence[int],
    ) -> None:
        """Ask the drawn questions of a piece again and compare with the shard's `answers`.

        `fresh` are the positions of the questions that the shard asked, in one call; it had the
        other answers already.
        """
        checked = self._shard_check(journal_pass)
        checked.questions += len(fresh)
        draws = {position: self._draw(journal_pass.name + piece, position) for position in fresh}
        chosen = [position for position in fresh if draws[position] < self.share * 2**64]
        if chosen:
            self._compare(journal_pass, chosen, answers, ask, fresh)
        elif fresh and self.share > 0:
            position = min(fresh, key=lambda i: draws[i])
            if checked.spare is None or draws[position] < checked.spare[0]:
                again = (
                    draws[position],
                    lambda: self._compare(journal_pass, [position], answers, ask, fresh),
                )
                checked.spare = again

    def finish(self) -> None:
        """Ask one question again of every shard from which none was drawn."""
        for checked in self.shards.values():
            if not checked.asked_again and checked.spare:
                checked.spare[1]()
            checked.spare = None

    def table(self) -> list[dict[str, Any]]:
        """Return the results of the check as the report states them."""
        return [
            {
                "shard": name,
                "device": shard.device,
                "questions": shard.questions,
                "asked_again": shard.asked_again,
                "answered_otherwise": shard.answered_otherwise,
                "draw": self.draw,
                "forged": FORGED,
                "seen": detection_probability(shard.questions, shard.asked_again, FORGED),
            }
            for name, shard in sorted(
                self.shards.items(), key=lambda item: int(item[0].split("/")[0])
            )
        ]

    def caveats(self) -> list[str]:
        """Return the caveats about the shards for the report."""
        if self.share == 0:
            return ["No answer of the shards was asked again (--recheck 0): they are believed."]
        return [_describe_check(row, self.device) for row in self.table()]

    def _shard_check(self, journal_pass: JournalPass) -> ShardCheck:
        header = journal_pass.journal.header
        device = str(header.get("device") or "an unknown device")
        return self.shards.setdefault(str(header.get("shard")), ShardCheck(device))

    def _draw(self, prefix: bytes, position: int) -> int:
        digest = blake2b(
            prefix + position.to_bytes(8, "big"), key=bytes.fromhex(self.draw), digest_size=8
        ).digest()
        return int.from_bytes(digest, "big")

    def _compare(
        self,
        journal_pass: JournalPass,
        chosen: Sequence[int],
        answers: Sequence[Any],
        ask: Ask,
        fresh: Sequence[int],
    ) -> None:
        checked = self._shard_check(journal_pass)
        checked.asked_again += len(chosen)
        unequal = _unequal_answers(chosen, answers, ask)
        if unequal and list(chosen) != list(fresh):
            unequal = sorted(set(unequal) & set(_unequal_answers(fresh, answers, ask)))
        if unequal and checked.device == self.device:
            journal = journal_pass.journal
            raise OtherAnswers(
                f"Shard {journal.header.get('shard')} in {journal.place} does not "
                f"hold what the model answers: {len(unequal)} of {len(chosen)} questions that were "
                "asked again, on the same device, have other answers. Make it anew."
            )
        checked.answered_otherwise += len(unequal)


def _unequal_answers(places: Sequence[int], answers: Sequence[Any], ask: Ask) -> list[int]:
    model_answers = ask(places)
    return [i for i, a in zip(places, model_answers, strict=True) if not same_answer(a, answers[i])]


def same_answer(a: Any, b: Any) -> bool:
    """Tell whether two answers are equal up to rounding; lists equal tuples."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_answer(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_answer, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(a == b)


def _describe_check(row: Mapping[str, Any], device: str) -> str:
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
