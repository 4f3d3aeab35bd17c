"""How useful an answer is: Rouge-L, BLEU and accuracy, in English and Chinese."""

import re
import unicodedata
from functools import cache
from typing import Any

from fedaudit.api.scripts import HAN, has_han

_LETTERS = r"([A-H](?:[ ,、;/&]*[A-H])*)(?![A-Za-z])"
_LEADING = re.compile(rf"\W*{_LETTERS}(?=\s*(?:$|\n|[^\w\s]|项))")
# An article begins a sentence: it stands behind a mark or a line break, and a word follows that
# does not go on about an option.
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
    """The tokenizer that rouge-score lacks: its own drops everything that is not ASCII."""

    def tokenize(self, text: str) -> list[str]:
        return words(text)


def words(text: str) -> list[str]:
    """Return lower-case words; a Chinese character is a word of its own."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).lower())


def rouge_l(reference: str, answer: str) -> float:
    """Return the F1 of the longest common subsequence of words (Lin 2004), in [0, 1]."""
    return float(_scorer().score(reference, answer)["rougeL"].fmeasure)


def bleu(reference: str, answer: str) -> float:
    """Return sentence BLEU (Papineni et al. 2002) as sacrebleu has it (Post 2018), in [0, 100].

    Its tokenizer `zh`, for which a Chinese character is a word, where either text has one; else
    `13a`. Case and punctuation count. Of texts shorter than four words only the n-grams that there
    are count, and the first order without a match counts as half of one, the next as a quarter
    (Chen and Cherry 2014, method 3).
    """
    chinese = has_han(reference + answer)
    return min(100.0, float(_bleu(chinese).sentence_score(answer, [reference]).score))


def is_correct(reference: str, answer: str) -> bool:
    """Tell whether the answer's words are the reference's, or begin with them."""
    expected_words = words(reference)
    return bool(expected_words) and words(answer)[: len(expected_words)] == expected_words


def choice(text: str) -> frozenset[str] | None:
    """Return the options, A to H, that a multiple-choice answer names; None where it names none.

    They stand alone or first ("B", "b)", "AC", "B. tort law", "B项"), or behind a word for them
    ("The answer is B", "答案：B", "案例B"): the first such place counts. An A that begins a
    sentence ("A claim of ...") is no option, behind such a word and a mark neither.
    """
    text = unicodedata.normalize("NFKC", text).strip()
    match = _SINGLE_LETTER.fullmatch(text) or _LEADING.match(text) or _LABELLED_LETTER.search(text)
    return frozenset(re.findall("[A-H]", match[1].upper())) if match else None


def is_chosen(reference: str, answer: str) -> bool:
    """Tell whether the answer names just the options that the reference does, in any order.

    A reference that names none is compared as `is_correct` does.
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
