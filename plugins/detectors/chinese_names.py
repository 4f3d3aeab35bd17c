"""Names of people in Chinese characters: after a person's role, or before a form of address.

Found without a model: a surname and one or two characters of given names, where a word before or
after says that it is a person, and what follows may follow a name. A surname is an everyday
character as well, so "患者高血压" must not make a person of 高血压. Names of other peoples are told
by the dot between their parts, or by what they are made of. A name that was found counts wherever
else it stands in the text.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module

from fedaudit.api import HAN, has_han
from fedaudit.pii import person_roles

from .chinese_words import (
    AFTER_NAMES,
    BEFORE_NAMES,
    BEHIND_NAMES,
    CHINESE_SURNAMES,
    DISPUTES,
    EVERYDAY_WORDS,
    FOLLOWING_WORDS,
    GIVEN_CHARACTERS,
    JAPANESE_SURNAMES,
    NAME_LABELS,
    NICKNAME,
    NO_GIVEN_NAME,
    NO_VALUES,
    ORGANIZATIONS,
    PARTS_OF_NAMES,
    ROLE_ENDINGS,
    SPEAKER,
    TRANSCRIBED,
    WHAT_PEOPLE_DO,
    WORD_SURNAMES,
)
from .latin_names import LISTED, TITLED, FoundName
from .name_lists import name_lists
from .name_words import OFFICES, TITLES

_BORDER = re.compile(rf"[^{HAN}]|$")
_HAN_ONLY = re.compile(f"[{HAN}]+")
_MARKS = r"[\"'“”‘’「」『』【】\[\]《》<>*_]"
_COLON = re.compile(rf"(?:[:：=＝】\]>』」]|姓名|[户戶]名)(?:\s|{_MARKS})*$")
_LABEL = re.compile(rf"(?:[:：=＝为叫\s]|{_MARKS})(?:\s|{_MARKS})*$")
_TERMS = {
    "address": ("cities", "countries", "provinces"),
    "bank": ("banks",),
    "company": ("company_suffixes",),
    "job": ("jobs",),
}
RARE, FREQUENT = 0.02, 0.1
"""Shares of people in a hundred who have a surname."""
_LOOK_BACK = 12
"""Characters before a name that are read to tell a label from a word of a sentence."""
_CELL_BORDER = re.compile(r"[|\t,，]")
_SPACES = r"[ \u3000]{0,4}"
_JOINT = rf"(?:\s*[:：=＝—-]+|为|叫|是|\s*\|(?=\s*\S)|\s|{_MARKS}|</?\w[^<>\n]{{0,40}}>){{0,8}}"
"""What may stand between a label or a role and a name: colons, quotes, brackets, tags."""
_BRACKET = r"(?:[（(][^（）()\n]{1,12}[)）]|[)）])?"
_DOT = "[·・•‧∙．‐]"
_PERSONAL_FACTS = (
    r"\s*[,，（(、]\s*(?:[男女](?![一-鿿])|[男女]性|\d{4}年\d{1,2}月(?:\d{1,2}日)?(?:出生|生)"
    r"|(?:公民)?身[份分]证|以下[简统]?称)"
)
"""What a court's record says of a person right behind the name: sex, birth, identity number."""


def chinese_names(text: str) -> Iterator[FoundName]:
    """Yield the names of people in a text, in no order; none overlaps another."""
    if not has_han(text):
        return
    spans = dict[tuple[int, int], float]()
    names = dict[str, float]()
    for match in _behind().finditer(text):
        start, end = match.span("name")
        if _is_addressed(text, start, end, len(match["surname"])):
            _add(spans, names, text, start, end, TITLED)
    for start, end in (*_foreign(text), *_spaced(text)):
        _add(spans, names, text, start, end, LISTED)
    for start, end in _shortened(text):
        _add(spans, {}, text, start, end, LISTED)
    for match in _before().finditer(text):
        _add_list(spans, names, text, match)
    for start, end in (*_in_clauses(text), *_in_columns(text), *_behind_labels(text)):
        _add(spans, names, text, start, end, LISTED)
    for name, score in names.items():
        for again in re.finditer(re.escape(name), text) if len(name) > 1 else ():
            _add(spans, {}, text, *again.span(), score)
    yield from (FoundName(start, end, score) for (start, end), score in spans.items())


def _shortened(text: str) -> Iterator[tuple[int, int]]:
    """Yield names whose given names are left out, and those by which people call each other."""
    for match in _masked().finditer(text):
        end = match.end()
        goes_on = text[end : end + 2] not in ORGANIZATIONS and _ends_there(text, end)
        if match["surname"] not in _weak() or goes_on:
            yield match.start(), end
    for match in _nicknames().finditer(text):
        if not _is_word(match.group()):
            yield match.span()


def _in_clauses(text: str) -> Iterator[tuple[int, int]]:
    """Yield names at the start of a clause about a person, and the parties of a case."""
    for match in _facts().finditer(text):
        if _is_alone(text, *match.span("surname"), match.end()):
            yield match.span()
    for match in _suit().finditer(text):
        places = (match.span("claimant"), match.span("defendant"))
        if all(_is_alone(text, start, start + 1, end) for start, end in places):
            yield from places


def _add_list(
    spans: dict[tuple[int, int], float],
    names: dict[str, float],
    text: str,
    match: re.Match[str],
) -> None:
    """Add the name behind a role, and those that follow it in a list."""
    start = match.start("surname")
    if not (end := _name_end(text, start, match.end("surname"))):
        return
    _add(spans, names, text, start, end, LISTED)
    labelled = _COLON.search(text, max(0, start - _LOOK_BACK), start) is not None
    following = _following(labelled=labelled)
    while item := following.match(text, end):
        start, given = item.span("surname")
        if not (end := _name_end(text, start, given, labelled=labelled, listed=True)):
            break
        _add(spans, names, text, start, end, LISTED)


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


def _behind_labels(text: str) -> Iterator[tuple[int, int]]:
    """Yield whole values of labels of names, whatever characters they have."""
    for match in _values().finditer(text):
        start, end = match.span("value")
        value = match["value"]
        words = {value[i : i + 2] for i in range(len(value) - 1)}
        if (
            words.isdisjoint(NO_VALUES | ORGANIZATIONS | EVERYDAY_WORDS | FOLLOWING_WORDS)
            and words.isdisjoint(BEFORE_NAMES)
            and not any(char in NO_GIVEN_NAME for char in value)
            and not _is_word(value)
        ):
            yield start, end


def _spaced(text: str) -> Iterator[tuple[int, int]]:
    """Yield names behind a label whose characters have spaces between them."""
    for match in _spaced_names().finditer(text):
        given = match["given"].replace(" ", "").replace("\u3000", "")
        if not any(char in NO_GIVEN_NAME for char in given) and not _is_word(given):
            yield match.start("surname"), match.end("given")


def _foreign(text: str) -> Iterator[tuple[int, int]]:
    """Yield names with dots between their parts, and those behind a role that are not Chinese."""
    if re.search(_DOT, text):
        for match in _dotted().finditer(text):
            if match["sounds"]:
                yield match.span("sounds")
            elif len(match["rest"]) == 1 and match["rest"] not in AFTER_NAMES:
                yield match.start("name"), match.end("rest")
            else:
                yield match.span("name")
    for match in _foreign_roles().finditer(text):
        start, end = match.span("name")
        rest = text[end - 2 : end]
        if not match["japanese"] or (_ends_there(text, end) and rest not in ORGANIZATIONS):
            yield start, end


def _ends_there(text: str, end: int) -> bool:
    closed = _BORDER.match(text, end) is not None
    return closed or text.startswith(AFTER_NAMES, end) or text[end : end + 2] in FOLLOWING_WORDS


def _name_end(
    text: str, start: int, given: int, *, labelled: bool = False, listed: bool = False
) -> int:
    """Return where the name ends whose given name begins at `given`; 0 where there is none.

    In a list (`listed`) without a label a name must be made of usual characters.
    """
    surname = text[start:given]
    if surname == "和" and not labelled:
        return 0
    before = max(0, start - _LOOK_BACK)
    after_colon = not listed and _COLON.search(text, before, start) is not None
    labelled = labelled or (not listed and _LABEL.search(text, before, start) is not None)
    for length in (2, 1):
        end = given + length
        characters = text[given:end]
        if not _HAN_ONLY.fullmatch(characters) or len(characters) < length:
            continue
        closed = _BORDER.match(text, end) is not None
        if length == 2 and not closed and _ends_earlier(text, given):
            continue
        if len(surname) > 1:
            fits = not any(char in AFTER_NAMES for char in characters)
            if fits and (_ends_there(text, end) or _is_before_rare(text, given, end)):
                return end
            continue
        any_given = after_colon and closed and surname not in _weak()
        sentence = any(char in NO_GIVEN_NAME for char in characters) and not any_given
        if sentence or _is_word(text[start : start + 2 if any_given else end]):
            continue
        if characters in FOLLOWING_WORDS or characters in BEFORE_NAMES:
            continue
        usual = any(char in _given() for char in characters)
        if labelled and closed and (usual or surname not in _weak()):
            return end
        if _reads_on(text, start, given, end, listed=listed):
            return end
    return 0


def _reads_on(text: str, start: int, given: int, end: int, *, listed: bool) -> bool:
    """Tell whether what follows a name may do so, as much as the name's characters ask for."""
    length = end - given
    usual = sum(char in _given() for char in text[given:end])
    closed = _BORDER.match(text, end) is not None
    goes_on = _ends_there(text, end)
    if text[start:given] in _weak():
        follows = text[end : end + 2] in FOLLOWING_WORDS
        if usual == length and (closed or (goes_on and length == 2) or follows):
            return True
        return bool(usual) and closed and length == 2
    if length == 2:
        rare = not listed and not any(char in AFTER_NAMES for char in text[given:end])
        return usual == 2 or (closed and not listed) or (goes_on and (usual == 1 or rare))
    return usual == 1 and (goes_on or _is_before_rare(text, given, end))


def _is_before_rare(text: str, given: int, end: int) -> bool:
    """Tell whether a given name of usual characters is followed by one that is not."""
    return all(char in _given() for char in text[given:end]) and text[end] not in _given()


def _ends_earlier(text: str, given: int) -> bool:
    """Tell whether the second character of a given name begins the next word: 李娜|持有."""
    first, second, end = text[given], text[given + 1], given + 2
    if first not in _given():
        return False
    begins = text[given + 1 : end + 1] in FOLLOWING_WORDS
    return (second in AFTER_NAMES and second not in _given()) or (
        begins and text[end : end + 2] not in FOLLOWING_WORDS
    )


def _is_alone(text: str, start: int, given: int, end: int) -> bool:
    """Tell whether what personal facts follow is a name rather than a word for people."""
    characters = text[given:end]
    if _is_word(text[start:end]) or any(char in NO_GIVEN_NAME for char in characters):
        return False
    if text[start:end] in BEFORE_NAMES:
        return False
    usual = any(char in _given() for char in characters)
    return usual or text[start:given] not in _weak()


def _is_addressed(text: str, start: int, end: int, surname: int) -> bool:
    """Tell whether what stands before a form of address is a name."""
    given = text[start + surname : end]
    if _is_word(text[start:end]) or any(char in NO_GIVEN_NAME for char in given):
        return False
    if text[start : start + surname] == "和":
        return False
    if not given and _shares().get(text[start : start + surname], 1) < RARE:  # 这位先生
        return False
    if given:
        known = all(char in _given() for char in given)
        return known or (text[start] not in _weak() and any(c in _given() for c in given))
    previous = text[start - 1 : start]
    return (
        not previous
        or not re.match(f"[{HAN}]", previous)
        or previous in NO_GIVEN_NAME + "请找给由是见问让叫日天午晚后床"
        or text.endswith(BEFORE_NAMES, 0, start)
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
def _weak() -> frozenset[str]:
    """Return the surnames that need more to be taken for one: everyday words, and the rarest."""
    rare = {name for name, share in _shares().items() if share < RARE}
    return WORD_SURNAMES | rare


@cache
def _frequent() -> str:
    """Return a regular expression of the surnames by which people are called for short."""
    return "|".join(
        name for name, share in _shares().items() if share >= FREQUENT and name not in _weak()
    )


@cache
def _given() -> frozenset[str]:
    return (name_lists().han_given | frozenset(GIVEN_CHARACTERS)) - frozenset(NO_GIVEN_NAME)


@cache
def _shares() -> dict[str, float]:
    """Return how many people in a hundred have a surname, by Faker's lists."""
    provider = "faker.providers.person.{}"
    lists = [
        import_module(provider.format(place)).Provider.last_names for place in ("zh_TW", "zh_CN")
    ]
    return {name: share for shares in lists for name, share in shares.items()}


@cache
def _words() -> frozenset[str]:
    """Return everyday words of two characters: of Faker's and spaCy's lists, and in its terms."""
    faker = import_module("faker.providers.lorem.zh_CN").Provider.word_list
    words = {word for word in faker if len(word) == 2}
    words |= {
        word for word in import_module("spacy.lang.zh.stop_words").STOP_WORDS if len(word) == 2
    }
    for name, attributes in _TERMS.items():
        provider = import_module(f"faker.providers.{name}.zh_CN").Provider
        terms = [term for attribute in attributes for term in getattr(provider, attribute)]
        words |= {term[i : i + 2] for term in terms for i in range(len(term) - 1)}
    return frozenset(words)


@cache
def _surnames() -> str:
    """Return a regular expression of surnames, longer ones first."""
    surnames = name_lists().han | set(CHINESE_SURNAMES.split())
    return "|".join(sorted(surnames, key=lambda name: (-len(name), name)))


def _longest_first(words: tuple[str, ...]) -> str:
    """Return a regular expression of words, whose characters may have spaces between them."""
    return "|".join(
        _SPACES.join(word) for word in sorted(words, key=lambda word: (-len(word), word))
    )


@cache
def _roles() -> str:
    """Return a regular expression of what stands before a name, in Chinese or in English."""
    labels = (
        rf"{_longest_first((*BEFORE_NAMES, *NAME_LABELS))}"
        rf"|[{HAN}]{{1,4}}[人员师者](?=[】\]]?{_BRACKET}{_SPACES}[:：])"
    )
    english = {word for word in (*TITLES, *OFFICES) if word.isalpha()}
    english |= person_roles.ROLES | {"name", "surname", "fullname", "signed"}
    latin = "|".join(sorted((word for word in english if len(word) > 1), key=len, reverse=True))
    return rf"(?:{labels}|{ROLE_ENDINGS}|(?<![A-Za-z])(?i:{latin})(?:e?s)?(?![A-Za-z])\.?)"


@cache
def _before() -> re.Pattern[str]:
    return re.compile(rf"{_roles()}{_BRACKET}{_JOINT}(?P<surname>{_surnames()})(?=[{HAN}])")


@cache
def _behind() -> re.Pattern[str]:
    return re.compile(
        rf"(?=(?P<name>(?P<surname>{_surnames()})[{HAN}]{{0,2}}?)(?:{'|'.join(BEHIND_NAMES)}))"
    )


@cache
def _following(*, labelled: bool) -> re.Pattern[str]:
    """Return what finds the next name of a list; behind a label a comma goes on with it too."""
    marks = "[、，,；;/与和及]" if labelled else "(?:[、；;/与和及]|伙同|会同|以及)"
    line = r"|[ \t]*\n[ \t]*" if labelled else ""
    return re.compile(rf"(?:\s*{marks}\s*{line})(?P<surname>{_surnames()})(?=[{HAN}])")


@cache
def _facts() -> re.Pattern[str]:
    return re.compile(
        rf"(?:(?<![{HAN}·])|(?<=[与和及诉由在、]))(?P<surname>{_surnames()})[{HAN}]{{1,2}}"
        rf"(?={_PERSONAL_FACTS}|{WHAT_PEOPLE_DO})"
    )


@cache
def _suit() -> re.Pattern[str]:
    surnames = _surnames()
    return re.compile(
        rf"(?<![{HAN}])(?P<claimant>(?:{surnames})[{HAN}]{{1,2}})[诉訴与和]"
        rf"(?P<defendant>(?:{surnames})[{HAN}]{{1,2}}?)(?=(?:{DISPUTES}))"
        rf"(?=[{HAN}]{{0,20}}(?:纠纷|糾紛|一案|夫妻|父[子女]|母[子女]|兄[弟妹]|姐[弟妹]|结婚))"
    )


@cache
def _masked() -> re.Pattern[str]:
    """Return what finds surnames without their given names: 李某某, 王某1, 夏*雨."""
    number = "[甲乙丙丁戊己庚辛0-9A-Z]?"
    return re.compile(
        rf"(?P<surname>{_surnames()})"
        rf"(?:某{{1,2}}(?![某些种个年月日天])|(?:[×＊*]{{2}}|[＊*][{HAN}]|×(?![{HAN}]))(?![×＊*\d]))"
        rf"{number}"
    )


@cache
def _nicknames() -> re.Pattern[str]:
    nickname = NICKNAME.format(surnames=_frequent())
    speaker = SPEAKER.format(given=f"[{''.join(sorted(_given() - set('大小')))}]")
    follows = f"[^{HAN}]|$|[{''.join(AFTER_NAMES)}{NO_GIVEN_NAME}昨今明你我他她]"
    return re.compile(
        rf"(?:(?<![{HAN}])|(?<=[和与及对听说下是])){nickname}(?={follows})"
        rf"|(?<=[给由找问跟叫让请]){nickname}"
        rf"|(?:(?<![{HAN}])){speaker}(?=[:：,，])"
    )


@cache
def _values() -> re.Pattern[str]:
    """Return what finds whole values of labels that only names have."""
    return re.compile(
        rf"(?:{_longest_first(NAME_LABELS)}){_BRACKET}(?:[\"'”】\]*_>]|\s)*[:：=＝】\]>]{_JOINT}"
        rf"(?P<value>[{HAN}]{{2,4}}|[{TRANSCRIBED}]{{5,12}})(?![{HAN}·]|\s*[:：|])"
    )


@cache
def _spaced_names() -> re.Pattern[str]:
    """Return what finds a name behind a label whose characters have spaces between them."""
    given = rf"[ \u3000]{{1,4}}[{HAN}](?:[ \u3000]{{0,4}}[{HAN}])?(?![{HAN}]|[ \u3000]?[:：])"
    return re.compile(
        rf"{_roles()}{_BRACKET}(?:{_SPACES}[:：]{_SPACES}|(?<=[ \u3000].)[ \u3000]{{1,4}})"
        rf"(?P<surname>{_surnames()})(?P<given>{given})"
    )


@cache
def _dotted() -> re.Pattern[str]:
    """Return what finds names with dots: of any characters behind a role, or else of sounds."""
    part, sound = rf"(?:(?![与和及诉])[{HAN}]){{1,12}}", f"[{TRANSCRIBED}]{{2,12}}"
    return re.compile(
        rf"{_roles()}{_BRACKET}{_JOINT}"
        rf"(?P<name>(?:{part}{_DOT}){{1,3}}{sound})(?=(?P<rest>[{HAN}]*))"
        rf"|(?P<sounds>(?:[{TRANSCRIBED}]{{1,12}}{_DOT}){{1,3}}{sound})"
    )


@cache
def _foreign_roles() -> re.Pattern[str]:
    parts = "|".join(sorted(PARTS_OF_NAMES, key=len, reverse=True))
    japanese = "|".join(sorted(JAPANESE_SURNAMES, key=len, reverse=True))
    return re.compile(
        rf"(?:{_roles()}{_BRACKET}{_JOINT}|(?<![{HAN}])(?=(?:{parts}){{2}}))"
        rf"(?P<name>(?:{parts})+(?:尔|提|木|汗|江|娜|别克|拜)?"
        rf"|(?P<japanese>(?:{japanese})[{HAN}]{{1,2}}))"
    )
