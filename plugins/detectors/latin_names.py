"""Names of people in Latin letters: behind titles and labels, by lists of names, by endings.

Found without a model. A text is divided into *cells* (lines, columns, elements of HTML, items of a
list), since no name goes on beyond one. In each cell the runs of words that begin with a capital
are examined, each up to a word that names something else. A surname that was found counts wherever
else it stands in the text.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import regex as re

from fedaudit.pii import person_roles
from fedaudit.pii.everyday_words import FUNCTION_WORDS

from .chinese_words import BEFORE_NAMES, NAME_LABELS
from .name_lists import NameLists, name_key, name_lists, states, word_key
from .name_words import (
    BEFORE_PLACES,
    BUILDINGS,
    CARD_FIELDS,
    CLOSINGS,
    DEGREES,
    FOREIGN_RELATIONS,
    LEGAL_FORMS,
    LETTERS_BEHIND,
    LIST_LABELS,
    LOOSE_LABELS,
    NEXT_TO_PEOPLE,
    NO_NAMES,
    NO_PEOPLE,
    NUMBERED_TITLES,
    OF_FIRMS,
    OF_PEOPLE,
    OF_THINGS,
    OFFICES,
    PARTICLES,
    PARTICLES_IN_CAPITALS,
    PEOPLE,
    PLACE_LABELS,
    PLACE_WORDS,
    PLACEHOLDERS,
    PLURAL_TITLES,
    RELATIONS,
    ROLES,
    SMALL_TITLES,
    SURNAME_LABELS,
    THINGS,
    TITLES,
)

TITLED, LISTED, ENDING = 0.85, 0.6, 0.5
"""Scores: behind a title, by lists or a label, by a surname's ending or the words around."""
MOST_WORDS = 5
LONGEST_CUT = 2
SHORTEST_AGAIN = 4
"""A surname of fewer letters is not looked for elsewhere in the text."""
LONGEST_SYLLABLE = 6
"""Letters of a Chinese surname in Latin letters."""
SHORTEST_ENDING = 6
"""A surname of fewer letters says nothing by its ending."""
NEAR = 100
"""How many letters before and behind words are looked at."""
WRAPPED, LEAST_MORE = 50, 10
"""From this length on the end of a line may be that of a page, and the sentence goes on, if the
next line has so many letters behind its first word."""

_UPPER, _LETTER = r"[[\p{Lu}\p{Lt}]&&\p{Latin}]", r"[\p{Latin}\p{M}]"
_HYPHEN, _SPACE = "'‘’ʼ′`\\-\u2010\u2011", "[ \u00a0\u202f]"
# What cannot end otherwise is atomic: else a long run of hyphens takes time without end.
_WORD = rf"(?>{_UPPER}{_LETTER}*(?:[{_HYPHEN}]{_LETTER}+|–{_UPPER}{_LETTER}+)*)"
_INITIALS = rf"(?:{_UPPER}\.-?){{1,3}}"
_TITLES = "|".join(sorted((*TITLES, *OFFICES), key=len, reverse=True))
_SMALL_TITLES = "|".join(sorted(SMALL_TITLES, key=len, reverse=True))
_TITLE = (
    rf"(?:(?:(?:{NUMBERED_TITLES}){_SPACE}\d{{1,6}}(?={_SPACE}{_UPPER})|(?:[LlDd]['’])?"
    rf"(?:{_TITLES}|(?i:{_SMALL_TITLES})))(?![\w'’\-])\.?"
    rf"(?:{_SPACE}?(?:{DEGREES})\.|{_SPACE}Emerit(?:a|us)|{_SPACE}?\((?:{_TITLES})\.?\))*)"
)
_PARTICLE = (
    rf"(?:al|el|as|ash|an|ad|ur|d|l|t|dall|dell|nell|sull)[{_HYPHEN}]{_WORD}"
    rf"|(?:{PARTICLES})(?![\p{{Latin}}{_HYPHEN}])"
)
_SAINT = rf"St\.?(?={_SPACE}{_UPPER})|St\."
_CHILD = r"[SsDdWwCcRr]/[Oo](?!\w)"
_NICKNAME = rf"(?:\"{_WORD}\"|“{_WORD}”)"
_PIECE = re.compile(
    rf"(?P<title>{_TITLE})|(?P<saint>{_SAINT})|(?P<nickname>{_NICKNAME})|(?P<particle>{_CHILD})|(?P<initials>{_INITIALS})|(?P<word>{_WORD})"
    rf"|(?P<particle>{_PARTICLE})",
    re.V1,
)
_ANY_PIECE = rf"(?>{_TITLE}(?:{_SPACE}[\"“])?|{_SAINT}|{_CHILD}|{_INITIALS}|{_WORD}|{_PARTICLE})"
_SPACED = r"[\w--[_\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]]"
_BEGINS = rf"(?<!{_SPACED}|[\w.]@|\w['’\-_]|[\p{{L}}_]\.)"
"""Where a name may begin: not within a word, an address or a file's name, but in 'quotes' and
_emphasis_, behind the number or the dash of a list's item, as a @mention, and behind characters
of East Asia, which no space divides from it."""
_RUN = re.compile(
    rf"{_BEGINS}{_ANY_PIECE}(?:(?:{_SPACE}(?:{_NICKNAME}{_SPACE})?|(?<=[.\"“])){_ANY_PIECE})*"
    rf"(?!{_SPACED}|@|_\w)",
    re.V1,
)
_BORDER = re.compile(r"\n|\r|\t|\||;|<[^<>]{0,200}>|[ \u00a0]{2,}|\\[nrt]")
_WRAP = re.compile(
    rf"(?<=[^\s!?:;,]{_SPACE}?)\n(?=(?P<next>{_UPPER}{_LETTER}+)(?![^\n:]{{0,30}}:\s)(?P<more>[^\n]*))",
    re.V1,
)
_POSSESSIVE = re.compile(r"['’]s?$")
_BULLET_MARK = r"""\s*(?:(?:[-*•–·>#_]|\(?\d{1,3}[.)]|\(?[a-z]\))\s*)?["“'(]?\s*"""
_BULLET = re.compile(_BULLET_MARK)
_TAIL = re.compile(r"""[\s.,:)"”']*(?:\([^()]*\))?[\s.,:]*""")
_ROLE = rf"(?P<role>(?:{'|'.join(ROLES)})s?)"
_LABEL = re.compile(
    rf"(?:(?:^|[\s,(/\"'*_{{\[]|(?-i:(?<=\p{{Ll}})(?=\p{{Lu}}))){_ROLE}"
    r"(?:\s+(?:in charge|on (?:duty|call|site)|of record|responsible))?"
    r"(?:\s*\([^()\n]{1,30}\))?\s*(?:by|of)?[\"'*]*(?:\s*[:=]|\s*(?:\.{3,}|…)\s*:?)\**"
    rf"|(?P<role>{'|'.join((*BEFORE_NAMES, *NAME_LABELS))})\s*:?)\s*[\"'“\[(]*$",
    re.I,
)
_DASHED = re.compile(rf"(?:^|[.;,(]\s+)(?:\w+\s+){{0,2}}{_ROLE}\s+[-–—]\s+$", re.I)
_HEADER = re.compile(r"\s*(?P<role>von|an|de|para|à|da|van|aan)\s*:\s*", re.I)
"""Lines at the head of a mail; elsewhere these are parts of names and sentences."""
_CARE_OF = re.compile(r"(?:^|[\s(,])(?P<role>c/o|fao|attn\.?)\s*:?\s+$", re.I)
_CARD = re.compile(r"\W*(?:\w+\s+){0,2}(?P<role>name|surname|forename)\s+", re.I)
_CARD_GOES_ON = re.compile(rf"\s*\n\W*(?:{CARD_FIELDS})\b", re.I)
_HEADING = re.compile(rf"\W*(?:[\w']+\W+){{0,3}}?{_ROLE}\W*", re.I)
_HEAD_OF_LIST = re.compile(
    r"\W*(?:(?:also|those|members|persons|people)\s+)?(?P<role>present|absent|apologies|attendees"
    r"|participants|invitees|witnesses|signatories|members|names|(?:\w+\s+){0,2}name)\W*",
    re.I,
)
"""Headings of people without a colon, too."""
_OF_A_THING = re.compile(rf"(?:^|[\s_\W])(?:{THINGS})[\s_]*names?\W*$", re.I)
_TAG = re.compile(rf"<(?:\w+[:_-])?(?:\p{{Ll}}+(?-i:(?=\p{{Lu}})))?{_ROLE}\s*>", re.I)
_BREAKS_LINE = re.compile(r"[\n\r]|<(?:/?tr|dt|/dd|/?li|/?p|br|/?div)\b[^<>]*>", re.I)
_ITEM = re.compile(
    rf"{_BULLET_MARK}{_UPPER}(?![^\n:]{{0,40}}:(?:\s|$))[^\n]{{0,70}}(?<![.!?])", re.V1
)
"""A line of a list, which is neither a sentence nor has a label of its own."""
_LIST_GOES_ON = re.compile(
    r"\s*(?:\([^()\n]{0,40}\)|<[^<>\n]{0,80}>)?\s*"
    r"(?:(?:[,;/+]\s*)?(?:and|und|et|y|e|&)\s|[,;/+])\s*"
)
"""What may stand between two people of a list."""
_CLOSING = re.compile(rf"\W*(?:{CLOSINGS})\W*", re.I)
_SIGNED_OFF = re.compile(rf"(?:^|[.!?)]\s+)(?:{CLOSINGS}|thanks|thank you),\s+$", re.I)
"""Before a name that ends a line: "See you soon. Thanks, Faith"."""
_GREETING = re.compile(
    r"(?:^|[\s(>\"“])(?:dear|hi|hello|hey|hallo|liebe[rs]?|bonjour|hola|ciao|beste"
    r"|thanks|thank you|many thanks|merci|danke|grazie|gracias"
    r"|good (?:morning|afternoon|evening|day)|guten (?:morgen|tag|abend))\s+$",
    re.I,
)
_PLACE = re.compile(BEFORE_PLACES, re.I)
_PERSON_AFTER = re.compile(NEXT_TO_PEOPLE)
_PERSONS = "|".join((*RELATIONS, *PEOPLE))
_ONLY_PEOPLE = "|".join(sorted(person_roles.ROLES - OF_FIRMS - OF_THINGS - PLACE_LABELS))
_FAMILY = "|".join(one for one in RELATIONS if one not in OF_THINGS)
_INTRODUCED = re.compile(
    rf"\b(?:(?i:{_PERSONS}|{_ONLY_PEOPLE})(?:,|{_SPACE}\d{{1,2}}{_SPACE}\(|{_SPACE}\()?"
    rf"|(?i:my name is|this is|i am)|named|nicknamed)\s*$"
)
"""After this one listed first name is a person: "her son Luka", "Patient Luka"."""
_RELATED = re.compile(
    rf"(?:\b(?i:his|her|their|my|our|your)|['’]s)\s+(?:\w+\s+)?(?:{_FAMILY}),?\s+$"
    r"|\b(?i:sus?|mis?|tus?|son|sa|ses|mon|ma|mes|leurs?|nos?|notre|suo|sua|sue|mi[oa]|loro|seu|minha|meu"
    rf"|zijn|haar|mijn|hun)\s+(?:{'|'.join(FOREIGN_RELATIONS)}),?\s+$"
)
"""After this one word with a capital is a person, listed or not: "her husband Cheikh"."""
_APPOSITION = re.compile(
    rf",\s+(?:the|an?|his|her|their)\s+(?:\w+\s+){{0,3}}(?:{_PERSONS}|{_ONLY_PEOPLE})\b"
)
_IS_A_PERSON = re.compile(
    rf",?\s+(?:who|aged|born|(?:is|was)\s+an?\s+(?:\w+\s+)?(?:{_PERSONS}|{_ONLY_PEOPLE}))\b"
)
_TIME = re.compile(r"\s*[\[(][^\])]{0,12}\d{1,2}[:.]\d{2}[^\])]{0,8}[\])]\s*-?\s*")
"""Before who speaks in a chat."""
_PERSON_BEFORE = re.compile(
    rf"\b(?:{_PERSONS})\s+$|(?i:\b(?:{_PERSONS}),\s+|\bmy name is\s+|\bschrieb\s+"
    rf"|\b(?:{_PERSONS}|man|woman|person|lady|gentleman|someone|somebody|child)"
    rf"\s+(?:called|named|known as)\s+)$"
)
"""After this words that are written like a name are one."""
_GREETED = re.compile(r"\s*(?:[,!:\n]|$)")
_BETWEEN_MARKS = re.compile(r"[,)]")
_ALSO_GREETED = re.compile(
    rf"(?:(?:,{_SPACE}|\s?/\s?)(?P<name>{_WORD}))*"
    rf"(?:,?{_SPACE}(?:and|und|et|y|e|&){_SPACE}|\s?/\s?)(?P<name>{_WORD})\s*(?:[,!:\n]|$)",
    re.V1,
)
"""The others behind the first of "Dear Tobias, Helga and Milan,"."""
_PLACES = re.compile(rf"(?<!\w)(?:{NO_PEOPLE})(?!\w)", re.I)
_HAN_MARKS = str.maketrans("：，；（）【】「」、", ':,;()[]"",')
_LETTERS_ONLY = re.compile(LETTERS_BEHIND)
_KOREAN = re.compile(
    r"(?:{0}-{0})".format(
        r"(?:ch|kk|pp|[bdghjkmnprstyw])?(?:y?(?:ae|eo|oo|ou|[aeou])|eu|ui|wo[no]?|w[aei]|i|yi)"
        r"(?:ng|[hklmnpr])?"
    )
)
"""A given name of two syllables with a hyphen: Ji-woo."""
_ENDING = re.compile(
    r"..(?:ova?|i?[iy]?eva?|ina?|sky|skiy|skaya|sk[ai]|vi[ćcč]h?|o[ğg]lu|[iy]an|dze|shvili|enko|chuk"
    r"|escu|eanu|s[oe]n|sson|poulos|idis|akis|mann|berg|stein|ovna|evna|wicz|czyk|kaya|t[üu]rk|nen"
    r"|ez|[ãa]es|eira|inho|etti|elli|ucci|sdottir|iene|auskas|iunas|opoulou|ishvili|yev|singhe"
    r"|wardena|swamy|nathan|murthy|strom|qvist|gaard|stra|sma)$"
)
_COMMON_ENDING = re.compile(
    r"...(?:tions?|ments?|ness|ings?|ity|ities|ances?|ences?|ology|ical|ships?|ary|ous|ive|able"
    r"|ible|ally|ism|ists?|tory|ture|ware|load|itis|sions?|algia|rrh?o?ea|pnoe?a|plegia|uria|pril|statin|sartan|mycin|profen|caine|oxacin|formin|parin|zepam|cetamol|codone|emia|aemia|osis|oma|pathy|graphy|scopy|amide"
    r"|ol|ine|ate|cillin|azole|ly|ed|al|ic|ics|ful|less|hood|ward|wise|ages?|ents?|ants?)$"
)
_NOUN_ENDING = re.compile(
    r"...(?:tions?|ments?|ness|ings?|ity|ities|ances?|ences?|ology|ships?|ary|ive|ages?|itis|osis)$"
)
_PINYIN = re.compile(
    r"(?:(?:[bpmfdtnlgkhjqxrzcsyw]|zh|ch|sh)?(?:a|o|e|ai|ei|ao|ou|an|en|ang|eng|ong|i|ia|ie|iao|iu"
    r"|ian|in|iang|ing|iong|u|ua|uo|uai|ui|uan|un|uang|ue|uen)){1,2}"
)
_CELL_END = re.compile(
    r"""\s*(?:$|[.,:)"”'(<\[;&/-]|and\b|\d|\p{Han})|\s+(?:[^\W\d_]+\s)?[^\W\d_]+\s*[:=]\s"""
)
_NO_PERSON = re.compile(rf"{THINGS}|{'|'.join((*ROLES, *RELATIONS))}")
_ADDRESSED = re.compile(
    rf"(?:{'|'.join((*ROLES, *RELATIONS))}|mate|darling|buddy|bot|babe|pal|boss|doc|love|angel)s?"
)
"""Dear Tenant, Dear Colleagues, hi mate."""
_VALUE_END = re.compile(r"\s*(?:$|[,;!)])")
_OF_A_FAMILY = re.compile(
    r"(?:van|von|vom|de|da|dos|das|del|della|di|du|den|der|ter|ten|zu|zum|zur|af|av|bin|ibn|bint|ben)$"
)
"""A word that is a first name as well is one in front of these."""
_AND = re.compile(rf"{_SPACE}(?:and|or|und|oder|et|ou|y|e|o|&|with){_SPACE}", re.V1)
_LISTED = rf"{_ANY_PIECE}(?:{_SPACE}{_ANY_PIECE}){{1,{MOST_WORDS - 1}}}"
_LIST = re.compile(
    rf"{_BEGINS}{_LISTED}(?:,{_SPACE}{_LISTED})+(?P<last>,?{_AND.pattern}{_LISTED})?", re.V1
)
"""People without a label, if it ends and two are known: "Ann Lee, Xyla Qomo and Bo Berg"."""
_NEXT_OF_LIST, _BEGINS_LIST = re.compile(r",\s"), re.compile(r"[:(]\s?$")
_AND_BEFORE = re.compile(rf"{_SPACE}(?:and|or|und|oder|et|ou|y|e|o|&|with){_SPACE}$", re.V1)
AT_TITLE = re.compile(rf"{_TITLE}(?!{_LETTER})", re.V1)
_BEHIND_TITLE = re.compile(rf"{_TITLE}{_SPACE}?$", re.V1)
_TITLED_GIVEN = re.compile(rf"{_TITLE}{_SPACE}(?P<given>{_WORD}){_SPACE}?$", re.V1)
"""A line that ends between a given name and a surname: Dr John / Abernathy."""
_AT_FIELD = re.compile(rf"(?:{CARD_FIELDS}|{'|'.join(ROLES)})\b|{_TITLE}", re.I)
_ADDRESS = re.compile(r"[\"'”’]?\s?<[^<>@\s]{1,64}@[^<>\s]{1,99}>")
_LEAD = re.compile(rf"(?:{_TITLE}|(?i:{'|'.join(ROLES)})(?![\w'’\-]):?)\s+", re.V1)
"""What stands before a name, and a model takes for a part of it."""
_ONE_OF_SEVERAL = rf"(?:{_INITIALS}{_SPACE}?)?(?:(?:{PARTICLES}){_SPACE})*{_WORD}"
_BEHIND_PLURAL = re.compile(rf"(?:{PLURAL_TITLES})\.?{_SPACE}$", re.V1)
_SEVERAL = re.compile(
    rf"(?:,{_SPACE}(?P<name>{_ONE_OF_SEVERAL}))*,?{_AND.pattern}(?P<name>{_ONE_OF_SEVERAL})", re.V1
)
"""The others behind the first of "Messrs Quist, Grell and Odum"."""
_BEFORE_SURNAME = re.compile(
    rf"{_BEGINS}(?P<given>{_INITIALS}|{_WORD}){_SPACE}?(?:(?:{PARTICLES}){_SPACE})*$", re.V1
)
_JUDGES = re.compile(
    rf"{_BEGINS}(?P<name>{_WORD})(?:,{_SPACE}(?P<name>{_WORD}))*(?:{_AND.pattern}(?P<name>{_WORD}))?"
    rf"{_SPACE}(?:LJJ?|JJ|CJ|JSC|(?:J|MR)(?=,?\s*(?:[)\]]|said|held|agree|dissent|concur|observed"
    rf"|gave|ruled|in\s)))(?![\w'’\-])",
    re.V1,
)
"""Judges as law reports have them: Quist LJ; Quist and Grell JJ; Quist J held."""
_COMMA = re.compile(
    rf"{_BEGINS}(?P<last>(?:(?i:{PARTICLES})\s+){{0,3}}{_WORD}(?: {_WORD})?),{_SPACE}"
    rf"(?P<first>(?:{_WORD}|{_INITIALS})(?:{_SPACE}(?:{_WORD}|{_INITIALS})){{0,2}})(?![\w'’])",
    re.V1,
)
_IN_LABELLED = re.compile(r"[^\W\d_]\s*[:=]\s")
_COLON = re.compile(r"[ \t]*:(?=\s|$)")
_IN_SMALL_LETTERS = re.compile(
    r"(?P<cue>\b(?i:my name is|hi|hello|hey|dear|spoke (?:to|with)|this is)\s+)"
    r"(?P<given>[a-z]{3,})(?P<gap>\s?)(?P<family>(?<=\s)[a-z]{3,})?"
    r"(?=\s*[,!?.:\n]|$|\s(?:and|this|from)\b)"
)
_SMALL_WORD = r"[a-z]+(?:['’](?!s\b)[a-z]+)?"
_TITLED_IN_SMALL_LETTERS = re.compile(
    rf"\b(?P<title>(?:mr|mrs|ms|dr|prof)\b\.?\s)(?P<names>{_SMALL_WORD}(?:\s{_SMALL_WORD})?)"
)
_PROSE_TO = re.compile(rf"\p{{Ll}}{{2}},?{_SPACE}(?P<given>{_WORD})$", re.V1)
_PROSE_FROM = re.compile(rf",?{_SPACE}\p{{Ll}}+{_SPACE}\p{{Ll}}", re.V1)
"""Between these a line ends within a sentence: "The applicant, Dimitrios / Papadakis, is a"."""
_NEXT_WORD = re.compile(rf"{_SPACE}(?P<word>{_WORD})", re.V1)
_LEGAL_FORM = re.compile(
    rf",?{_SPACE}(?:& {_WORD},?{_SPACE})?(?:{'|'.join(LEGAL_FORMS)})(?![\w-])", re.V1
)
_NEXT_IS_LABEL = re.compile(r"[ \t]*\r?\n[ \t]*[^\W\d][^\n:]{1,30}:[ \t]")
"""What follows the name at the head of a record card: a line with a label."""
_GENERATION = re.compile(
    rf"(?:,?{_SPACE}(?:[JS]r\b\.?|[JS]R\b)|{_SPACE}(?:I{{2,3}}|IV)\b)(?![\w'’-])", re.V1
)
_STATES = ("U.S.", "U.K.", "E.U.", "U.N.")


class FoundName(NamedTuple):
    """A name's position in a text, and how likely it is one."""

    start: int
    end: int
    score: float


class _Piece(NamedTuple):
    """A word of a run: a title, "St.", initials, a word with a capital, or a particle."""

    kind: str
    start: int
    end: int
    text: str

    @property
    def bare(self) -> str:
        """The word without a genitive's ending."""
        return str(_POSSESSIVE.sub("", self.text))

    @property
    def key(self) -> str:
        """The word as the lists have it."""
        return name_key(self.bare)

    @property
    def shouted(self) -> bool:
        """Whether it is all in capitals."""
        return self.kind == "word" and len(self.text) > 1 and self.text.isupper()


@dataclass
class _Cells:
    """Where the cells of a text are, and which of them hold people by their label or heading."""

    text: str
    bounds: list[tuple[int, int]] = field(default_factory=list)
    labelled: dict[int, str] = field(default_factory=dict)
    """Labels by the cells' numbers."""
    in_list: tuple[int, str] = (0, "")
    """Where the last person of a list ended, and its label."""

    def __post_init__(self) -> None:
        start = 0
        tag: re.Match[str] | None = None
        lines: list[list[int]] = [[]]
        for border in (*_BORDER.finditer(self.text), None):
            end = border.start() if border else len(self.text)
            if end > start and self.text[start:end].strip():
                if tag:
                    self.labelled[len(self.bounds)] = tag["role"].lower()
                lines[-1].append(len(self.bounds))
                self.bounds.append((start, end))
            if border:
                start = border.end()
                tag = _TAG.fullmatch(border.group())
                if _BREAKS_LINE.fullmatch(border.group()):
                    lines.append([])
        self.bounds = self.bounds or [(0, len(self.text))]  # all of it is in a bracket, say
        self._starts = [start for start, _ in self.bounds]
        self._label_columns(lines)
        self._label_items(lines)

    def index(self, position: int) -> int:
        """Return the number of the cell that a position is in."""
        return max(0, bisect_right(self._starts, position) - 1)

    def context(self, pieces: Sequence[_Piece]) -> "_Context":
        """Return what stands around words in their cell."""
        return self.context_of(pieces[0].start, pieces[-1].end)

    def context_of(self, start: int, end: int) -> "_Context":
        """Return what stands around a place in its cell."""
        number = self.index(start)
        first, last = self.bounds[number]
        before = self.text[max(first, start - NEAR) : start]
        after = self.text[end : min(last, end + NEAR)]
        starts = start - first <= NEAR and _BULLET.fullmatch(before) is not None
        fills = starts and last - end <= NEAR and _TAIL.fullmatch(after) is not None
        label = self.labelled.get(number, "") if starts else ""
        if not label and not _OF_A_THING.search(before):
            label = self._label_before(before, start, end, whole=start - first <= NEAR)
        addressed = _ADDRESS.match(self.text, end) is not None
        return _Context(before, after, number, label, starts, fills, addressed)

    def _label_before(self, before: str, start: int, end: int, *, whole: bool) -> str:
        """Return the label that words stand behind, or of the list that they go on; "" if none."""
        listed_to, label = self.in_list
        if label and _LIST_GOES_ON.fullmatch(self.text, listed_to, start):
            return label
        if dashed := _DASHED.search(before):
            return f"{dashed['role'].lower()} -"
        if _SIGNED_OFF.search(before):
            return "signed -"
        match = _LABEL.search(before) or _CARE_OF.search(before)
        if match is None and whole:
            match = _HEADER.fullmatch(before)
            if match is None and _CARD_GOES_ON.match(self.text, end):
                match = _CARD.fullmatch(before)
        return match["role"].lower() if match else ""

    def _label_columns(self, lines: Sequence[Sequence[int]]) -> None:
        """Find the cells below a heading of their column, and behind a label of their line."""
        columns: dict[int, str] = {}
        width = 0
        for cells in lines:
            if len(cells) > 1:
                headings = {i: label for i, c in enumerate(cells) if (label := self._heading(c))}
                if headings and len(cells) != width:
                    columns, width = headings, len(cells)
                elif len(cells) == width:
                    self.labelled |= {cells[i]: label for i, label in columns.items()}
                for i, number in enumerate(cells[:-1]):
                    if self._cell(number).rstrip().endswith(":") and i in headings:
                        self.labelled[cells[i + 1]] = headings[i]
                if len(cells) == 2 and set(headings) == {0} and " " in self._cell(cells[1]).strip():
                    self.labelled[cells[1]] = headings[0]
            elif cells and not re.fullmatch(r"[\s:|+-]*", self._cell(cells[0])):
                columns, width = {}, 0

    def _label_items(self, lines: Sequence[Sequence[int]]) -> None:
        """Find the cells below a closing or a heading: one, or several of "Present:"."""
        heading, goes_on = "", False
        for cells in lines:
            if not cells:  # an empty line ends a list, not a heading
                heading = "" if goes_on else heading
                continue
            item = self._cell(cells[0])
            if heading and _ITEM.fullmatch(item):
                self.labelled.setdefault(cells[0], heading)
                goes_on = True
            else:
                heading = ""
            if not heading or not _is_of_several(heading):
                heading, goes_on = self._list_heading(cells), False

    def _list_heading(self, cells: Sequence[int]) -> str:
        """Return the label of a line above people; "" if it is none."""
        cell = self._cell(cells[-1])
        if _CLOSING.fullmatch(cell):
            return "signature"
        if len(cells) > 1 or _OF_A_THING.search(cell):
            return ""
        if match := _HEAD_OF_LIST.fullmatch(cell):
            return str(match["role"].lower().split()[-1])
        label = self._heading(cells[0]) if cell.rstrip("* ").endswith(":") else ""
        return "" if label in PLACE_LABELS else label

    def _cell(self, number: int) -> str:
        start, end = self.bounds[number]
        return self.text[start:end]

    def _heading(self, number: int) -> str:
        cell = self._cell(number)
        match = _HEADING.fullmatch(cell) if len(cell) < 40 else None
        return match["role"].lower() if match and not _OF_A_THING.search(cell) else ""


def _is_of_several(label: str) -> bool:
    return label in LIST_LABELS or label.endswith("s")


class _Context(NamedTuple):
    """What stands near a run within its cell."""

    before: str
    after: str
    cell: int
    label: str
    """That of the words, in lower case; "" if they have none."""
    starts_cell: bool
    fills_cell: bool
    addressed: bool
    """Whether a mail address in angle brackets follows."""


def latin_names(text: str) -> Iterator[FoundName]:
    """Yield the names of people in a text, in no order; none overlaps another."""
    lists = name_lists()
    text = _with_capitals(text.translate(_HAN_MARKS), lists)
    if not re.search(_UPPER, text, re.V1):
        return
    text = _without_places(text, lists)
    joined = _join_wrapped(text)
    cells = _Cells(joined)
    names: list[tuple[FoundName, str, int, bool]] = []
    pending: list[tuple[FoundName, str, int]] = []
    in_prose: list[tuple[FoundName, str, int]] = []
    for run in _RUN.finditer(joined):
        pieces = [
            _Piece(str(match.lastgroup), match.start(), match.end(), match.group())
            for match in _PIECE.finditer(joined, *run.span())
        ]
        if pieces and _COLON.match(joined, run.end()):
            # "Patient: Helga Brunner Consultant: ...": the last word is the next label.
            before = cells.context(pieces).before
            pieces = pieces[:-1] if _IN_LABELLED.search(before) else pieces
        if not pieces or _LETTERS_ONLY.fullmatch(run.group()):
            continue
        pieces = _with_surnames(pieces, lists)
        context = cells.context(pieces)
        found = list(_names(pieces, lists, cells))
        if found and _is_of_several(context.label):
            cells.in_list = (found[-1][0].end, context.label)
        alone = context.fills_cell or _is_turn(joined, run.end(), context)
        names += [(name, surname, context.cell, alone) for name, surname in found]
        if not found and _could_be(pieces, lists):
            name = FoundName(pieces[0].start, _end(pieces[-1]), ENDING)
            kind = pending if alone and len(pieces) > 1 else in_prose
            kind.append((name, pieces[-1].bare, context.cell))
    names += _beside(names, pending)
    names += _joined(joined, names, in_prose)
    names += _several(joined, names, cells, lists)
    names += _also_greeted(joined, names, cells, lists)
    names += _judges(joined, names, cells)
    found_names = _with_generations(joined, _surname_first(joined, cells, lists, names))
    positions: set[int] = set()
    surnames: dict[str, float] = {}
    for name, surname in found_names:
        known = lists.last | {"ng"}
        is_short = name.end - name.start <= LONGEST_CUT and name_key(surname) not in known
        if is_short and text[name.end : name.end + 1] == ".":
            continue  # what an initial of two letters leaves of "Mr Kh."
        positions.update(range(name.start, name.end))
        if name_key(surname) not in lists.common:
            surnames.setdefault(surname, name.score)
        yield name
    for found_at, end, surname in _again(text, surnames):
        start = _with_given(text, found_at, lists)
        after = match["word"] if (match := _NEXT_WORD.match(text, end)) else ""
        if name_key(after) in PLACE_WORDS or after in LEGAL_FORMS:
            continue  # "Ferrars Court"
        if positions.isdisjoint(range(start, end)):
            positions.update(range(start, end))
            yield FoundName(start, end, surnames[surname])


def _with_generations(
    text: str, names: Iterable[tuple[FoundName, str]]
) -> Iterator[tuple[FoundName, str]]:
    """Yield the names, each up to the end of what tells it from an ancestor's: "Ford II"."""
    for name, surname in names:
        behind = _GENERATION.match(text, name.end)
        yield name._replace(end=behind.end()) if behind else name, surname


def _is_turn(text: str, end: int, context: _Context) -> bool:
    """Tell whether words that end there say who speaks: "Quillon Pryx: where?"."""
    return context.starts_cell and _COLON.match(text, end) is not None


def _with_capitals(text: str, lists: NameLists) -> str:
    """Return the text with a capital at listed names in small letters that are spoken to."""

    def capital(match: "re.Match[str]") -> str:
        given, family = match["given"], match["family"] or ""
        common = lists.common | FUNCTION_WORDS
        known = given in lists.first - common and not _ADDRESSED.fullmatch(given)
        named = "name" in match["cue"] and family not in common
        if not known or (family and not named and family not in lists.last - common):
            return str(match[0])
        return str(match["cue"] + given.title() + match["gap"] + family.title())

    def surname(match: "re.Match[str]") -> str:
        first, _, second = match["names"].partition(" ")
        families = lists.last - lists.common - FUNCTION_WORDS - {"said"}
        if name_key(first) in families:
            return str(match["title"] + first.title() + match["names"][len(first) :])
        both = name_key(first) in lists.first and name_key(second) in families
        return str(match["title"] + match["names"].title() if both else match[0])

    text = str(_IN_SMALL_LETTERS.sub(capital, text))
    return str(_TITLED_IN_SMALL_LETTERS.sub(surname, text))


def _without_places(text: str, lists: NameLists) -> str:
    """Return the text with places, firms and terms of two words, but no surnames, in small letters.

    Offsets stay.
    """

    def small(match: "re.Match[str]") -> str:
        before = _BEFORE_SURNAME.search(text, max(0, match.start() - NEAR), match.start())
        named = before and name_key(before["given"]) in lists.first
        return str(match[0] if named else match[0].lower())

    return str(_PLACES.sub(small, text))


def _again(text: str, surnames: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Yield where surnames stand, with those joined to them by a hyphen, and which one it is."""
    long = [surname for surname in surnames if len(surname) >= SHORTEST_AGAIN]
    more = rf"{_UPPER}{_LETTER}*"
    pattern = (
        rf"{_BEGINS}(?:{more}[-–])?(?:(?P<surname>\L<long>)|(?<=[Tt]he )(?P<surname>\L<long>)s)"
        rf"(?:[-–]{more})?(?![[\w--_]\-]|_\w)"
    )
    for match in re.finditer(pattern, text, re.V1, long=long) if long else ():
        yield match.start(), match.end(), match["surname"]


def _with_given(text: str, start: int, lists: NameLists) -> int:
    """Return where a name begins whose surname is found again: at its given names or initials."""
    while match := _BEFORE_SURNAME.search(text, max(0, start - NEAR), start):
        word = match["given"]
        kind = "initials" if word.endswith(".") else "word"
        piece = _Piece(kind, match.start(), match.start() + len(word), word)
        if AT_TITLE.fullmatch(word) or piece.bare != word or _looks_common(piece):
            break
        if piece.shouted and piece.key not in lists.first:
            break
        start = match.start()
    return start


def name_within(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the name within what a model found: without titles and roles, up to a border."""
    joined = _join_wrapped(text)
    border = _BORDER.search(joined, start, end)
    end = border.start() if border else end
    while lead := _LEAD.match(joined, start, end):
        start = lead.end()
    return (start, end) if re.search(r"\p{L}{2}", joined[start:end]) else None


def _join_wrapped(text: str) -> str:
    """Return the text with a space for each line end within a sentence; offsets stay."""
    lists = name_lists()

    def space(match: "re.Match[str]") -> str:
        start, key = text.rfind("\n", 0, match.start()) + 1, name_key(match["next"])
        means = key in lists.common or key in FUNCTION_WORDS or _COMMON_ENDING.search(key)
        is_name = key in lists.first or key in lists.last or not means
        line = text[start : match.start()].rstrip()
        goes_on = len(line) >= WRAPPED and line[-1] != "." and len(match["more"]) >= LEAST_MORE
        titled = _BEHIND_TITLE.search(text, start, match.start()) or (
            (half := _TITLED_GIVEN.search(text, start, match.start()))
            and name_key(half["given"]) in lists.first
            and not (means or _AT_FIELD.match(text, match.end()))
        )
        prose = _PROSE_TO.search(line) if _PROSE_FROM.match(match["more"]) else None
        half = prose and name_key(prose["given"]) in lists.first - lists.common
        is_name = is_name and not _CLOSING.match(text, match.end())
        return " " if is_name and (goes_on or titled or half) else "\n"

    joined: str = _WRAP.sub(space, text)
    return joined


def _end(piece: _Piece) -> int:
    return piece.start + len(piece.bare.rstrip())


def _names(
    pieces: Sequence[_Piece], lists: NameLists, cells: _Cells
) -> Iterator[tuple[FoundName, str]]:
    """Yield each name of words that stand together, with its surname."""
    position = 0
    while position < len(pieces):
        if pieces[position].kind == "title":
            sure = False
            while position < len(pieces) and pieces[position].kind == "title":
                sure |= _root(pieces[position]) not in OFFICES
                position += 1
            length = _titled_length(pieces[position : _title(pieces, position)], lists, sure=sure)
            words = _trim_particles(pieces[position : position + length])
            if words and not all(word.kind == "initials" for word in words):
                yield FoundName(words[0].start, _end(words[-1]), TITLED), words[-1].bare
                position += length
            continue
        end = _title(pieces, position)
        yield from _untitled(pieces[position:end], lists, cells)
        position = end


def _with_surnames(pieces: Sequence[_Piece], lists: NameLists) -> list[_Piece]:
    """Return the pieces with titles that are surnames here as words: Dr Pan, Sir John Major."""
    result = list(pieces)
    for i, piece in enumerate(pieces):
        if piece.kind != "title" or name_key(_root(piece)) not in lists.last:
            continue
        before, after = pieces[i - 1] if i else None, pieces[i + 1 : i + 2]
        titled = before is not None and before.kind == "title" and _root(before) not in OFFICES
        given = before is not None and before.kind != "title" and before.key in lists.first
        if not after:
            is_surname = titled or given
        else:
            chinese = before is None and len(pieces) == 2 and _is_syllable(after[0])
            is_surname = _root(piece) not in OFFICES and (
                titled or (_is_syllable(piece) and chinese)
            )
        if is_surname:
            result[i] = _Piece("word", piece.start, piece.start + len(_root(piece)), _root(piece))
    return result


def _root(title: _Piece) -> str:
    return str(re.split(r"[.\s]", title.text)[0])


def _is_syllable(piece: _Piece) -> bool:
    return len(piece.text) <= LONGEST_SYLLABLE and _PINYIN.fullmatch(piece.key) is not None


def _title(pieces: Sequence[_Piece], position: int) -> int:
    """Return where the next title is; if there is none, how many pieces there are."""
    return next((i for i in range(position, len(pieces)) if pieces[i].kind == "title"), len(pieces))


def _titled_length(pieces: Sequence[_Piece], lists: NameLists, *, sure: bool) -> int:
    """Return how many words behind a title belong to the name."""
    length = words = 0
    given_only = True
    for i, piece in enumerate(pieces):
        if words >= MOST_WORDS:
            break
        if piece.kind == "word":
            key, common = piece.key, _is_common(piece, lists)
            before = pieces[i - 1] if i else None
            if piece.text in _STATES or _is_acronym(
                before, piece, lists, first=given_only, words=words
            ):
                break
            if not sure and not words and (common or (not i and _looks_like_noun(piece, lists))):
                break
            if common and words and not (given_only and key in lists.last):
                break
            given_only = given_only and key in lists.first
            words += 1
            length = i + 1
            if common and words > 1:
                break
        elif piece.kind == "initials":
            if piece.text in _STATES or (words and not given_only):
                break
            length = i + 1
        elif not piece.text.islower():  # "al-Masri", "d'Aubigny", "St. John"
            words += 1
            length = i + 1
    return length


def _is_acronym(
    before: _Piece | None, piece: _Piece, lists: NameLists, *, first: bool, words: int
) -> bool:
    """Tell whether short capitals behind words are none of a name: "Mr Quist MP", not "John COX".

    Args:
        first: Whether the words before are first names only.
        words: How many words of the name stand before.
    """
    if not piece.shouted or before is None or before.text in PARTICLES_IN_CAPITALS:
        return False
    unlisted = piece.key not in lists.first and piece.key not in lists.last
    if piece.text in PARTICLES_IN_CAPITALS or len(piece.text) > 3:
        # "MS AMY TAN CAME": a surname and a word that is none
        return before.shouted and words > 1 and before.key in lists.last and unlisted
    return (
        not first
        or (unlisted and words > 1)  # "Mr John Smith UK": Smith is a first name, too
        or _LETTERS_ONLY.fullmatch(piece.text) is not None
        or (piece.key not in lists.last and re.search("[aeiouy]", piece.key) is None)
    )


def _untitled(
    pieces: Sequence[_Piece], lists: NameLists, cells: _Cells
) -> Iterator[tuple[FoundName, str]]:
    """Yield the names among words without a title: between the words that mean something else."""
    run: list[_Piece] = []
    context = cells.context(pieces)
    forms = [i for i, piece in enumerate(pieces) if piece.text.rstrip(".") in LEGAL_FORMS]
    if _LEGAL_FORM.match(context.after) or (forms and forms[-1]):
        pieces = pieces[forms[-1] + 1 :] if forms else []  # "Blake Harrison LLP"
        context = cells.context(pieces) if pieces else context
    for words in (pieces, pieces[1:]):  # of "Dear Will" the second
        if words and _is_word_name(words, lists, cells.context(words)):
            yield FoundName(words[0].start, _end(words[-1]), LISTED), words[-1].bare
            return
    for i, piece in enumerate((*pieces, None)):
        if piece is not None and not _stops(pieces, i, lists, context):
            run.append(piece)
            if piece.bare == piece.text or piece.kind != "word":
                continue
        words = _trim_particles(run)
        child = any("/" in word.text for word in run)
        run = []
        if words and not all(word.kind == "initials" for word in words):
            words = _drop_sentence_start(words, lists)
            if score := LISTED if child else _score(words, lists, cells.context(words)):
                yield FoundName(words[0].start, _end(words[-1]), score), words[-1].bare


def _is_word_name(pieces: Sequence[_Piece], lists: NameLists, context: _Context) -> bool:
    """Tell whether all of a value or a greeting is names that are words too: "Name: May West"."""
    labelled = bool(context.label) and context.label not in PLACE_LABELS
    if not (labelled or _GREETING.search(context.before)) or not _VALUE_END.match(context.after):
        return False
    keys = [piece.key for piece in pieces]
    if len(keys) == 1 and context.label in SURNAME_LABELS:
        return keys[0] in lists.last
    return (
        len(keys) <= (MOST_WORDS if labelled else 1)
        and all(piece.kind == "word" and not piece.shouted for piece in pieces)
        and keys[0] in lists.first - FUNCTION_WORDS | {"may", "will", "can"}
        and keys != ["can"]
        and not _NO_PERSON.fullmatch(keys[0])
        and keys[-1] not in PLACEHOLDERS | PLACE_WORDS - {keys[0], "hill", "lane", "park"}
        and all(key in lists.first or key in lists.last for key in keys)
    )


def _is_common(piece: _Piece, lists: NameLists) -> bool:
    return (
        piece.bare.title() in NO_NAMES
        or (key := word_key(piece.bare)) in lists.common
        or key in FUNCTION_WORDS
    )


def _stops(pieces: Sequence[_Piece], i: int, lists: NameLists, context: _Context) -> bool:
    """Tell whether no name goes on here: at an institution, a place, an abbreviation."""
    piece = pieces[i]
    saint = i if piece.kind == "saint" else i - 1
    if saint >= 0 and pieces[saint].kind == "saint":  # of a church, not as in "Jill St John"
        given = _neighbour(pieces[:saint][::-1])
        return given is None or not _is_given(given, lists) or _is_common(given, lists)
    if piece.kind != "word":
        letters = piece.kind == "initials" and 0 < i == len(pieces) - 1
        return piece.text.strip() in _STATES or (
            letters and _LETTERS_ONLY.fullmatch(piece.text) is not None
        )
    before, after = _neighbour(pieces[:i][::-1]), _neighbour(pieces[i + 1 :])
    if piece.shouted:
        named = _is_shouted_name(piece, before, after, lists, context)
        return not (named or _is_shouted_whole(pieces, i, lists, context))
    if not _is_common(piece, lists) or _PLACE.search(context.before):
        return _is_common(piece, lists)
    if piece.key in lists.first and _OF_A_FAMILY.match(pieces[i + 1].text if after else ""):
        return False
    is_surname = before is not None and _name_like(before, piece, lists)
    ends = is_surname and (after is None or _is_common(after, lists))
    begins = after is not None and _name_like(piece, after, lists)
    if after is not None and piece.key in lists.first and _IS_A_PERSON.match(context.after):
        begins |= not _looks_common(after)
    korean = after is not None and piece.key in lists.last and _is_korean(after)
    return not korean and (piece.key in FUNCTION_WORDS or not (ends or begins))


def _neighbour(pieces: Sequence[_Piece]) -> _Piece | None:
    """Return the word that comes first, beyond particles as in "Jan van der Berg"."""
    beyond = next((p for p in pieces if p.kind != "particle" or not p.text.islower()), None)
    return beyond if beyond is not None and beyond.kind == "word" else None


def _name_like(given: _Piece, family: _Piece, lists: NameLists) -> bool:
    """Tell whether two words, one of which means something else too, are a name together."""
    if not _is_given(given, lists) or word_key(given.bare) in FUNCTION_WORDS:
        return False
    surname = family.key in lists.last or _ENDING.search(family.key) is not None
    both = _is_common(given, lists) and family.key in PLACE_WORDS - {"hill", "lane", "park"}
    both |= given.key in PLACE_WORDS and family.key in PLACE_WORDS
    return surname and not both


def _is_given(piece: _Piece, lists: NameLists) -> bool:
    """Tell whether a word is a listed first name, or several with hyphens."""
    parts = (name_key(part) for part in piece.bare.split("-"))
    return piece.key in lists.first or lists.first.issuperset(parts)


def _is_shouted_name(
    piece: _Piece,
    before: _Piece | None,
    after: _Piece | None,
    lists: NameLists,
    context: _Context,
) -> bool:
    """Tell whether a word in capitals belongs to a name: "Ann LEE", a cell with "ANN LEE"."""
    small = [word for word in (before, after) if word is not None and not word.shouted]
    if any(word.key in lists.first for word in small):
        return len(piece.text) > 3 or piece.key in lists.last
    surname = piece.key in lists.last and len(piece.text) > 3  # "SUZUKI Ichiro", "CID Unit"
    if after in small and before is None and surname:
        return not _is_common(piece, lists) and not _looks_common(small[-1])
    alone = context.label or context.fills_cell
    if piece.text in PARTICLES_IN_CAPITALS and after is not None:
        return bool(alone)
    return bool(alone) and len(piece.text) > 2 and not _is_common(piece, lists)


def _is_shouted_whole(
    pieces: Sequence[_Piece], i: int, lists: NameLists, context: _Context
) -> bool:
    """Tell whether the words in capitals around one are first names and a surname."""
    start = end = i
    while start and _may_be_shouted(pieces[start - 1], lists):
        start -= 1
    while end < len(pieces) and _may_be_shouted(pieces[end], lists):
        end += 1
    words = pieces[start:end]
    if not 2 <= len(words) <= MOST_WORDS - 1:
        return False
    given, family = words[:-1], words[-1]
    known = family.key in lists.last or _has_ending(family.key)
    if len(words) == len(pieces) == 2 and _BETWEEN_MARKS.match(context.after):
        known |= context.before.endswith((", ", "("))
    return (
        known
        and family.shouted
        and given[0].key in lists.first
        and all(word.kind == "initials" or word.key in lists.first | lists.last for word in given)
        and not _looks_common(family)
    )


def _may_be_shouted(piece: _Piece, lists: NameLists) -> bool:
    return piece.kind == "initials" or (piece.shouted and not _is_common(piece, lists))


def _trim_particles(run: Sequence[_Piece]) -> list[_Piece]:
    """Return the words without particles at their ends, unless a name begins with one."""
    words = list(run)
    while (
        words
        and words[-1].kind == "particle"
        and not words[-1].text[-1].isupper()
        and (words[-1].text.islower() or "/" in words[-1].text)
    ):
        words.pop()
    while (
        words
        and words[0].kind == "particle"
        and (words[0].text in ("y", "e", "a") or "/" in words[0].text)
    ):
        words.pop(0)
    return words


def _drop_sentence_start(words: list[_Piece], lists: NameLists) -> list[_Piece]:
    """Return the words without a first one that only a sentence begins with: "Ask Ann Lee"."""
    while (
        len(words) > 2
        and words[0].kind == "word"
        and words[0].key not in lists.first
        and words[0].key not in lists.last
        and words[1].key in lists.first
        and _COMMON_ENDING.search(words[0].key)
    ):
        words = words[1:]
    return words


def _score(run: Sequence[_Piece], lists: NameLists, context: _Context) -> float:
    """Return how sure such words are a name without a title; 0 where they are none."""
    words = [piece for piece in run if piece.kind != "particle" or not piece.text.islower()]
    first, last = words[0].key, words[-1].key
    if run[0].kind == "particle" and not (context.label or context.fills_cell):
        return 0.0
    sure = len(words) == 1 and first in lists.first and not _is_common(words[0], lists)
    greeted = _GREETING.search(context.before) and (sure or _GREETED.match(context.after))
    if greeted and (len(words) > 1 or not _ADDRESSED.fullmatch(first)):
        return LISTED if first in lists.first or last in lists.last else ENDING
    if context.label and _CELL_END.match(context.after):
        return LISTED if _is_labelled(words, lists, context) else 0.0
    single = len(words) == 1 or (len(words) == 2 and words[-1].kind == "initials")
    if single or len(words) > MOST_WORDS:
        return LISTED if single and _is_single_name(words[0], lists, context) else 0.0
    return _score_words(run, words, lists, context)


def _is_single_name(word: _Piece, lists: NameLists, context: _Context) -> bool:
    """Tell whether the words around one word say that it is a person's name."""
    if _is_common(word, lists) or _ADDRESSED.fullmatch(word.key):
        return False
    speaks = _TIME.fullmatch(context.before) and _COLON.match(context.after)
    if speaks or _RELATED.search(context.before):
        return not _looks_common(word) and not word.shouted
    if _APPOSITION.match(context.after) and word.key in lists.last and not word.shouted:
        return True
    known = word.key in lists.first or _has_ending(word.key)
    return known and _INTRODUCED.search(context.before) is not None


def _is_labelled(words: Sequence[_Piece], lists: NameLists, context: _Context) -> bool:
    """Tell whether words behind a label are a name: by lists, or since nothing says otherwise."""
    if words[0].key in PLACEHOLDERS or all(len(word.text) == 1 for word in words):
        return False
    if words[0].key in lists.first or any(
        word.key in lists.last and not _is_common(word, lists) for word in words
    ):
        return True
    if context.label in OF_FIRMS and context.before.strip() and not _has_ending(words[-1].key):
        return False  # "Client: Quantum Leap"; in a column called so the rows around it count
    loose = context.label in LOOSE_LABELS or context.label.endswith("-")
    if not loose:  # "Odalric Penhallurick", but not "Abdominal Distension"
        return not (any(_is_common(w, lists) for w in words) or all(map(_looks_common, words)))
    enough = len(words) > 1 or _has_ending(words[0].key)
    return enough and not any(map(_looks_common, words))


def _score_words(
    run: Sequence[_Piece], words: Sequence[_Piece], lists: NameLists, context: _Context
) -> float:
    """Return how sure several words are a name by what they are."""
    initials = words[0].kind == "initials"
    if words[-1].key in BUILDINGS:
        return 0.0
    if not initials and _is_given(words[0], lists):
        return LISTED
    if _PLACE.search(context.before):
        return ENDING if _has_ending(words[-1].key) and not initials else 0.0
    if initials:
        return _score_initials(words, lists, context)
    return _score_unlisted(run, words, lists, context)


def _score_initials(words: Sequence[_Piece], lists: NameLists, context: _Context) -> float:
    last = words[-1]
    if last.key in lists.last or _has_ending(last.key) or context.fills_cell:
        return LISTED
    several = sum(word.text.count(".") for word in words if word.kind == "initials") > 1
    item = context.starts_cell and not several  # "A. Quillon"
    return 0.0 if item or _looks_common(last) else ENDING


def _score_unlisted(
    run: Sequence[_Piece], words: Sequence[_Piece], lists: NameLists, context: _Context
) -> float:
    """Return how sure words are a name of which no list has the first as a first name."""
    keys = [word.key for word in words]
    given = any(key in lists.first for key in keys)
    romanized = len(keys[0]) <= LONGEST_SYLLABLE and all(map(_PINYIN.fullmatch, keys))
    if keys[0] in lists.last and (given or romanized or _is_korean(words[-1])):
        return LISTED
    if keys[0] in lists.last and words[0].shouted and not words[-1].shouted:  # "SUZUKI Ichiro"
        return ENDING
    people = any(
        piece.kind == "particle" and piece.text.split("-")[0] in OF_PEOPLE | {"al", "el"}
        for piece in run
    )
    double = "-" in words[-1].bare and any(
        name_key(part) in lists.last for part in words[-1].bare.split("-")
    )
    known = (keys[-1] in lists.last or double or _has_ending(keys[-1])) and not any(
        map(_looks_common, words[:-1])
    )
    near = _PERSON_AFTER.match(context.after) or _PERSON_BEFORE.search(context.before)
    near = near or context.addressed
    acts = near and len(words[-1].text) > 1 and not any(map(_looks_common, words))
    return ENDING if people or known or given or acts else 0.0


def _is_korean(piece: _Piece) -> bool:
    return "-" in piece.text and _KOREAN.fullmatch(piece.text.casefold()) is not None


def _has_ending(key: str) -> bool:
    return len(key) >= SHORTEST_ENDING and _ENDING.search(key) is not None


def _looks_common(piece: _Piece) -> bool:
    """Tell whether a word that no list of names has ends like a noun or an adjective."""
    lists = name_lists()
    key = piece.key
    if key in lists.first or key in lists.last:
        return False
    return _COMMON_ENDING.search(key) is not None or _is_common(piece, lists)


def _looks_like_noun(piece: _Piece, lists: NameLists) -> bool:
    """Tell whether an unlisted word is hardly a surname: "Major Haemorrhage", "Chief Nursing"."""
    listed = piece.key in lists.first or piece.key in lists.last
    return not listed and _NOUN_ENDING.search(piece.key) is not None


def _could_be(pieces: Sequence[_Piece], lists: NameLists) -> bool:
    """Tell whether a cell's words are written like a name, if its neighbours are names."""
    words = [p for p in pieces if p.kind != "particle"]
    if len(words) == 1 and words[0].key in lists.first:
        return words[0].kind == "word" and not _is_common(words[0], lists)
    both = (
        len(words) == 2 and words[0].key in lists.first and words[1].key in lists.last - PLACE_WORDS
    )
    return (
        2 <= len(words) <= MOST_WORDS - 1
        and all(p.kind in ("word", "initials") for p in words)
        and not any(p.shouted for p in words)
        and not any(map(_looks_common, words))
        and (both or not any(_is_common(p, lists) for p in words))
    )


def _beside(
    names: Sequence[tuple[FoundName, str, int, bool]],
    pending: Sequence[tuple[FoundName, str, int]],
) -> list[tuple[FoundName, str, int, bool]]:
    """Return the cells that are written like names and stand next to names, as in a list."""
    known = {cell for _, _, cell, fills in names if fills}
    result = []
    waiting = list(pending)
    while near := [p for p in waiting if {p[2] - 1, p[2] + 1} & known]:
        result += [(*one, True) for one in near]
        waiting = [p for p in waiting if not {p[2] - 1, p[2] + 1} & known]
        known |= {cell for _, _, cell in near}
    return result


def _joined(
    text: str,
    names: Sequence[tuple[FoundName, str, int, bool]],
    pending: Sequence[tuple[FoundName, str, int]],
) -> list[tuple[FoundName, str, int, bool]]:
    """Return what is written like a name and joined to one: "Ann Lee and Xyla Qomo"."""
    starts = {name.start for name, *_ in names}
    ends = {name.end for name, *_ in names}
    lists = [
        match.span()
        for match in _LIST.finditer(text)
        if match["last"] and sum(match.start() <= start < match.end() for start in starts) > 1
    ]
    ordered = sorted(pending, key=lambda one: one[0].start)
    joined: dict[int, tuple[FoundName, str, int, bool]] = {}

    def add(one: tuple[FoundName, str, int]) -> None:
        joined[one[0].start] = (*one, False)
        starts.add(one[0].start)
        ends.add(one[0].end)

    for one in ordered:
        start, end = one[0].start, one[0].end
        before = _AND_BEFORE.search(text, max(0, start - 12), start)
        listed = any(first <= start and end <= last for first, last in lists)
        if listed or (before and before.start() in ends):
            add(one)
    for one in reversed(ordered):
        start, end = one[0].start, one[0].end
        after = _AND.match(text, end)
        if after is None and _BEGINS_LIST.search(text, max(0, start - 3), start):
            after = _NEXT_OF_LIST.match(text, end)
        if start not in joined and after and after.end() in starts:
            add(one)
    return list(joined.values())


def _several(
    text: str,
    names: Sequence[tuple[FoundName, str, int, bool]],
    cells: _Cells,
    lists: NameLists,
) -> list[tuple[FoundName, str, int, bool]]:
    """Return the names that share the plural title of another: "Drs Quist and Odum"."""
    starts = {name.start for name, *_ in names}
    result = []
    for name, *_ in names:
        if not _BEHIND_PLURAL.search(text, max(0, name.start - NEAR), name.start):
            continue
        if others := _SEVERAL.match(text, name.end):
            for start, end in others.spans("name"):
                surname = text[start:end].rsplit(maxsplit=1)[-1]
                if start not in starts and name_key(surname) not in lists.common:
                    one = FoundName(start, end, TITLED)
                    result.append((one, surname, cells.index(start), False))
    return result


def _also_greeted(
    text: str,
    names: Sequence[tuple[FoundName, str, int, bool]],
    cells: _Cells,
    lists: NameLists,
) -> list[tuple[FoundName, str, int, bool]]:
    """Return the names that are greeted with another: "Dear Tobias, Helga and Milan,"."""
    result = []
    for name, *_ in names:
        if not _GREETING.search(text, max(0, name.start - NEAR), name.start):
            continue
        if others := _ALSO_GREETED.match(text, name.end):
            for start, end in others.spans("name"):
                word = _Piece("word", start, end, text[start:end])
                if not (_is_common(word, lists) or _ADDRESSED.fullmatch(word.key)):
                    one = FoundName(start, end, LISTED)
                    result.append((one, word.bare, cells.index(start), False))
    return result


def _judges(
    text: str, names: Sequence[tuple[FoundName, str, int, bool]], cells: _Cells
) -> Iterator[tuple[FoundName, str, int, bool]]:
    """Yield the surnames before a judge's letters, but those within names that were found."""
    taken = {place for name, *_ in names for place in range(name.start, name.end)}
    for match in _JUDGES.finditer(text):
        for start, end in match.spans("name"):
            word = _Piece("word", start, end, text[start:end])
            if start not in taken and not word.shouted and not _looks_common(word):
                yield FoundName(start, end, TITLED), word.bare, cells.index(start), False


def _surname_first(
    text: str,
    cells: _Cells,
    lists: NameLists,
    names: Sequence[tuple[FoundName, str, int, bool]],
) -> list[tuple[FoundName, str]]:
    """Return the names, with those that are written surname first: "Ashworth, Tobias"."""
    whole: list[tuple[FoundName, str]] = []
    for match in _COMMA.finditer(text):
        start, family, words = match.start(), match["last"], match["first"].split()
        role, _, shouted = family.partition(" ")
        if role.title() in NO_NAMES and shouted.isupper():  # "Pt MWANGI, Grace"
            start, family = start + len(role) + 1, shouted
        context = cells.context_of(start, match.end())
        if AT_TITLE.match(family) or _BEHIND_TITLE.search(context.before):
            continue
        heads = context.fills_cell and _NEXT_IS_LABEL.match(text, match.end())
        common = (name_key(word) in lists.common for word in (*family.split(), *words))
        if not (heads and not any(common)) and not _is_surname_first(family, words, lists, context):
            continue
        cut = next(
            (i for i, w in enumerate(words) if i and not (name_key(w) in lists.first or "." in w)),
            len(words),
        )
        end = match.start("first") + len(" ".join(words[:cut]))
        end = start + len(_POSSESSIVE.sub("", text[start:end]))
        whole.append((FoundName(start, end, LISTED), family.split()[-1]))
    taken = {place for name, _ in whole for place in range(name.start, name.end)}
    rest = [
        (name, surname)
        for name, surname, _, _ in names
        if taken.isdisjoint(range(name.start, name.end))
    ]
    return [*whole, *rest]


def _is_surname_first(
    family: str, given: Sequence[str], lists: NameLists, context: _Context
) -> bool:
    """Tell whether words before and after a comma are one person's name."""
    keys = [name_key(word) for word in family.split()]
    means = any(key in lists.common and key not in lists.last for key in keys)
    place = keys[-1] in PLACE_WORDS and (len(keys) > 1 or keys[-1] not in lists.last)
    given_known = name_key(given[0]) in lists.first or all("." in word for word in given)
    post = name_key(given[0]) in lists.common and not (given_known and context.label)
    if len(family) == 1 or means or place or post:
        return False  # "English, French"; "R. Narang, Branch Manager"
    # "Quillon Grell, Xanthor Odum"; "Witnesses: Quillon Odum, Helga Grell"
    both = given_known and all(name_key(word) in lists.first or "." in word for word in given)
    several = _is_of_several(context.label) and len(given) > 1
    capitals = sum(
        word[0].isupper() and word not in PARTICLES_IN_CAPITALS for word in family.split()
    )
    two_people = capitals > 1 and (keys[0] in lists.first or not both or several)
    in_state = given[0] in states() and not (given_known and context.label)  # "Austin, Texas"
    if two_people or name_key(given[0]) in FUNCTION_WORDS or in_state:
        return False
    listed = keys[-1] in lists.last or (
        _has_ending(keys[-1]) and not _COMMON_ENDING.search(keys[-1])
    )
    structural = (
        bool(context.label) or context.starts_cell or context.before.rstrip()[-1:] in (":", "(")
    )
    if keys[-1] in lists.first and keys[-1] not in lists.last and not structural:
        return False  # "Anna, Maria and Tom"
    if given_known:
        shouted = family.isupper() and not "".join(given).isupper()  # "Pt MWANGI, Grace"
        return structural or listed or (shouted and not _NO_PERSON.fullmatch(keys[0]))
    goes_on = _is_of_several(context.label) and _LIST_GOES_ON.match(context.after)
    if context.label in LOOSE_LABELS or goes_on:  # "Present: Fever, Cough"
        return False
    ends = _CELL_END.match(context.after) is not None
    return structural and ends and (listed or bool(context.label))
