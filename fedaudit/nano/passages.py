"""Passages: short abstracts, patients' questions and trial reports, without any personal data.

For the study of memorization across clients (Udsa et al., appendix B): four tasks under the paper's
own instructions, three domains each, one a client. Passages are long enough to be cut into a prefix
and a suffix, and as different from one another as invented text can be.
"""

import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from fedaudit.api.errors import unknown_name_error
from fedaudit.api.records import Document
from fedaudit.api.templates import TEMPLATES, PromptTemplate

TASKS = ("summary", "dialogue", "question_answering", "classification")
SLOT = re.compile(r"\{([a-z]+)\}")
_BEGINNING = re.compile(r"(?:^|(?<=[.?!] ))[a-z]")


@cache
def read_grammar() -> dict[str, Any]:
    """Return the instructions and the domains as read from passages.toml."""
    return tomllib.loads(files("fedaudit.nano").joinpath("passages.toml").read_text("utf-8"))


def task_domains(task: str) -> tuple[str, ...]:
    """Return the names of a task's domains; raises UsageError for an unknown task."""
    if task not in TASKS:
        raise unknown_name_error("task of nano passages", task, TASKS)
    return tuple(domain["name"] for domain in read_grammar()["domain"] if domain["task"] == task)


def corpus(
    *,
    count: int,
    seed: int,
    tasks: Sequence[str],
    template: PromptTemplate = TEMPLATES["chat"],
) -> Iterator[Document]:
    """Yield `count` passages of every domain of `tasks`, as instruction records.

    Passage i of a domain depends on (seed, i, domain) alone. Its group begins with the domain, by
    which the partition "corpus" deals the domains to clients.
    """
    for task in tasks or ("",):
        task_domains(task)
    for domain in read_grammar()["domain"]:
        if domain["task"] in tasks:
            for number in range(count):
                yield passage(domain, number, seed=seed, template=template)


def passage(
    domain: Mapping[str, Any], number: int, *, seed: int, template: PromptTemplate
) -> Document:
    """Return passage `number` of a domain, rendered through `template`."""
    name, task = domain["name"], domain["task"]
    rng = random.Random(f"passage {seed} {name} {number}")
    slots: dict[str, str] = {}
    for slot in domain["once"]:
        slots[slot] = _fill_slots(f"{{{slot}}}", domain, slots, rng)
    input_text, answer = (_class_example if "classes" in domain else _question_and_answer)(
        domain, slots, rng
    )
    question = _fill_slots(rng.choice(domain.get("question", [""])), domain, slots, rng)
    document = Document(
        id=f"{name}-{seed}-{number}",
        text="",
        instruction=read_grammar()["instructions"][task].replace("{question}", _capitals(question)),
        input=_capitals(input_text),
        output=_capitals(answer),
        task=task,
        group=f"{name}/{name}-{seed}-{number}",
    )
    return template.compose(document, (), ())


def _question_and_answer(
    domain: Mapping[str, Any], slots: Mapping[str, str], rng: random.Random
) -> tuple[str, str]:
    input_text, answer = (
        _fill_slots(rng.choice(domain[field]), domain, slots, rng) for field in ("given", "answer")
    )
    return input_text, answer


def _class_example(
    domain: Mapping[str, Any], slots: Mapping[str, str], rng: random.Random
) -> tuple[str, str]:
    """Return two sentences of one part of a report, and the part's name."""
    class_name = rng.choice(sorted(domain["classes"]))
    order = rng.sample(domain["classes"][class_name], 2)
    return " ".join(_fill_slots(text, domain, slots, rng) for text in order), class_name


def _fill_slots(
    text: str, domain: Mapping[str, Any], slots: Mapping[str, str], rng: random.Random
) -> str:
    """Return `text` with its slots filled: those `slots` as they are, others drawn."""

    def value(slot: re.Match[str]) -> str:
        if slot[1] in slots:
            return slots[slot[1]]
        return _fill_slots(rng.choice(domain["words"][slot[1]]), domain, slots, rng)

    return SLOT.sub(value, text)


def _capitals(text: str) -> str:
    """Return `text` with a capital at the beginning of every sentence."""
    return _BEGINNING.sub(lambda letter: letter[0].upper(), text)
