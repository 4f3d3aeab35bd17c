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
    """Return `text` as one that differs in case, white space or Unicode form only has it, too.

    NFKD, case folding, one space for white space, none at the ends. What begins a text begins it
    folded as well, so that unfinished texts can be compared: unlike with NFKC, nothing changes
    backwards.
    """
    return " ".join(unicodedata.normalize("NFKD", text).casefold().split())


def find_strings(strings: Iterable[str], text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (string, start, end) wherever `text` spells one of `strings`, as part of a word too."""
    units = _units(text)
    whole, begins, ends = "", {}, {}
    for compared, start, end in units:
        begins[len(whole)] = start
        whole += compared
        ends[len(whole)] = end
    for string in strings:
        wanted = "".join(compared for compared, _, _ in _units(string)).strip()
        at = whole.find(wanted) if wanted else -1
        while at >= 0:
            if at in begins and at + len(wanted) in ends:
                yield string, begins[at], ends[at + len(wanted)]
            at = whole.find(wanted, at + 1)


def _units(text: str) -> list[Unit]:
    """Return the pieces of `text`: white space as one, a letter with its accents, else one each.

    NFKD tells the same strings apart as NFKC does, but leaves letters before their accents, so
    that it can be taken piece by piece.
    """
    bounds: list[tuple[int, int]] = []
    for at, char in enumerate(text):
        after_space = at > 0 and text[at - 1].isspace()
        joined = at > 0 and (char.isspace() if after_space else unicodedata.combining(char))
        bounds[-1:] = [(bounds[-1][0], at + 1)] if joined else [*bounds[-1:], (at, at + 1)]
    return [(_compared(text[start:end]), start, end) for start, end in bounds]


def _compared(piece: str) -> str:
    return " " if piece.isspace() else unicodedata.normalize("NFKD", piece)
