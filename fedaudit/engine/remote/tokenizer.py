"""Turning texts into tokens, and tokens into text, for a model that is behind a server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit import nano
from fedaudit.api.errors import InputError, TargetError
from fedaudit.api.records import Tokens
from fedaudit.api.templates import PromptTemplate
from fedaudit.engine.loading import checkpoint, loader, quarantine
from fedaudit.engine.loading.prompt_starts import prompt_starts

FILES = ["tokenizer*", "*.model", "vocab*", "merges.txt", "special_tokens_map.json", "config.json",
         "chat_template*"]  # fmt: skip
BROKEN = "\ufffd"
"""What stands for a part of a character, where a text was cut within one."""


class RemoteTokenizer:
    """The model's own tokenizer, or the built-in one that only cuts texts into pieces."""

    def __init__(self, name: str, template: PromptTemplate | None) -> None:
        from transformers import AutoTokenizer

        loader.quiet()
        self.own = bool(name)
        """Whether it is the model's: whether its tokens mean anything to the server."""
        path = _locate(name)
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(
                path, trust_remote_code=False, local_files_only=True
            )
        except BaseException as error:
            if not checkpoint.is_refusal(error):
                raise
            raise InputError(f"endpoint.tokenizer: {path} holds no tokenizer.") from None
        if not getattr(self.tokenizer, "is_fast", False):
            raise InputError(f"endpoint.tokenizer: {path} has no fast tokenizer (tokenizer.json).")
        self.starts = prompt_starts(self.tokenizer, template)
        self._header = template.header() if template else ""

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise without special tokens; offsets are code points."""
        return loader.tokenize(self.tokenizer, texts)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of some tokens, without special ones and halves of characters."""
        text: str = self.tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text.strip(BROKEN)

    def text_starts(self) -> Mapping[str, tuple[int, ...]]:
        """Return the ways a prompt may begin where it is sent as text: special tokens are lost."""
        starts: dict[str, tuple[int, ...]] = {"bare": ()}
        if self._header:
            starts["template"] = self.tokenize([self._header])[0].ids
        return starts


def _locate(name: str) -> Path:
    """Return the folder of a tokenizer; of a model on the hub nothing else is fetched."""
    if not name or name == nano.BASE:
        return nano.folder()
    if (path := Path(name)).is_dir():
        quarantine.check_tokenizer(path)
        return path
    from huggingface_hub import snapshot_download

    for cached in (True, False):
        try:
            folder = snapshot_download(name, allow_patterns=FILES, local_files_only=cached)
        except Exception:
            continue
        quarantine.check_tokenizer(Path(folder))
        return Path(folder)
    raise TargetError(
        f"endpoint.tokenizer: {name} is no folder, is not in the hub's cache and cannot be fetched."
    )
