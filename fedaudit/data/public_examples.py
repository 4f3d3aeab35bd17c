"""Public examples: of a file, or of the generator (another domain, or just like a client's).

A source of the generator is spelled "nano:DOMAIN", "nano:DOMAIN:TASKS" or
"nano:DOMAIN:TASKS:LANGUAGES", with commas between several: "nano:medical",
"nano:legal:exam,case_matching", "nano:legal,bank:summary:en".
"""

from functools import lru_cache
from pathlib import Path

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.api.records import Document
from fedaudit.api.templates import PromptTemplate
from fedaudit.data import corpus
from fedaudit.nano import generator
from fedaudit.nano.tasks import TASK_MAKERS
from fedaudit.system.files import existing_path

PREFIX = "nano:"
"""The beginning of a source that is not a file."""
PUBLIC_SEEDS = 700_000
"""The seed of public examples: their people are not those of any simulation's clients."""
CASES, EACH = 96, 4
"""Case files, and examples of each."""


def is_source(name: str) -> bool:
    """Tell whether `name` is a source of the generator's rather than a file."""
    return name.startswith(PREFIX)


def read_public_examples(source: str, template: PromptTemplate) -> list[Document]:
    """Return the examples of a source of the generator's, or of the JSONL file of that name.

    Raises InputError for a file that is not there or not of records.
    """
    if is_source(source):
        return public_examples(source, template)
    return list(corpus.read(existing_path(Path(source), "file"), template))


def public_examples(name: str, template: PromptTemplate) -> list[Document]:
    """Return the examples of a source, rendered in `template`; always the same.

    Raises UsageError for an unknown source.
    """
    fields = name.removeprefix(PREFIX).split(":")
    if not is_source(name) or not 1 <= len(fields) <= 3:
        raise UsageError(f"The source {name!r} is not nano:DOMAIN[:TASKS[:LANGUAGES]].")
    domains, tasks, languages = (
        tuple(field.split(",")) if field else () for field in (*fields, "", "")[:3]
    )
    templates = generator.record_templates()
    _check(
        "domain of public examples",
        domains,
        {str(domain["name"]) for domain in templates["domain"]},
    )
    _check("task of public examples", tasks, set(TASK_MAKERS))
    _check("language of public examples", languages, set(templates["instructions"]))
    return list(
        _generate_examples(
            languages or ("en", "zh"),
            domains,
            tasks or ("reading", "summary", "classification"),
            template,
        )
    )


@lru_cache(maxsize=4)
def _generate_examples(
    languages: tuple[str, ...],
    domains: tuple[str, ...],
    tasks: tuple[str, ...],
    template: PromptTemplate,
) -> tuple[Document, ...]:
    """Return the examples, cached because every client needs them in every round."""
    return tuple(
        generator.corpus(
            cases=CASES,
            documents_per_case=EACH,
            seed=PUBLIC_SEEDS,
            languages=languages,
            domains=domains,
            tasks=tasks,
            template=template,
        )
    )


def _check(kind: str, names: tuple[str, ...], choices: set[str]) -> None:
    for name in names:
        if name not in choices:
            raise unknown_name_error(kind, name, choices)
