"""What is tried of a stranger's model, in a process with limits: all that is done with it later."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from fedaudit.errors import InputError

MOST = 10**6
"""Tensors that a model may have; those of a trillion parameters have some hundred thousand."""
LONGEST = 2**20
"""Characters that a template may make of a short conversation."""

TEXTS = (
    "",
    "Claimant: Ann Lee, born 1 May 1970, ann.lee+7@example.org, +44 20 7946 0958.\n\n\t- £12.60",
    "患者李雷，男，四十五岁。電話：１２３。 Ü ß é ñ Ελλάδα Москва عربي हिन्दी 한국어 👩‍👩‍👧\u200b\ufeff\0",
    *(character * 2_000 for character in "a1 .A\n\t-_李é'"),
    "ab " * 700 + "a!" * 700 + "1a" * 700 + "\r\n" * 700,
)
"""Texts as records have them, and runs of one character, which patterns go wrong on."""

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
"""What is asked with: one message of the user, an empty one to see what stands before it."""


def open_model(asked: Any) -> Generator[str, None, bool]:
    """Open a model's files and use its tokenizer; yields what comes next, and returns True."""
    from transformers import AutoConfig, AutoTokenizer

    folder, names = Path(asked["folder"]), asked["names"]
    here: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    yield "its weights"
    tensors(folder, names)
    yield "config.json"
    AutoConfig.from_pretrained(folder, **here)
    yield "its tokenizer"
    tokenizer = AutoTokenizer.from_pretrained(folder, **here)
    for text in TEXTS:
        tokenizer.decode(tokenizer(text)["input_ids"])
    tokenizer(list(TEXTS))
    yield "its chat template"
    if getattr(tokenizer, "chat_template", None):
        for text in _rendered(tokenizer):
            if len(text) > LONGEST:
                raise InputError(
                    f"{folder} cannot be opened: its chat template makes {len(text):,} characters "
                    "of a short conversation."
                )
    return True


def tensors(folder: Path, names: Sequence[str]) -> int:
    """Return how many tensors the safetensors among a model's files hold.

    Raises InputError for a file that is none, or for more than a model has.
    """
    from safetensors import SafetensorError, safe_open

    count = 0
    for name in names:
        if not name.endswith(".safetensors"):
            continue
        try:
            with safe_open(folder / name, "np") as file:
                count += len(file.keys())
        except (SafetensorError, OSError) as error:
            raise InputError(
                f"{folder} cannot be loaded: {name} is not a valid safetensors file ({error})."
            ) from None
        if count > MOST:
            raise InputError(f"{folder} cannot be opened: it holds over {MOST:,} tensors.")
    return count


def _rendered(tokenizer: Any) -> Iterator[str]:
    for conversation in CONVERSATIONS:
        for prompt in (False, True):
            try:
                text = tokenizer.apply_chat_template(
                    conversation, tokenize=False, add_generation_prompt=prompt
                )
            except MemoryError:
                raise
            except Exception:  # templates may refuse a system's message
                continue
            yield str(text)
