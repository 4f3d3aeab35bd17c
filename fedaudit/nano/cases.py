"""Invented case files: what the documents of one case have in common, and how a text is filled."""

import calendar
import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from fedaudit.api.errors import unknown_name_error
from fedaudit.api.records import PiiSpan
from fedaudit.nano.people import LABELS, Person, invent

Filled = tuple[str, tuple[PiiSpan, ...]]
"""A text, and where the PII is in it."""
_SLOT = re.compile(r"\{([a-z.]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """What the documents of one case have in common."""

    id: str
    language: str
    domain: str
    fields: Mapping[str, str]
    a: Person
    b: Person

    @property
    def group(self) -> str:
        """What its documents have in common: the corpus, and the case."""
        return f"{self.domain}/{self.id}"

    def value(self, slot: str) -> str:
        """Return what stands for `slot` ("matter", "a.name") in this case."""
        key, _, detail = slot.partition(".")
        return str(getattr({"a": self.a, "b": self.b}[key], detail)) if detail else self.fields[key]


@cache
def record_templates() -> dict[str, Any]:
    """Return the record templates as read from templates.toml."""
    return tomllib.loads(files("fedaudit.nano").joinpath("templates.toml").read_text("utf-8"))


def case_files(
    count: int, *, seed: int, languages: Sequence[str], domains: Sequence[str]
) -> Iterator[CaseFile]:
    """Yield `count` case files; case i depends on (seed, i) and the choices only.

    Raises UsageError for a language or a domain that no template is for.
    """
    for kind, key, names in (("language", "language", languages), ("domain", "name", domains)):
        known_names = {domain[key] for domain in record_templates()["domain"]}
        for name in names or ("",):
            if name not in known_names:
                raise unknown_name_error(f"{kind} of nano records", name, known_names)
    chosen = [
        domain
        for domain in record_templates()["domain"]
        if domain["language"] in languages and domain["name"] in domains
    ]
    for number in range(count):
        rng = random.Random(f"case {seed} {number}")
        yield invent_case(f"case-{seed}-{number}", rng.choice(chosen), rng)


def domain_of(case: CaseFile) -> dict[str, Any]:
    """Return the templates that the case's documents are made from."""
    templates: dict[str, Any] = next(
        domain
        for domain in record_templates()["domain"]
        if (domain["language"], domain["name"]) == (case.language, case.domain)
    )
    return templates


def invent_case(name: str, domain: Mapping[str, Any], rng: random.Random) -> CaseFile:
    """Return a case of `domain` with its own people and particulars, drawn from `rng` alone."""
    language = str(domain["language"])
    year, month, day = rng.randint(2015, 2025), rng.randint(1, 12), rng.randint(1, 28)
    amount = rng.randint(5, 990) * 100
    chinese = language == "zh"
    fields = {
        "matter": rng.choice(domain["matter"]),
        "place": rng.choice(domain["place"]),
        "number": f"({year})第{rng.randint(1, 9999)}号"
        if chinese
        else f"{rng.randint(1, 9999)}/{year}",
        "date": f"{year}年{month}月{day}日"
        if chinese
        else f"{day} {calendar.month_name[month]} {year}",
        "amount": f"{amount}元" if chinese else f"{amount} pounds",
    }
    return CaseFile(
        id=name,
        language=language,
        domain=str(domain["name"]),
        fields=fields,
        a=invent(language, rng),
        b=invent(language, rng),
    )


def fill_template(template: str, case: CaseFile) -> Filled:
    """Return `template` with its slots filled, and where the PII is in it."""
    pieces: list[str] = []
    spans: list[PiiSpan] = []
    length = position = 0
    for slot in _SLOT.finditer(template):
        before, value = template[position : slot.start()], case.value(slot[1])
        length += len(before)
        _, _, detail = slot[1].partition(".")
        if detail:
            spans.append(PiiSpan(length, length + len(value), LABELS[detail]))
        pieces += [before, value]
        length += len(value)
        position = slot.end()
    return "".join([*pieces, template[position:]]), tuple(spans)


def join_texts(texts: Sequence[Filled]) -> Filled:
    """Return texts as one, with their spans moved to where each text now begins."""
    text, spans = "", tuple[PiiSpan, ...]()
    for piece, pii in texts:
        spans += tuple(PiiSpan(s.start + len(text), s.end + len(text), s.label) for s in pii)
        text += piece
    return text, spans
