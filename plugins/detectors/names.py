"""The detector that finds names as well, without a model: by titles, lists of names and endings.

Names of people in Chinese characters: after a person's role, or before a form of address.

Found without a model: a surname and one or two characters of given names, where a word before or
after says that it is a person, and what follows may follow a name. A surname is an everyday
character as well, so "患者高血压" must not make a person of 高血压. A name that was found counts
wherever else it stands in the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from html import unescape
from importlib import import_module
from typing import ClassVar

from fedaudit.api import HAN, PiiSpan
from fedaudit.pii.spans import resolve

from .analyzer import analyzers
from .custom import custom_patterns
from .latin_names import AT_TITLE, LISTED, TITLED, FoundName, latin_names, name_within
from .name_lists import name_key, name_lists
from .name_words import (
    AFTER_NAMES,
    BEFORE_NAMES,
    BEHIND_NAMES,
    CHINESE_SURNAMES,
    DISPUTES,
    EVERYDAY_WORDS,
    GIVEN_CHARACTERS,
    NO_GIVEN_NAME,
    WORD_SURNAMES,
)
from .presidio import CERTAIN, Presidio
from .scripts import can_read, fold

PERSON = "PERSON"


@dataclass(frozen=True)
class Names(Presidio):
    """Finds what `presidio` finds, and most names of people, without a model.

    A name is what follows a title (Mr, Dr, 原告), what begins with a first name that Faker lists
    for one of some eighty countries, and what ends like a surname. Places and employers are not
    found.
    """

    name: ClassVar[str] = "names"

    def detect(self, texts: Sequence[str]) -> list[tuple[PiiSpan, ...]]:
        """Return for each text its spans, sorted and without overlap."""
        finds = rules.scored(texts) if (rules := self._rules()) else [[] for _ in texts]
        if self.entities and PERSON not in self.entities:
            return [resolve(scored) for scored in finds]
        by_rules = self._labels_of_rules()
        return [
            resolve(self._ranked(fold(text), scored, by_rules))
            for text, scored in zip(texts, finds, strict=True)
        ]

    def describe(self) -> str:
        """Say what found the spans, for the report."""
        rules = super().describe().replace("rules only: no names, no places", "no places")
        return f"{rules}; names by titles, lists and endings"

    def labels(self, texts: Sequence[str]) -> frozenset[str]:
        """Return the labels that it looks for; names if `texts` are in its languages' scripts."""
        rules = self._rules()
        others = rules.labels(texts) if rules else frozenset[str]()
        wanted = not self.entities or PERSON in self.entities
        return others | {PERSON} if wanted and can_read(self.languages, texts) else others

    def _rules(self) -> Presidio | None:
        """Return what finds all but names; None where names alone are looked for."""
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.ner and PERSON in self.entities:  # nothing of Presidio's finds it
            options["entities"] = tuple(label for label in self.entities if label != PERSON)
            options["entities"] += tuple(one.label for one in custom_patterns(self.patterns))
            if not options["entities"]:
                return None
        return Presidio(**options)

    def _labels_of_rules(self) -> frozenset[str]:
        engines = analyzers(self.languages, ()).values()
        return frozenset(label for one in engines for label in one.get_supported_entities())

    def _ranked(
        self, text: str, scored: list[tuple[float, PiiSpan]], by_rules: frozenset[str]
    ) -> Iterator[tuple[float, PiiSpan]]:
        """Yield all finds, ranked: patterns and rules for numbers, names by rules, a model's.

        The rules see where a name ends at a line, a cell or a title, which a model does not.
        """
        for score, span in scored:
            if score == CERTAIN or span.label in by_rules:
                yield CERTAIN + score, span
            elif span.label != PERSON:
                yield score, span
            elif bounds := name_within(text, span.start, span.end):
                yield score, PiiSpan(*bounds, PERSON)
        for name in self._people(text):
            yield 1 + name.score, PiiSpan(name.start, name.end, PERSON)

    def _people(self, folded: str) -> list[FoundName]:
        text, places = _as_read(folded)
        names = list(latin_names(text)) if "en" in self.languages else []
        names += chinese_names(text) if "zh" in self.languages else []
        return [
            FoundName(places[start].start, places[end - 1].stop, score)
            for start, end, score in names
            if score >= self.threshold
        ]


def _as_read(text: str) -> tuple[str, Sequence[range]]:
    """Return a text as it is read, and which part of `text` each of its characters stands for.

    Invisible characters are left out, so are doubled spaces in names, since two spaces are a
    column's border elsewhere, and hyphens at a line's end; entities and escapes are replaced.
    """
    characters, places, end = list[str](), list[range](), 0
    for match in _UNREAD.finditer(text):
        start = match.start()
        replaced = _replacement(match)
        characters += text[end:start], replaced
        places += [range(place, place + 1) for place in range(end, start)]
        end = match.end()
        if replaced:  # its first character is that of the text up to the last one's
            last = len(replaced) - 1
            places += [range(start + i, start + i + 1) for i in range(last)]
            places.append(range(start + last, end))
    characters.append(text[end:])
    places += [range(place, place + 1) for place in range(end, len(text))]
    return "".join(characters), places


def _replacement(match: re.Match[str]) -> str:
    """Return what is read in place of an entity, an escape, or characters that are not read."""
    if word := match["word"]:
        known = AT_TITLE.fullmatch(word) or name_key(word) in name_lists().first
        return f"{word} " if known else f"{word}  "
    if match["entity"]:
        read = unescape(match["entity"])
        return fold(read) if len(read) == 1 else match["entity"]
    return "\n" if match["escape"] else ""


_UNREAD = re.compile(
    r"[\u0000\u00ad\u200b-\u200f\u2060-\u2064\ufeff]"
    r"|\b(?P<word>[^\W\d_]+\.?)  (?=[^\W\d_])"
    r"|(?P<entity>&(?:#\d{2,6}|#x[\da-fA-F]{2,5}|[a-zA-Z]{2,8});)"
    r"|(?P<escape>\\n(?=[A-Z*\-\d]))"
    r"|(?<=[a-z]-)\n(?=[A-Z])|(?<=[a-z])-\n(?=[a-z])"
)
_BORDER = re.compile(rf"[^{HAN}]|$")
_HAN_ONLY = re.compile(f"[{HAN}]+")
_COLON = re.compile(r"[:：]\s*$")
_LABEL = re.compile(r"(?:[:：]|[为叫\s])\s*$")
_CELL_BORDER = re.compile(r"[|\t,，]")


def chinese_names(text: str) -> Iterator[FoundName]:
    """Yield the names of people in a text, in no order; none overlaps another."""
    before, behind, following, suit = _patterns()
    spans = dict[tuple[int, int], float]()
    names = dict[str, float]()
    for match in behind.finditer(text):
        start, end = match.span("name")
        if _is_addressed(text, start, end, len(match["surname"])):
            _add(spans, names, text, start, end, TITLED)
    for match in before.finditer(text):
        start = match.start("surname")
        if end := _name_end(text, start, match.end("surname")):
            _add(spans, names, text, start, end, LISTED)
            if not _COLON.search(text, max(0, start - 9), start):
                continue
            while item := following.match(text, end):
                start, given = item.span("surname")
                if not (end := _name_end(text, start, given, labelled=True)):
                    break
                _add(spans, names, text, start, end, LISTED)
    for match in suit.finditer(text):
        for place in (match.span("claimant"), match.span("defendant")):
            _add(spans, names, text, *place, LISTED)
    for start, end in _in_columns(text):
        _add(spans, names, text, start, end, LISTED)
    for name, score in names.items():
        for again in re.finditer(re.escape(name), text) if len(name) > 1 else ():
            _add(spans, {}, text, *again.span(), score)
    yield from (FoundName(start, end, score) for (start, end), score in spans.items())


def _in_columns(text: str) -> Iterator[tuple[int, int]]:
    """Yield what stands below the heading of a column of names, and is written like one."""
    column, width, place = -1, 0, 0
    is_name = re.compile(rf"(?:{_surnames()})[{HAN}]{{1,2}}")
    for line in text.splitlines(keepends=True):
        cells = _CELL_BORDER.split(line)
        labels = [cell.strip() for cell in cells]
        if len(cells) > 1 and "姓名" in labels:
            column, width = labels.index("姓名"), len(cells)
        elif len(cells) != width:
            column = -1
        elif column >= 0 and is_name.fullmatch(name := labels[column]) and not _is_word(name):
            start = place + sum(len(cell) + 1 for cell in cells[:column])
            start += cells[column].index(name)
            yield start, start + len(name)
        place += len(line)


def _name_end(text: str, start: int, given: int, *, labelled: bool = False) -> int:
    """Return where the name ends whose given name begins at `given`; 0 where there is none."""
    surname = text[start:given]
    after_colon = _COLON.search(text, max(0, start - 3), start) is not None
    labelled = labelled or _LABEL.search(text, max(0, start - 3), start) is not None
    for length in (2, 1):
        end = given + length
        characters = text[given:end]
        if not _HAN_ONLY.fullmatch(characters) or len(characters) < length:
            continue
        closed = _BORDER.match(text, end) is not None
        any_given = after_colon and closed and surname not in WORD_SURNAMES
        sentence = any(char in NO_GIVEN_NAME for char in characters) and not any_given
        if sentence or _is_word(text[start : start + 2 if any_given else end]):
            continue
        usual = sum(char in _given() for char in characters)
        goes_on = closed or text.startswith(AFTER_NAMES, end)
        if len(surname) > 1 and goes_on:
            return end
        if labelled and closed and (usual or surname not in WORD_SURNAMES):
            return end
        if surname in WORD_SURNAMES:
            if usual == length and (closed or (goes_on and length == 2)):
                return end
            if usual and closed and length == 2:
                return end
        elif (
            (length == 2 and closed)
            or (usual == length and (length == 2 or goes_on))
            or (length == 2 and usual and goes_on)
        ):
            return end
    return 0


def _is_addressed(text: str, start: int, end: int, surname: int) -> bool:
    """Tell whether what stands before a form of address is a name."""
    given = text[start + surname : end]
    if _is_word(text[start:end]) or any(char in NO_GIVEN_NAME for char in given):
        return False
    if given:
        known = all(char in _given() for char in given)
        return known or (text[start] not in WORD_SURNAMES and any(c in _given() for c in given))
    previous = text[start - 1 : start]
    return (
        not previous
        or not re.match(f"[{HAN}]", previous)
        or previous in NO_GIVEN_NAME + "请找给由是见问让叫"
    )


def _is_word(string: str) -> bool:
    return string[:2] in EVERYDAY_WORDS or any(
        string[i : i + 2] in _words() for i in range(len(string) - 1)
    )


def _add(
    spans: dict[tuple[int, int], float],
    names: dict[str, float],
    text: str,
    start: int,
    end: int,
    score: float,
) -> None:
    """Add a name unless it overlaps one that was added before."""
    if not any(start < other_end and other_start < end for other_start, other_end in spans):
        spans[start, end] = score
        names.setdefault(text[start:end], score)


@cache
def _given() -> frozenset[str]:
    return (name_lists().han_given | frozenset(GIVEN_CHARACTERS)) - frozenset(NO_GIVEN_NAME)


@cache
def _words() -> frozenset[str]:
    """Return everyday words of two characters, by Faker's and spaCy's lists."""
    lists = (
        import_module("faker.providers.lorem.zh_CN").Provider.word_list,
        import_module("spacy.lang.zh.stop_words").STOP_WORDS,
    )
    return frozenset(word for words in lists for word in words if len(word) == 2)


@cache
def _surnames() -> str:
    """Return a regular expression of surnames, longer ones first."""
    surnames = name_lists().han | set(CHINESE_SURNAMES.split())
    return "|".join(sorted(surnames, key=lambda name: (-len(name), name)))


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of names: after a role, before an address, in a list, of a lawsuit."""
    surnames = _surnames()
    roles = "|".join(sorted(BEFORE_NAMES, key=len, reverse=True))
    before = (
        rf"(?:{roles})(?:[（(][^（）()\n]{{1,12}}[)）]|[)）])?(?:\s*[:：]|为|叫|是)?\s*"
        rf"(?P<surname>{surnames})(?=[{HAN}])"
    )
    behind = (
        rf"(?P<name>(?P<surname>{surnames})[{HAN}]{{0,2}}?)"
        rf"(?:{'|'.join(BEHIND_NAMES)})"
    )
    following = rf"(?:\s*[、，,和与及]\s*|[ \t]*\n[ \t]*)(?P<surname>{surnames})(?=[{HAN}])"
    suit = (
        rf"(?<![{HAN}])(?P<claimant>(?:{surnames})[{HAN}]{{1,2}})[诉訴与]"
        rf"(?P<defendant>(?:{surnames})[{HAN}]{{1,2}}?)(?=(?:{DISPUTES}))"
        rf"(?=[{HAN}]{{0,20}}(?:纠纷|糾紛|一案))"
    )
    return tuple(map(re.compile, (before, behind, following, suit)))
