"""How alike a text and any of many others are, by Rouge-L."""

from collections.abc import Iterable

from fedaudit.api import Document
from fedaudit.metrics.text_similarity import words


class SimilarityIndex:
    """Texts to compare others with; each is cut into words once."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = [words(text) for text in dict.fromkeys(texts)]

    def __call__(self, text: str) -> float:
        """Return the highest Rouge-L of `text` with any of the texts, 0 to 1; 0 of none.

        It is the F1 of the longest common subsequence of words, as `metrics.utility.rouge_l`.
        """
        from rapidfuzz.distance import LCSseq

        query = words(text)
        overlaps = ((LCSseq.similarity(query, t), len(query) + len(t)) for t in self._texts)
        return max((2 * common / total for common, total in overlaps if common), default=0.0)


def whole_text(example: Document) -> str:
    """Return an example's fields as one text, without anything that a template adds."""
    return "\n".join((example.instruction, example.input, example.output))
