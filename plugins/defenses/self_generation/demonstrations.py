"""Demonstrations: the local examples that show a model what to make up (FewFedPIT, 3.3)."""

import random
from collections.abc import Sequence
from itertools import chain, zip_longest

from fedaudit.api import Document, InputError

from .prompt_layout import BLANK, PromptLayout


def usable_documents(documents: Sequence[Document], count: int) -> list[Document]:
    """Return the documents that can be shown: those with an instruction and an output.

    Raises InputError where there are none, or fewer than `count`.
    """
    usable = [d for d in documents if d.instruction and d.output and not d.is_prompt]
    if not usable:
        raise InputError("no record has an instruction and an output; there is nothing to show.")
    if len(usable) < count:
        raise InputError(
            f"{len(usable)} examples are fewer than the {count} demonstrations of a prompt: give "
            "the client more, or lower the number of demonstrations."
        )
    return usable


def example_kinds(examples: Sequence[Document]) -> tuple[bool, ...]:
    """Return which kinds of example there are: with an input (True), without one, or both."""
    return tuple(kind for kind in (True, False) if any(bool(d.input) is kind for d in examples))


def alternate_kinds(rng: random.Random, examples: Sequence[Document], count: int) -> list[Document]:
    """Return `count` of the examples, half with an input and half without, in turn.

    Where one kind has too few, the other makes up the number.
    """
    with_input = [d for d in examples if d.input]
    bare = [d for d in examples if not d.input]
    first = max(min((count + 1) // 2, len(with_input)), count - len(bare))
    chosen = rng.sample(with_input, first), rng.sample(bare, count - first)
    return [d for d in chain.from_iterable(zip_longest(*chosen)) if d is not None]


def instruction_prompt(
    layout: PromptLayout, examples: Sequence[Document], *, with_input: bool
) -> str:
    """Return a prompt that shows instructions and ends where another one begins."""
    heads = [layout.head(with_input=bool(d.input)) + d.instruction for d in examples]
    return BLANK.join([*heads, layout.head(with_input=with_input)])


def example_prompt(
    layout: PromptLayout, examples: Sequence[Document], instruction: str, *, with_input: bool
) -> str:
    """Return a prompt that shows whole examples and ends behind a new instruction."""
    wholes = [layout.template.prompt(d.instruction, d.input) + d.output for d in examples]
    return BLANK.join([*wholes, layout.head(with_input=with_input) + instruction])
