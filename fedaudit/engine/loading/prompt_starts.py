"""The token sequences with which a prompt may begin under a tokenizer."""

from collections.abc import Mapping
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.templates import PromptTemplate
from fedaudit.system.failures import first_line


def prompt_starts(tokenizer: Any, template: PromptTemplate | None) -> Mapping[str, tuple[int, ...]]:
    """Return the token sequences with which a prompt may begin, by name.

    "bare" is empty. "bos" is the beginning-of-sequence token. "template" is what precedes the
    user's message in the tokenizer's chat template, or else in the federation's prompt template.
    "text" is what the tokenizer adds before a text, if that differs from "bos". Raises InputError
    for a chat template that fails.
    """
    starts: dict[str, tuple[int, ...]] = {"bare": ()}
    bos = getattr(tokenizer, "bos_token_id", None)
    if bos is not None:
        starts["bos"] = (bos,)
    if (prefix := _before_text(tokenizer)) != starts.get("bos", ()):
        starts["text"] = prefix
    if getattr(tokenizer, "chat_template", None):
        message = [{"role": "user", "content": "\x00"}]
        try:
            rendered = tokenizer.apply_chat_template(message, tokenize=False)
        except Exception as error:  # a template can raise anything
            problem = f"The model's chat template renders no message: {first_line(error)}"
            raise InputError(problem) from None
        header, ids = rendered.partition("\x00")[0], starts["bare"]
    else:
        header, ids = (template.header() if template else ""), starts.get("bos", ())
    if header:
        encoded = tokenizer(header, add_special_tokens=False)["input_ids"]
        starts["template"] = (*ids, *encoded)
    return starts


def _before_text(tokenizer: Any) -> tuple[int, ...]:
    """Return the special tokens that a tokenizer adds before a text."""
    plain = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    encoded = list(tokenizer("a")["input_ids"])
    positions = (i for i in range(len(encoded)) if encoded[i : i + len(plain)] == plain)
    return tuple(encoded[: next(positions, 0)])
