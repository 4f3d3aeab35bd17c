"""The strings that answers are looked through for, and answers as what they say of these."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b

from fedaudit.metrics.extraction import Matcher

Hits = list[int]
"""(question, draw, string) behind one another, of every answer that begins with a string."""


class Strings:
    """Reduces an answer to the longest of these strings that it begins with, else to nothing.

    Every string that an answer begins with begins the longest one too: whoever looks for these
    strings finds the same in both. Where each stands in the list names it without saying it.
    """

    def __init__(self, strings: Iterable[str]) -> None:
        self.strings = sorted(set(strings))
        self._places = {string: place for place, string in enumerate(self.strings)}
        self._matcher = Matcher(self.strings)

    @cached_property
    def digest(self) -> str:
        """Return what tells this list from any other."""
        joined = "\x00".join(self.strings).encode("utf-8", "surrogatepass")
        return blake2b(joined, digest_size=16).hexdigest()

    def reduced(self, text: str) -> str:
        """Return the longest string that `text` begins with, white space aside."""
        return max(self._matcher.hits(text), key=len, default="")

    def packed(self, answers: Sequence[Sequence[str]]) -> Hits:
        """Return reduced answers, question by question, as numbers; most say nothing."""
        return [
            number
            for question, texts in enumerate(answers)
            for draw, text in enumerate(texts)
            if text
            for number in (question, draw, self._places[text])
        ]

    def unpacked(self, hits: Hits, samples: Sequence[int]) -> list[list[str]]:
        """Return the answers again, `samples` of each question."""
        answers = [[""] * drawn for drawn in samples]
        for question, draw, place in _triples(hits):
            answers[question][draw] = self.strings[place]
        return answers


def _triples(numbers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    return zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
