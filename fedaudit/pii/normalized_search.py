"""Finding strings in a text that spells them with other white space or other Unicode forms."""

import unicodedata
from collections.abc import Iterable, Iterator

Unit = tuple[str, int, int]
"""Characters that belong together as they are compared, and where they stand: half-open."""


def normalize(text: str) -> str:
    """Return `text` as it is compared: NFKC, one space for white space, none at the ends.

    NFKC makes one of what Unicode calls compatible: a no-break space and a space, a full-width
    letter and its ordinary form, an accent of its own and one with its letter.
    """
    return " ".join(unicodedata.normalize("NFKC", text).split())


def fold(text: str) -> str:
    """Return `text` without differences of case, white space and Unicode form.

    NFKD, case folding, one space for white space, none at the ends. A prefix of a text is a prefix
    of it when folded as well, so that unfinished texts can be compared: unlike with NFKC, nothing
    changes backwards.
    """
    return " ".join(unicodedata.normalize("NFKD", text).casefold().split())


def find_strings(strings: Iterable[str], text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (string, start, end) wherever `text` spells one of `strings`, as part of a word too.

    One character, as a Chinese surname, means something else within a word and is not found there.
    """
    units = _units(text)
    haystack, start_at, end_at = "", {}, {}
    for compared, start, end in units:
        start_at[len(haystack)] = start
        haystack += compared
        end_at[len(haystack)] = end
    for string in strings:
        needle = "".join(compared for compared, _, _ in _units(string)).strip()
        position = haystack.find(needle) if needle else -1
        while position >= 0:
            if position in start_at and position + len(needle) in end_at:
                start, end = start_at[position], end_at[position + len(needle)]
                around = text[max(0, start - 1) : start] + text[end : end + 1]
                if len(needle) > 1 or not any(map(str.isalnum, around)):
                    yield string, start, end
            position = haystack.find(needle, position + 1)


def _units(text: str) -> list[Unit]:
    """Return the pieces of `text`: white space as one, a letter with its accents, else one each.

    NFKD tells the same strings apart as NFKC does, but leaves letters before their accents, so
    that it can be taken piece by piece.
    """
    bounds: list[tuple[int, int]] = []
    for i, char in enumerate(text):
        after_space = i > 0 and text[i - 1].isspace()
        joined = i > 0 and (char.isspace() if after_space else unicodedata.combining(char))
        bounds[-1:] = [(bounds[-1][0], i + 1)] if joined else [*bounds[-1:], (i, i + 1)]
    return [(_normalize(text[start:end]), start, end) for start, end in bounds]


def _normalize(piece: str) -> str:
    return " " if piece.isspace() else unicodedata.normalize("NFKD", piece)
