"""Sub-prefixes of what stands before personal data: Set(SUP) of FedPII, section 4.2.2, in order."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from fedaudit.api import AttackContext
from fedaudit.extraction.leads import join_leads
from fedaudit.extraction.prefixes import PiiOccurrence, pii_occurrences

from .suffix_counts import Integers, Suffixes, suffixes


@dataclass(frozen=True, slots=True, eq=False)
class SubPrefixes(Sequence[PiiOccurrence]):
    """Set(SUP): distinct sub-prefixes, most frequent first, then longest, then by tokens.

    They are built on demand; only the occurrences and a few numbers for each are kept.
    """

    occurrences: Sequence[PiiOccurrence]
    suffixes: Suffixes
    size: int
    """How many of them are in the set: the first ones."""

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> PiiOccurrence: ...
    @overload
    def __getitem__(self, index: slice) -> list[PiiOccurrence]: ...
    def __getitem__(self, index: int | slice) -> PiiOccurrence | list[PiiOccurrence]:
        chosen = range(self.size)[index]
        build = self.build_occurrence
        return build(chosen) if isinstance(chosen, int) else [build(i) for i in chosen]

    @property
    def counts(self) -> Integers:
        """Return how often each occurs in the multiset, int32, falling."""
        return self.suffixes.count[: self.size]

    def reaching(self, minimum: int) -> int:
        """Return how many occur at least `minimum` times: they are the first ones."""
        return int(np.searchsorted(-self.counts, -minimum, side="right"))

    def first(self, size: int) -> "SubPrefixes":
        """Return the first `size`, or all where there are fewer."""
        return replace(self, size=max(0, min(size, self.size)))

    def build_occurrence(self, index: int) -> PiiOccurrence:
        """Return a sub-prefix as an occurrence, with the commonest label and character after it."""
        suffixes = self.suffixes
        first, length = int(suffixes.first[index]), int(suffixes.length[index])
        rows = suffixes.order[first : first + int(suffixes.count[index])]
        kinds = Counter((self.occurrences[row].label, self.occurrences[row].after) for row in rows)
        label, after = min(kinds, key=lambda kind: (-kinds[kind], kind))
        return PiiOccurrence(
            prefix=self.occurrences[rows[0]].prefix[-length:],
            tokens=(),
            at_start=bool(suffixes.is_whole[index]),
            label=label,
            after=after,
            leads=join_leads({self.occurrences[row].leads for row in rows}),
        )


def distinct_subprefixes(
    occurrences: Sequence[PiiOccurrence], context: int, *, starts: bool = True
) -> SubPrefixes:
    """Return the distinct suffixes of 1 to `context` tokens of every prefix.

    A prefix that reaches its document's start is, as a whole, a sub-prefix at a document's start;
    every shorter suffix begins mid-document. The same tokens in both ways are two sub-prefixes,
    because they are asked behind different starts; with `starts` False, where the starts are
    the same, they are one. Raises ValueError for a context below 1.
    """
    prefixes = [occurrence.prefix for occurrence in occurrences]
    whole_flags = [starts and occurrence.at_start for occurrence in occurrences]
    counted = suffixes(prefixes, whole_flags, context)
    return SubPrefixes(occurrences, counted, len(counted.count))


def attacker_subprefixes(context: AttackContext, prefix_tokens: int) -> SubPrefixes:
    """Return the sub-prefixes of the attacker's PII, distinct as the prompts they are asked as."""
    occurrences = pii_occurrences(context.engine, context.attacker, prefix_tokens)
    starts = context.with_start((), at_start=True) != context.with_start((), at_start=False)
    return distinct_subprefixes(occurrences, prefix_tokens, starts=starts)
