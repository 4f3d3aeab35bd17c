"""Which PII strings the outputs of a model give away (FedPII, section 4.1)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from fedaudit.metrics.document_frequency import absent_strings

Disjointness = Literal["prefix-free", "literal"]


def victim_exclusive(
    victim: Iterable[tuple[str, str]], attacker_texts: Sequence[str]
) -> dict[str, str]:
    """Return the victim's distinct PII strings, with their labels, that no attacker text holds.

    White space around a string is dropped; a string with several labels keeps the first in
    alphabetical order. Sorted, so that the order of the input does not matter.
    """
    labels: dict[str, str] = {}
    for text, label in victim:
        if string := text.strip():
            labels[string] = min(label, labels.get(string, label))
    exclusive_strings = absent_strings(labels, attacker_texts)
    return {string: labels[string] for string in sorted(exclusive_strings)}


def prefix_disjoint(strings: Iterable[str], form: Disjointness = "prefix-free") -> list[str]:
    """Return the strings that are left when none may be a prefix of another, sorted.

    "prefix-free" drops every string that is a proper prefix of another one, because an output
    with the longer one would credit it by accident. "literal" is the paper's LCP(s_i, s_j) = 0:
    it keeps, of all strings with one first character, only the longest (then the smallest).
    """
    ordered = sorted(set(strings))
    if form == "prefix-free":
        # In sorted order a string's extensions follow it directly.
        return [
            string
            for string, following in zip(ordered, [*ordered[1:], ""], strict=False)
            if not following.startswith(string)
        ]
    best: dict[str, str] = {}
    for string in ordered:
        rival = best.get(string[:1])
        if rival is None or len(string) > len(rival):
            best[string[:1]] = string
    return sorted(best.values())


class Matcher:
    """Finds the targets that an output begins with."""

    def __init__(self, targets: Iterable[str]) -> None:
        by_length: dict[int, set[str]] = defaultdict(set)
        for target in targets:
            by_length[len(target)].add(target)
        self._by_length = sorted(by_length.items())

    def hits(self, output: str) -> Iterator[str]:
        """Yield every target that `output` begins with, the shortest first.

        Leading white space of an output is ignored. The cost is one look-up for each distinct
        target length, not one for each target.
        """
        text = output.lstrip()
        for length, targets in self._by_length:
            if length > len(text):
                break
            if (head := text[:length]) in targets:
                yield head


def by_label(strings: Iterable[str], labels: Mapping[str, str]) -> dict[str, int]:
    """Return how many of `strings` carry each label, ordered by falling count, then by name."""
    counts: dict[str, int] = defaultdict(int)
    for string in strings:
        counts[labels[string]] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
