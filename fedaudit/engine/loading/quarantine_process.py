"""The sandboxed side of `quarantine`, which uses an untrusted model as the audit will."""

from collections.abc import Callable, Generator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer

from fedaudit.api.errors import InputError
from fedaudit.engine.loading import checkpoint

LONGEST = 2**20
"""The maximum number of characters that a chat template may make of a short conversation."""

TEXTS = (
    "",
    "Claimant: Ann Lee, born 1 May 1970, ann.lee+7@example.org, +44 20 7946 0958.\n\n\t- £12.60",
    "患者李雷，男，四十五岁。電話：１２３。 Ü ß é ñ Ελλάδα Москва عربي 한국어 👩\u200d👧\ufeff\0",
    *(character * 2_000 for character in "a1 .A\n\t-_李é'"),
    "ab " * 700 + "a!" * 700 + "1a" * 700 + "\r\n" * 700,
)
"""Texts like those of records, and repetitive texts, on which bad regular expressions hang."""

CONVERSATIONS = (
    [{"role": "user", "content": "\x00"}],
    [{"role": "user", "content": TEXTS[1]}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": TEXTS[1]},
        {"role": "assistant", "content": TEXTS[2]},
        {"role": "user", "content": "Why?"},
    ],
)
"""Conversations to render; the first is the one that `prompt_starts` renders."""


def open_model(payload: Any) -> Generator[str, None, bool]:
    """Open a model's files and use its tokenizer; yield the name of the next step.

    Returns whether no step raised an exception. After an exception the other steps still run.
    """
    folder = Path(payload)
    yield "its weights"
    checkpoint.count(folder, checkpoint.files(folder))
    yield "config.json"
    well = _raises_nothing(lambda: AutoConfig.from_pretrained(folder, **checkpoint.LOCAL))
    return (yield from open_tokenizer(payload)) and well


def open_tokenizer(payload: Any) -> Generator[str, None, bool]:
    """Open a folder's tokenizer and use it; yields and returns as `open_model` does."""
    folder, well, tokenizers = Path(payload), True, list[Any]()
    yield "its tokenizer"
    well &= _raises_nothing(
        lambda: tokenizers.append(AutoTokenizer.from_pretrained(folder, **checkpoint.LOCAL))
    )
    for tokenizer in tokenizers:
        for text in TEXTS:
            well &= _raises_nothing(partial(_encode, tokenizer, text))
        if getattr(tokenizer, "chat_template", None):
            yield "its chat template"
            _render(tokenizer, folder)
    return well


def render_message(payload: Any) -> Generator[str, None, str]:
    """Render a user's message with a folder's chat template, up to where the answer begins."""
    folder, message = payload
    yield "its chat template"
    tokenizer = AutoTokenizer.from_pretrained(Path(folder), **checkpoint.LOCAL)
    texts: list[str] = []
    _render_chat(tokenizer, [{"role": "user", "content": message}], True, texts)
    if len(texts[0]) > LONGEST:
        raise InputError(f"{folder} cannot be opened: its chat template makes too long a text.")
    return texts[0]


def _raises_nothing(do: Callable[[], object]) -> bool:
    try:
        do()
    except MemoryError:
        raise
    except Exception:
        return False
    return True


def _encode(tokenizer: Any, text: str) -> None:
    tokenizer.decode(tokenizer(text)["input_ids"])


def _render(tokenizer: Any, folder: Path) -> None:
    """Render conversations; a template may refuse some, such as those with a system message."""
    texts: list[str] = []
    for conversation, prompt in product(CONVERSATIONS, (False, True)):
        _raises_nothing(partial(_render_chat, tokenizer, conversation, prompt, texts))
    if (longest := max(map(len, texts), default=0)) > LONGEST:
        raise InputError(
            f"{folder} cannot be opened: its chat template makes {longest:,} characters of a short "
            "conversation."
        )


def _render_chat(tokenizer: Any, conversation: Any, prompt: bool, into: list[str]) -> None:
    text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=prompt)
    into.append(str(text))
