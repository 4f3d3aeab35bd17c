"""What the name of a record's field says of its value: that it is a name, a number, an address."""

import re
from collections.abc import Sequence

import regex

from fedaudit.pii.everyday_words import everyday_words
from fedaudit.pii.person_roles import HAN_ROLES, ROLES

_HAN = "[\u4e00-\u9fff]{0,8}"
"""What a label in Chinese may say before its last word: whose number it is."""
_LABELS = {
    "PERSON": (
        r"(?:(?:full|first|last|middle|given|family|birth|maiden|sur|fore|display|legal|real"
        r"|preferred)_?)*names?|given|family|surname|forename|vorname|nachname|prenom"
        r"|(?:nom|nombres?)(?:_comple\w+)?|prénom|apellidos?|cognome|naam|nome|navn|imię|nazwisko"
        rf"|jméno|soyad|{_HAN}姓名|名字|氏名|姓|名"
    ),
    "PHONE_NUMBER": (
        r"(?:\w+_)?(?:tele)?(?:phone|mobile|cell|fax|tel)(?:_?(?:number|num|no|nr))?"
        r"|contact_?(?:number|num|no|nr)"
        r"|(?:mobil)?t[eé]l[eé](?:fon|phone|fono|fone|foon)(?:_?(?:nummer|nr))?|telefono"
        r"|(?:handy|mobil)(?:_?(?:nummer|nr))?"
        rf"|{_HAN}(?:电话|手机|移动电话|联系方式|传真|座机|電話|手機)(?:号码?|號碼?)?"
    ),
    "BIRTHDAY": r"(?:date_of_birth|birth_?(?:date|day)|dob|born|geburts(?:datum|tag)"
    r"|date_(?:de_)?naissance|fecha_(?:de_)?nacimiento|data_(?:di_)?nascita)"
    rf"|{_HAN}(?:出生(?:日期?|年月日?|时间|年份)|生年月日|生日)",
    "EMAIL_ADDRESS": r"(?:\w+_)?e_?mails?(?:_?address(?:es)?)?"
    rf"|{_HAN}(?:邮箱|电子邮件|電子郵件)(?:地址)?",
    "ADDRESS": r"(?:\w+_)?(?:address(?:_?line)?|street|postcode|zip(?:_?code)?)|adresse"
    r"|anschrift|strasse|plz|direcci[oó]n|indirizzo"
    rf"|{_HAN}(?:住址|地址|住所地?|居住地|户籍地|通讯处)",
    "ID_CARD": r"(?:national_|identity_|id_)(?:id|card|number|no|nr)"
    rf"|{_HAN}(?:身份证|身分證|身份证件|证件|公民身份)(?:号码?|號碼?)|{_HAN}(?:身份证|身分證)",
    "SSN": (
        r"ssn|nino|nhs|(?:\w+_)?(?:nhs|ni|social_?security|insurance)(?:_?(?:number|num|no|id))"
    ),
    "PASSPORT": r"passport(?:_?(?:number|num|no))?"
    rf"|{_HAN}护照(?:号码?)?",
    "MEDICAL_RECORD": (
        r"mrn|(?:medical_record|hospital|chart|patient)_?(?:number|num|no)"
        rf"|{_HAN}(?:病历|病案|住院|门诊|就诊卡|医保卡?)(?:号码?|卡号)"
    ),
    "DRIVING_LICENCE": r"(?:driv(?:ing|er|ers)_)?licen[cs]e_?(?:number|num|no)",
    "BANK_CARD": rf"(?:\w+_)?card_?(?:number|num|no)|pan|{_HAN}卡号",
    "BANK_ACCOUNT": rf"(?:\w+_)?(?:account|acct)_?(?:number|num|no)"
    rf"|{_HAN}(?:[账帐]号|[账帐]户|帳號)",
    "IBAN_CODE": r"iban",
    "USERNAME": r"user_?name|login(?:_?name)?|nick_?name|screen_?name"
    r"|微信号?|昵称|网名|qq号?|登录名",
}
"""Names of fields whose values are personal data, as labels mean them."""
_HAN_ROLE = re.compile(rf"{_HAN}(?:{'|'.join(HAN_ROLES)}|[人员師师]|[使申报记编译作笔]者)")
"""A role of two words, or any that is called by what a person does: 责任护士, 开户人."""
_NO_HAN_ROLE = re.compile(r"(?:机器|个|本|他|成|老|工|法|男|女|黑|无)人$|(?:人|成|动|演|组)员$")
"""Words with the same ends that say what someone is or how many there are."""
_PATTERNS = {label: re.compile(names) for label, names in _LABELS.items()}
_JOINTS = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\s./-]+")
_COUNTED = re.compile(r"(?<=\D)_?\d+$")
_OTHER_OBJECTS = frozenset(
    {"function", "functions", "tool", "tools", "tool_calls", "model", "file", "info_type"}
)
"""What has a name and is not a person."""
_PARTS = frozenset({"first", "last", "middle", "alias", "by"})
"""Names of fields that mean a person where the value is written like a name."""
_WHOLE = frozenset({"value", "text", "display", "full", "label", "content", "string"})
"""The part of an object that says all of it, as in {"author": {"display": "..."}}."""
_VAGUE = frozenset(
    (
        *("from", "to", "cc", "bcc", "by", "user", "member", "host", "party", "chair", "counsel"),
        *("agent", "staff", "person", "owner", "vendor", "contact", "parent", "child", "worker"),
        *("driver", "editor", "signature", "first", "last", "middle", "用户"),
    )
)
"""Of these fields the value is often another word: one alone does not count."""
_CRITERIA = frozenset({"sort", "order", "group", "filter", "partition", "split", "divided"})
"""What is done by a criterion rather than by a person."""
_LONGEST_VALUE = 100

_NAME = regex.compile(r"(?:[\p{Ll}\p{M}]{1,5}[ '’]\s*){0,3}[\p{L}--\p{Ll}]", regex.V1)
"""The beginning of a name: of its first word, or of one behind small particles."""
_CAPITAL = r"(?:[dlDLO]['’])?[\p{Lu}\p{Lt}][\p{L}\p{M}]*(?:[-'’‐‑]\p{L}[\p{L}\p{M}]*)*\.?"
_SMALL = (
    r"(?:and|und|et|y|e|de|da|do|dos|das|del|della|di|du|des|la|le|van|von|vom|der|den|ter|ten|zu"
    r"|zum|zur|af|av|bin|ibn|bint|ben|al|el|&)"
)
_UNCASED = r"[\p{Lo}\p{Lm}\p{M}]"
_NAMES = regex.compile(
    rf"(?:(?:{_SMALL}\s+)*\(?{_CAPITAL}\)?(?:[,;/]?\s+|[,;/]|\s*$)){{1,10}}"
    rf"|{_UNCASED}{{2,4}}(?:[、，,;；]\s*{_UNCASED}{{2,4}})*"
    rf"|{_UNCASED}{{1,12}}(?:[\s·・]{_UNCASED}{{1,12}}){{1,3}}",
    regex.V1,
)
"""Names and nothing else: words with capitals, or a few letters of a script without case."""
_NO_NAME = re.compile(
    r"anonym\w*|unknown|none|null|nil|nobody|various|other|self|same|yes|no|true|false|n|a|tbc|tbd"
    r"|admin\w*|system|root|default|test|bot|human|assistant|me|you|the|匿名|未知|无|佚名|不详"
    r"|待定|暂无|未定|未填|保密|本人|同上|其他|系统|管理员|全体|自动|已审核?|未审核?|通过|正常"
)
"""Words that stand in a role's field where no one is named."""
_INSTITUTION = re.compile(
    r"(?i)\b(?:ltd|limited|inc|llc|llp|plc|gmbh|corp|corporation|company|bank|council|university"
    r"|college|hospital|clinic|department|ministry|team|party|court|school|services?)\b|公司|医院"
    r"|法院|银行|大学"
)

_OF_FIELDS = (
    "address admission age allergies allergy amount answer balance birth category chief "
    "chosen city code comment comments complaint completion content context conversations "
    "country county court created currency data date department description diagnosis "
    "discharge document domain email entities entity ethnicity file gender history id ids "
    "index input instruction insurance key label labels lang language link marital "
    "medication messages meta metadata mobile model name names nationality note notes number "
    "occupation outcome output phone plan postcode prefix primary procedure profession "
    "prompt provider query question reason reference rejected religion response result "
    "results salary score secondary sex source span spans speaker split state status style "
    "summary surgery symptoms system tags target task telephone text title token tokens "
    "topic treatment turns type uid unit updated url username uuid value version visit "
    "weight zip"
)
_FIELD_WORDS = frozenset(_OF_FIELDS.split())
"""What fields are called, and people are not."""
HIDDEN_NAME = "<PERSON>"
"""What messages have for the name of a field that may be a person's."""


def shown_name(field: str) -> str:
    """Return the name of a field as messages may have it: a person's name or number is hidden."""
    part = field.rpartition(".")[2].strip()  # of "messages.name"
    personal = names_a_person(part) or re.search(r"@|\d{6}", field)
    return HIDDEN_NAME if personal else field


def names_a_person(field: str) -> bool:
    """Tell whether the name of a field may be a person's: words with capitals, none of a field's.

    In small letters, or in one word of capitals, it is taken for a field's.
    """
    words = re.findall(r"[^\W\d_]+", field)
    keys = {word.casefold() for word in words}
    known = everyday_words() | _FIELD_WORDS | ROLES
    written = _NAMES.fullmatch(field) and (len(words) > 1 or not field.isupper())
    is_field = _role(_plain(field)) or any(
        names.fullmatch(_plain(field)) for names in _PATTERNS.values()
    )
    return bool(written) and not is_field and keys.isdisjoint(known)


def label_of_value(names: Sequence[str], value: str) -> str | None:
    """Return the label of a value in the field that `names` lead to; None where it has none.

    The last name counts, and the one before it where the last says nothing: `author.display`. What
    a value looks like counts as well, since an `author` may be "anonymous" and a `user` a question.
    """
    steps = [_plain(name) for name in names]
    text = value.strip()
    if not steps or len(text) > _LONGEST_VALUE or _OTHER_OBJECTS & {*steps[:-1]}:
        return None
    has_digit = re.search(r"\d", text) is not None
    label = next((label for label, name in _PATTERNS.items() if name.fullmatch(steps[-1])), None)
    if label is None:
        role = _role(steps[-1])
        if steps[-1] in _WHOLE | _PARTS and len(steps) > 1:
            role = _role(steps[-2]) or role
        return "PERSON" if role and _reads_as_name(text, vague=role in _VAGUE) else None
    fits = {
        "PERSON": bool(_NAME.match(text)) and not has_digit,
        "EMAIL_ADDRESS": "@" in text,
        "ADDRESS": any(map(str.isalnum, text)),
        "USERNAME": bool(text) and not _is_filler(text),
    }
    return label if fits.get(label, has_digit) else None


def _plain(name: str) -> str:
    """Return the name of a field in small letters, with `_` between words and without a number."""
    return _COUNTED.sub("", _JOINTS.sub("_", name.strip()).casefold().strip("_"))


def _role(field: str) -> str | None:
    """Return what a field calls a person: `next_of_kin`, `nameOfPatient`, `judges`, `signed_by`."""
    han = re.sub(r"(?:姓名|名字|名)$", "", field)
    if han in HAN_ROLES or (_HAN_ROLE.fullmatch(han) and not _NO_HAN_ROLE.search(han)):
        return han
    words = field.split("_")
    if _PATTERNS["PERSON"].fullmatch(field):
        return field
    while len(words) > 1 and (_PATTERNS["PERSON"].fullmatch(words[-1]) or words[-1] == "full"):
        words.pop()  # patient_full_name
    last = re.sub(r"(?<=...)names?$", "", words[-1])
    if last in _PARTS:
        return None if _CRITERIA & {*words[:-1]} else last
    return next((word for word in _singulars(last) if word in ROLES), None)


def _singulars(word: str) -> tuple[str, str]:
    return word, f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def _reads_as_name(text: str, *, vague: bool) -> bool:
    """Tell whether a value is written as names are, and nothing else."""
    words = re.findall(r"[^\W\d_]+", text)
    alone = len(words) == 1 and (vague or text.endswith("."))
    written = _NAMES.fullmatch(text) and not _INSTITUTION.search(text)
    return bool(written) and not alone and not _is_filler(text)


def _is_filler(text: str) -> bool:
    """Tell whether a value says that no one is named, or repeats roles: "Unknown", "Patient"."""
    words = re.findall(r"[^\W\d_]+", text.casefold())
    return all(
        _NO_NAME.fullmatch(word) or not ROLES.isdisjoint(_singulars(word)) or word in HAN_ROLES
        for word in words
    )
