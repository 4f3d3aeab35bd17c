"""Case files of courts, hospitals and banks whose PII is known, because it is all invented.

A case has two people and a subject, and they recur in all of its documents, as they do in the
files of a real organisation. Documents are plain records or instruction data about one.
"""

import random
from collections.abc import Iterator, Sequence

from fedaudit.api.errors import unknown_name_error
from fedaudit.api.records import Document
from fedaudit.api.templates import TEMPLATES, PromptTemplate
from fedaudit.nano.cases import CaseFile, case_files, domain_of, fill_template, record_templates
from fedaudit.nano.tasks import TASK_MAKERS

__all__ = ["DEFAULT_TASKS", "TASKS", "case_files", "corpus", "documents", "record_templates"]

TASKS = ("record", *TASK_MAKERS)
"""What a document can be: a plain record, or one of the tasks about one."""
DEFAULT_TASKS = ("record", "reading", "summary", "classification")


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
    recur in more of its documents. Raises UsageError for an unknown task.
    """
    for task in tasks or ("",):
        if task not in TASKS:
            raise unknown_name_error("task of nano records", task, TASKS)
    rng = random.Random(f"documents {seed} {case.id}")
    indices: Sequence[int] = range(len(domain_of(case)["documents"]))
    chosen = rng.sample(indices, min(kinds, len(indices))) if kinds else indices
    order: list[int] = []
    while len(order) < count:
        order += rng.sample(chosen, len(chosen))
    return [
        _document(
            case,
            index,
            chosen=chosen,
            task=rng.choice(list(tasks)),
            name=f"{case.id}-{position}",
            template=template,
            rng=rng,
        )
        for position, index in enumerate(order[:count])
    ]


def corpus(
    *,
    cases: int,
    documents_per_case: int,
    seed: int,
    languages: Sequence[str] = ("en", "zh"),
    domains: Sequence[str] = ("legal", "medical", "bank"),
    tasks: Sequence[str] = DEFAULT_TASKS,
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


def _document(
    case: CaseFile,
    index: int,
    *,
    chosen: Sequence[int],
    task: str,
    name: str,
    template: PromptTemplate,
    rng: random.Random,
) -> Document:
    """Fill the case's document `index`; for a task, as the input of an instruction record."""
    if task == "record":
        record, spans = fill_template(domain_of(case)["documents"][index], case)
        return Document(id=name, text=record, pii=spans, group=case.group, task=task)
    posed = TASK_MAKERS[task](case, index, chosen, rng)
    input_text, input_spans = posed.filled_input
    answer, answer_spans = posed.answer
    document = Document(
        id=name,
        text="",
        instruction=posed.instruction,
        input=input_text,
        output=answer,
        group=case.group,
        task=task,
    )
    return template.compose(document, input_spans, answer_spans)
