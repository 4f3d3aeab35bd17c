"""How useful an answer is: Rouge-L and accuracy, in English and Chinese."""

import re
import unicodedata
from functools import cache
from typing import Any

_TOKEN = re.compile(r"[㐀-鿿豈-﫿]|[^\W_㐀-鿿豈-﫿]+")


class _Words:
    """The tokenizer that rouge-score lacks: its own drops everything that is not ASCII."""

    def tokenize(self, text: str) -> list[str]:
        return words(text)


def words(text: str) -> list[str]:
    """Return lower-case words; a Chinese character is a word of its own."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).lower())


def rouge_l(reference: str, answer: str) -> float:
    """Return the F1 of the longest common subsequence of words (Lin 2004), in [0, 1]."""
    return float(_scorer().score(reference, answer)["rougeL"].fmeasure)


def is_correct(reference: str, answer: str) -> bool:
    """Tell whether the answer's words are the reference's, or begin with them."""
    wanted = words(reference)
    return bool(wanted) and words(answer)[: len(wanted)] == wanted


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=_Words())
