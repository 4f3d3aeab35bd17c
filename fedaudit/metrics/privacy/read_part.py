"""How much of each record is read, and whether the part that is read tells records apart.

Where all records begin with the same long text and are cut soon after it, no score can tell them
apart, whatever the model learnt of the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RUN = 8
"""Tokens in a row that count as the same text; a record needs as many of its own."""
OWN = 0.1
"""The least share of a cut record that must be its own."""
UNSEEN = 0.05
"""The share of records that may be cut before they differ from others without barring a pass."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


def tokens_to_read(context: int, begin: int, *, trained: int = 0, most: int = 0) -> int:
    """Return how many tokens of a record are read behind the `begin` tokens of its start.

    That is what fits into the context and, if it is known, what training read: `trained` tokens,
    its start included. `most` is a limit that the user set. 0 stands for unknown and for no limit.
    """
    limits = [context - begin, *([trained - begin] if trained else []), *([most] if most else [])]
    return max(0, min(limits))


@dataclass(frozen=True, slots=True)
class ReadPart:
    """What was read of records that were compared."""

    most: int
    """How many tokens of a record are read."""
    records: int
    cut: int
    """Records that are longer."""
    share: float
    """The share of all tokens that was read."""
    own: int = 0
    """The records that were trained on, or may have been."""
    alike: int = 0
    """Of these, those that are cut before they differ much from the records beside them."""

    def describe(self) -> str:
        """Return what was read, in words."""
        if not self.cut:
            return "every record was read to its end"
        return (
            f"{self.cut:,} of {self.records:,} records are longer than the {self.most:,} tokens "
            f"that were read of each: {100 * self.share:.1f} % of all tokens were "
            "read"
        )

    @property
    def obstacle(self) -> str:
        """Why a pass is not possible; empty if it is."""
        if self.alike <= UNSEEN * self.own:
            return ""
        return (
            f"of {self.alike:,} of {self.own:,} records no more than {self.most:,} tokens were "
            f"read, {100 * (1 - OWN):.0f} % of which or more held-out records have too: what "
            "follows was not tested"
        )


def read_part(
    own: Sequence[Sequence[int]],
    others: Sequence[Sequence[int]],
    lengths: Sequence[int],
    most: int,
) -> ReadPart:
    """Return what was read of records, by the tokens that were read of `own` ones and of `others`.

    `lengths` are the lengths of all these records, own ones first, and `most` is where they are
    cut.
    """
    read = sum(min(length, most) for length in lengths)
    cut = [ids for ids, length in zip(own, lengths, strict=False) if length > most]
    return ReadPart(
        most=most,
        records=len(lengths),
        cut=sum(length > most for length in lengths),
        share=read / max(1, sum(lengths)),
        own=len(own),
        alike=_count_alike(cut, others) if others else 0,
    )


def _count_alike(cut: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> int:
    """Return how many of some records have hardly any text that none of the others has."""
    if not cut:
        return 0
    known = np.unique(np.concatenate([_runs(ids) for ids in others]))
    return sum(_own_tokens(ids, known) < max(RUN, OWN * len(ids)) for ids in cut)


def _own_tokens(ids: Sequence[int], known: npt.NDArray[np.uint64]) -> int:
    """Return how many tokens lie in no run that is known."""
    starts = np.flatnonzero(np.isin(_runs(ids), known))
    shared = np.zeros(len(ids), dtype=bool)
    shared[(starts[:, None] + np.arange(RUN)).ravel()] = True
    return int((~shared).sum())


def _runs(ids: Sequence[int]) -> npt.NDArray[np.uint64]:
    """Return a hash of every run of RUN tokens."""
    tokens = np.asarray(ids, dtype=np.uint64)
    count = max(0, len(tokens) - RUN + 1)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(RUN):  # wraps around at 2**64, as a hash may
        hashes = (hashes + tokens[offset : offset + count] + np.uint64(1)) * _MIX
        hashes ^= hashes >> np.uint64(29)
    return hashes
