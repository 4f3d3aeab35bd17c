"""Case files of courts, hospitals and banks whose PII is known, because it is all invented.

A case has two people and a subject, and they recur in all of its documents, as they do in the
files of a real organisation. Documents are plain records or instruction data about one.
"""

import calendar
import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from fedaudit.nano.people import LABELS, Person, invent
from fedaudit.prompts import TEMPLATES, PromptTemplate
from fedaudit.records import Document, PiiSpan

TASKS = ("record", "reading", "summary", "classification")
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
        who, _, detail = slot.partition(".")
        return str(getattr({"a": self.a, "b": self.b}[who], detail)) if detail else self.fields[who]


@cache
def templates() -> dict[str, Any]:
    """Return the record templates as read from templates.toml."""
    return tomllib.loads(files("fedaudit.nano").joinpath("templates.toml").read_text("utf-8"))


def case_files(
    count: int, *, seed: int, languages: Sequence[str], domains: Sequence[str]
) -> Iterator[CaseFile]:
    """Yield `count` case files; case i depends on (seed, i) and the choices only."""
    chosen = [
        domain
        for domain in templates()["domain"]
        if domain["language"] in languages and domain["name"] in domains
    ]
    for number in range(count):
        rng = random.Random(f"case {seed} {number}")
        yield _case(f"case-{seed}-{number}", rng.choice(chosen), rng)


def documents(
    case: CaseFile,
    *,
    count: int,
    seed: int,
    tasks: Sequence[str],
    template: PromptTemplate,
    kinds: int = 0,
) -> list[Document]:
    """Return `count` documents of `case`, its templates in turn and its tasks at random.

    A file has `kinds` kinds of document (0: all there are); with fewer, the same particulars
    recur in more of its documents.
    """
    rng = random.Random(f"documents {seed} {case.id}")
    known: Sequence[int] = range(len(_domain(case)["documents"]))
    chosen = rng.sample(known, min(kinds, len(known))) if kinds else known
    order: list[int] = []
    while len(order) < count:
        order += rng.sample(chosen, len(chosen))
    return [
        _document(
            case,
            which,
            chosen=chosen,
            task=rng.choice(list(tasks)),
            name=f"{case.id}-{position}",
            template=template,
            rng=rng,
        )
        for position, which in enumerate(order[:count])
    ]


def corpus(
    *,
    cases: int,
    documents_per_case: int,
    seed: int,
    languages: Sequence[str] = ("en", "zh"),
    domains: Sequence[str] = ("legal", "medical", "bank"),
    tasks: Sequence[str] = TASKS,
    template: PromptTemplate = TEMPLATES["fed_pii"],
    kinds: int = 0,
) -> Iterator[Document]:
    """Yield the documents of `cases` case files, case by case."""
    for case in case_files(cases, seed=seed, languages=languages, domains=domains):
        yield from documents(
            case,
            count=documents_per_case,
            seed=seed,
            tasks=tasks,
            template=template,
            kinds=kinds,
        )


def _domain(case: CaseFile) -> dict[str, Any]:
    found: dict[str, Any] = next(
        domain
        for domain in templates()["domain"]
        if (domain["language"], domain["name"]) == (case.language, case.domain)
    )
    return found


def _case(name: str, domain: Mapping[str, Any], rng: random.Random) -> CaseFile:
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


def _document(
    case: CaseFile,
    which: int,
    *,
    chosen: Sequence[int],
    task: str,
    name: str,
    template: PromptTemplate,
    rng: random.Random,
) -> Document:
    """Fill the case's document `which`; for a task, as the input of an instruction record."""
    domain = _domain(case)
    if task == "record":
        record, spans = fill(domain["documents"][which], case)
        return Document(id=name, text=record, pii=spans, group=case.group, task=task)
    instruction, answer, which = _task(task, case, which, chosen, rng)
    record, spans = fill(domain["documents"][which], case)
    output, output_spans = fill(answer, case)
    document = Document(
        id=name,
        text="",
        instruction=instruction,
        input=record,
        output=output,
        group=case.group,
        task=task,
    )
    return template.compose(document, spans, output_spans)


def _task(
    task: str, case: CaseFile, which: int, chosen: Sequence[int], rng: random.Random
) -> tuple[str, str, int]:
    """Return the instruction, the answer's template, and the document that the task is about."""
    domain = _domain(case)
    instruction = str(templates()["instructions"][case.language][task])
    if task == "reading":
        asked = [item for item in domain["asked"] if item[2] in chosen]
        question, answer, which = rng.choice(asked or domain["asked"])
        return instruction.replace("{question}", question), answer, which
    if task == "summary":
        return instruction, str(domain["summary"]), which
    named = [i for i, text in enumerate(domain["documents"]) if "{matter}" in text]
    about = [i for i in named if i in chosen] or named
    return instruction, "{matter}", which if which in about else rng.choice(about)


def fill(template: str, case: CaseFile) -> tuple[str, tuple[PiiSpan, ...]]:
    """Return `template` with its slots filled, and where the PII is in it."""
    parts: list[str] = []
    spans: list[PiiSpan] = []
    length = position = 0
    for slot in _SLOT.finditer(template):
        before, value = template[position : slot.start()], case.value(slot[1])
        length += len(before)
        _, _, detail = slot[1].partition(".")
        if detail:
            spans.append(PiiSpan(length, length + len(value), LABELS[detail]))
        parts += [before, value]
        length += len(value)
        position = slot.end()
    return "".join([*parts, template[position:]]), tuple(spans)
