"""The tokenizer that a trainer saved beside an adapter: loaded, and its chat template rendered.

What is missing beside the adapter is the base's: mostly its configuration, and its vocabulary where
only a chat template or special tokens were saved.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.templates import PromptTemplate
from fedaudit.engine.loading import checkpoint, quarantine
from fedaudit.federation import adapter_origin, adapters

NAME = "chat_template"
"""The name of a prompt template that is an adapter's chat template."""


def load(folder: Path, base: Path, base_tokenizer: Any) -> Any:
    """Return the tokenizer beside the adapter in `folder`.

    Raises InputError if it cannot be loaded or means other tokens than the base's.
    """
    from transformers import AutoTokenizer

    with _staged(folder, base) as staged:
        quarantine.check_tokenizer(staged)
        with checkpoint.refusing(f"{folder} comes with a broken tokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(staged, **checkpoint.LOCAL)
            mine, theirs = tokenizer.get_vocab(), base_tokenizer.get_vocab()
    special = {*tokenizer.added_tokens_decoder, *base_tokenizer.added_tokens_decoder}
    here = {number: token for token, number in theirs.items() if number not in special}
    for token, number in sorted(mine.items(), key=lambda entry: int(entry[1])):
        if number in here and number not in special and here[number] != token:
            raise InputError(
                f"{folder} comes with a tokenizer in which token {number} is {token[:60]!r}, and "
                f"in that of the base {base} it is {here[number][:60]!r}: it was trained on "
                "another base."
            )
    return tokenizer


def chat_template(folder: Path, base: Path) -> PromptTemplate | None:
    """Return the chat template beside an adapter as a prompt template, for one user's message.

    Instruction and input are joined by a line's end, as LLaMA-Factory joins them. None for a
    template that does not render such a message, or not once. Raises InputError, as
    `quarantine.check_tokenizer` does, for one that exceeds the sandbox's limits.
    """
    names = adapters.tokenizer_files(folder)
    stats = [(folder / name).stat() for name in names]
    version = tuple(value for s in stats for value in (s.st_ino, s.st_mtime_ns, s.st_size))
    return _rendered(folder.absolute(), base.absolute(), version)


@lru_cache(maxsize=64)
def _rendered(folder: Path, base: Path, _version: tuple[int, ...]) -> PromptTemplate | None:
    with _staged(folder, base) as staged:
        text = quarantine.render_message(staged)
    if text is None:
        return None
    before, _, after = text.partition(quarantine.MESSAGE)
    return PromptTemplate(
        NAME, f"{before}{{instruction}}\n{{input}}{after}", f"{before}{{instruction}}{after}"
    )


def write(folder: Path, base: Path, out: Path) -> None:
    """Write into `out` the tokenizer files beside an adapter, with the base's for what it lacks.

    The adapter's default chat template is written as the file that transformers reads before any
    other form, the base's included.
    """
    checkpoint.check_files(folder)
    names, templates = adapters.tokenizer_files(folder), adapter_origin.chat_templates(folder)
    sources = [(base / "config.json", "config.json")]
    if not set(names) & set(adapters.VOCABULARY):
        kept = adapters.tokenizer_files(base)
        kept = [name for name in kept if not (templates and adapters.is_chat_template(name))]
        sources += [(base / name, name) for name in kept]
    sources += [(folder / name, name) for name in names]
    for path, name in sources:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, out / name)
    if "default" in templates and not any(name.endswith(".jinja") for name in names):
        (out / adapters.CHAT_TEMPLATE).write_text(templates["default"], "utf-8", newline="")


@contextmanager
def _staged(folder: Path, base: Path) -> Iterator[Path]:
    """Yield a temporary folder with these files; errors of the block name the adapter's folder."""
    with tempfile.TemporaryDirectory(prefix="fedaudit-") as scratch:
        write(folder, base, Path(scratch))
        try:
            yield Path(scratch)
        except InputError as error:
            raise InputError(str(error).replace(scratch, str(folder))) from None
