"""What instruction records ask about a case's record, and the right answer."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fedaudit.nano.cases import (
    CaseFile,
    Filled,
    domain_of,
    fill_template,
    invent_case,
    join_texts,
    record_templates,
)

OPTIONS = 4
"""Answers that an exam question gives to choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDraft:
    """An instruction record before a template renders it."""

    instruction: str
    filled_input: Filled
    answer: Filled


Poser = Callable[[CaseFile, int, Sequence[int], random.Random], TaskDraft]
"""Poses a task about the case's document of that number; those of the file are given too."""


def reading_question(
    case: CaseFile, index: int, chosen: Sequence[int], rng: random.Random
) -> TaskDraft:
    """Ask for a particular of the record that the question is about."""
    domain = domain_of(case)
    questions = [item for item in domain["asked"] if item[2] in chosen]
    question, answer, index = rng.choice(questions or domain["asked"])
    return TaskDraft(
        instruction=_instruction(case, "reading").replace("{question}", question),
        filled_input=_record(case, index),
        answer=fill_template(answer, case),
    )


def summary(case: CaseFile, index: int, *_: object) -> TaskDraft:
    """Ask for the case in one sentence."""
    return TaskDraft(
        instruction=_instruction(case, "summary"),
        filled_input=_record(case, index),
        answer=fill_template(domain_of(case)["summary"], case),
    )


def classification(
    case: CaseFile, index: int, chosen: Sequence[int], rng: random.Random
) -> TaskDraft:
    """Ask for the matter, of a record that names it."""
    return TaskDraft(
        instruction=_instruction(case, "classification"),
        filled_input=_record(case, _naming(case, index, chosen, rng)),
        answer=fill_template("{matter}", case),
    )


def exam(case: CaseFile, index: int, chosen: Sequence[int], rng: random.Random) -> TaskDraft:
    """Ask what follows from the record's matter, with answers to choose from by letter."""
    domain = domain_of(case)
    record = _record(case, _naming(case, index, chosen, rng))
    answers = dict(zip(domain["matter"], domain["exam"]["answers"], strict=True))
    right = answers.pop(case.fields["matter"])
    options = [right, *rng.sample(sorted(answers.values()), OPTIONS - 1)]
    rng.shuffle(options)
    lines = [(f"\n{_letter(i)}. {option}", ()) for i, option in enumerate(options)]
    question = domain["exam"]["question"]
    return TaskDraft(
        instruction=_instruction(case, "exam").replace("{question}", question),
        filled_input=join_texts([record, *lines]),
        answer=(_letter(options.index(right)), ()),
    )


def case_matching(
    case: CaseFile, index: int, chosen: Sequence[int], rng: random.Random
) -> TaskDraft:
    """Ask which of two other cases is about the same matter; their people occur nowhere else."""
    domain = domain_of(case)
    record = _record(case, _naming(case, index, chosen, rng))
    matter = case.fields["matter"]
    other_matter = rng.choice([name for name in domain["matter"] if name != matter])
    matters = [matter, other_matter]
    rng.shuffle(matters)
    texts: list[Filled] = [record]
    for number, about in enumerate(matters):
        candidate = invent_case(f"{case.id}-{number}", domain, rng)
        candidate = replace(candidate, fields={**candidate.fields, "matter": about})
        marker = str(record_templates()["markers"][case.language]).replace(
            "{letter}", _letter(number)
        )
        texts += [(f"\n{marker}\n", ()), _record(candidate, _naming(candidate, -1, (), rng))]
    return TaskDraft(
        instruction=_instruction(case, "case_matching"),
        filled_input=join_texts(texts),
        answer=(_letter(matters.index(matter)), ()),
    )


def request(case: CaseFile, index: int, _chosen: Sequence[int], rng: random.Random) -> TaskDraft:
    """Ask for something in the case's own words, of a record of it or, every other time, none."""
    form = rng.choice(record_templates()["requests"][case.language])
    return TaskDraft(
        instruction=fill_template(form["instruction"], case)[0],
        filled_input=_record(case, index) if form.get("record") else ("", ()),
        answer=fill_template(form["answer"], case),
    )


TASK_MAKERS: Mapping[str, Poser] = {
    "reading": reading_question,
    "summary": summary,
    "classification": classification,
    "exam": exam,
    "case_matching": case_matching,
    "request": request,
}
"""The tasks of instruction records; further ones go to the end."""


def _instruction(case: CaseFile, task: str) -> str:
    return str(record_templates()["instructions"][case.language][task])


def _record(case: CaseFile, index: int) -> Filled:
    return fill_template(domain_of(case)["documents"][index], case)


def _naming(case: CaseFile, index: int, chosen: Sequence[int], rng: random.Random) -> int:
    """Return `index` where that document names the matter, else one of the file that does."""
    named = [i for i, text in enumerate(domain_of(case)["documents"]) if "{matter}" in text]
    about = [i for i in named if i in chosen] or named
    return index if index in about else rng.choice(about)


def _letter(number: int) -> str:
    return chr(ord("A") + number)
