"""How prompts may begin under a tokenizer."""

from collections.abc import Mapping
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.templates import PromptTemplate


def prompt_starts(tokenizer: Any, template: PromptTemplate | None) -> Mapping[str, tuple[int, ...]]:
    """Return the ways a prompt may begin under this tokenizer, by name.

    "bare" is nothing; "bos" the token that begins texts; "template" what stands before the
    user's words in the chat template, or in the federation's prompt template. "text" is what the
    tokenizer itself puts before a text, where that is something else than "bos".
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
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise InputError(f"The model's chat template renders no message: {reason}") from None
        header, ids = rendered.partition("\x00")[0], starts["bare"]
    else:
        header, ids = (template.header() if template else ""), starts.get("bos", ())
    if header:
        encoded = tokenizer(header, add_special_tokens=False)["input_ids"]
        starts["template"] = (*ids, *encoded)
    return starts


def _before_text(tokenizer: Any) -> tuple[int, ...]:
    """Return the tokens that a tokenizer puts before a text."""
    plain = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    encoded = list(tokenizer("a")["input_ids"])
    positions = (i for i in range(len(encoded)) if encoded[i : i + len(plain)] == plain)
    return tuple(encoded[: next(positions, 0)])
