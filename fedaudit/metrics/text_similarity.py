"""How useful an answer is: Rouge-L, BLEU and accuracy, in English and Chinese."""

import re
import unicodedata
from functools import cache
from typing import Any

from fedaudit.api.scripts import HAN, has_han

_LETTERS = r"([A-H](?:[ ,、;/&]*[A-H])*)(?![A-Za-z])"
_LEADING = re.compile(rf"\W*{_LETTERS}(?=\s*(?:$|\n|[^\w\s]|项))")
# The article "A" begins a sentence: it follows a punctuation mark or a line break, and the next
# word does not continue a statement about an option.
_GOING_ON = "and|as|because|since|for|due|is|was|or|which|with"
_NO_ARTICLE = rf"(?!(?:(?<=[^\w ])|(?<=[^\w ] ))A\s+(?!(?:{_GOING_ON})\b)[a-z])"
_LABELLED_LETTER = re.compile(
    r"(?i:\b(?:answer|option|choice|case)|答案|选项?|案例|案件)\W*(?:(?i:is)\b|是|为)?\W*"
    + _NO_ARTICLE
    + _LETTERS
)
_SINGLE_LETTER = re.compile(r"\W*([A-Ha-h])\W*")
_TOKEN = re.compile(rf"[{HAN}]|[^\W_{HAN}]+")


class _Words:
    """A tokenizer for rouge-score, whose own drops everything that is not ASCII."""

    def tokenize(self, text: str) -> list[str]:
        return words(text)


def words(text: str) -> list[str]:
    """Return the lower-case words of a text; each Chinese character is a word."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).lower())


def rouge_l(reference: str, answer: str) -> float:
    """Return the F1 of the longest common subsequence of words (Lin 2004), in [0, 1]."""
    return float(_scorer().score(reference, answer)["rougeL"].fmeasure)


def bleu(reference: str, answer: str) -> float:
    """Return sentence BLEU (Papineni et al. 2002) as sacrebleu has it (Post 2018), in [0, 100].

    If either text has a Chinese character, sacrebleu's tokenizer is `zh`, for which each such
    character is a word; otherwise it is `13a`. Case and punctuation count. For texts shorter than
    four words only the n-grams that exist count, and the first order without a match counts as half
    a match, the next as a quarter (Chen and Cherry 2014, method 3).
    """
    chinese = has_han(reference + answer)
    return min(100.0, float(_bleu(chinese).sentence_score(answer, [reference]).score))


def is_correct(reference: str, answer: str) -> bool:
    """Tell whether the answer's words are the reference's, or begin with them."""
    expected_words = words(reference)
    return bool(expected_words) and words(answer)[: len(expected_words)] == expected_words


def choice(text: str) -> frozenset[str] | None:
    """Return the options, A to H, that a multiple-choice answer names; None if it names none.

    Options stand alone or first ("B", "b)", "AC", "B. tort law", "B项"), or after a word for them
    ("The answer is B", "答案：B", "案例B"): the first such place counts. An A that begins a
    sentence ("A claim of ...") is not an option, not even after such a word and a punctuation mark.
    """
    text = unicodedata.normalize("NFKC", text).strip()
    match = _SINGLE_LETTER.fullmatch(text) or _LEADING.match(text) or _LABELLED_LETTER.search(text)
    return frozenset(re.findall("[A-H]", match[1].upper())) if match else None


def is_chosen(reference: str, answer: str) -> bool:
    """Tell whether the answer names just the options that the reference does, in any order.

    A reference that names no option is compared as in `is_correct`.
    """
    expected = choice(reference)
    return is_correct(reference, answer) if expected is None else choice(answer) == expected


@cache
def _bleu(chinese: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="zh" if chinese else "13a", effective_order=True)


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=_Words())
