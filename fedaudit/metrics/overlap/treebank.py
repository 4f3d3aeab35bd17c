"""Penn Treebank tokenization: the rules of NLTK's TreebankWordTokenizer, in its order."""

import re

_PAD = r" \g<0> "
_BEFORE_PADDING = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r'^"', "``"),
        (r"``", _PAD),
        (r"([ (\[{<])(\"|'{2})", r"\1 `` "),
        (r"([:,])([^\d])", r" \1 \2"),
        (r"[:,]$", _PAD),
        (r"\.\.\.", _PAD),
        (r"[;@#$%&]", _PAD),
        (r"([^.])(\.)([\])}>\"']*)\s*$", r"\1 \2\3 "),
        (r"[?!]", _PAD),
        (r"([^'])' ", r"\1 ' "),
        (r"[\]\[(){}<>]", _PAD),
        (r"--", _PAD),
    )
]
_AFTER_PADDING = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"''|\"", " '' "),
        (r"([^' ])('[sSmMdD]|') ", r"\1 \2 "),
        (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
        (r"(?i)\b(can)(not)\b", r" \1 \2 "),
        (r"(?i)\b(d)('ye)\b", r" \1 \2 "),
        (r"(?i)\b(gim|lem)(me)\b", r" \1 \2 "),
        (r"(?i)\b(gon)(na)\b", r" \1 \2 "),
        (r"(?i)\b(got)(ta)\b", r" \1 \2 "),
        (r"(?i)\b(more)('n)\b", r" \1 \2 "),
        (r"(?i)\b(wan)(na)(?=\s)", r" \1 \2 "),
        (r"(?i) ('t)(is|was)\b", r" \1 \2 "),
    )
]
_DIVIDED = re.compile(r"--|cannot|gimme|gonna|gotta|lemme|wanna")
_PLAIN = re.compile(r"[(\[{<]*([\w/+*=~^|§°€£-]+)[\])}>;:?!,]*")
"""A word that no rule splits, between brackets and marks that are tokens of their own."""


def tokens(sentence: str) -> list[str]:
    """Return the tokens of a sentence; only its last full stop is a token of its own."""
    for pattern, replacement in _BEFORE_PADDING:
        sentence = pattern.sub(replacement, sentence)
    sentence = f" {sentence} "
    for pattern, replacement in _AFTER_PADDING:
        sentence = pattern.sub(replacement, sentence)
    return sentence.split()


def tokenize_between(piece: str, before: str, after: str) -> list[str]:
    """Return the tokens of a lower-case piece of a sentence; punctuation may be left out.

    `before` and `after` are the neighbouring words, or empty at the ends of the sentence.
    """
    plain = _PLAIN.fullmatch(piece[:-1] if piece[-1:] == "." and not after else piece)
    if plain and not _DIVIDED.search(piece):
        return [plain[1]]  # punctuation is no word
    words = tokens(" ".join(w for w in (before, piece, after) if w))
    return words[bool(before) : len(words) - bool(after)]
