"""The tokenizer for a served model: its own, or the built-in one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit import nano
from fedaudit.api.errors import InputError, TargetError
from fedaudit.api.records import Tokens
from fedaudit.api.templates import PromptTemplate
from fedaudit.engine.loading import checkpoint, loader, quarantine
from fedaudit.engine.loading.prompt_starts import prompt_starts
from fedaudit.engine.remote.wire import CompletionResponse

FILES = ["tokenizer*", "*.model", "vocab*", "merges.txt", "special_tokens_map.json", "config.json",
         "chat_template*"]  # fmt: skip
BROKEN = "\ufffd"
"""The replacement for an incomplete character at the edge of a text."""
MISSING_ABOVE = 0.25
"""The share of generated tokens that may be missing from a text, which may be tokenised into fewer
tokens than it was generated in."""


class RemoteTokenizer:
    """The model's own tokenizer, or the built-in one, whose token ids mean nothing to the server.

    Raises InputError if there is no fast tokenizer, TargetError if it cannot be fetched.
    """

    def __init__(self, name: str, template: PromptTemplate | None) -> None:
        from transformers import AutoTokenizer

        loader.quiet()
        self.own = bool(name)
        """Whether it is the model's own, so that its token ids mean something to the server."""
        path = _locate(name)
        with checkpoint.refusing(f"endpoint.tokenizer: {path} holds no tokenizer"):
            self.tokenizer: Any = AutoTokenizer.from_pretrained(path, **checkpoint.LOCAL)
        if not getattr(self.tokenizer, "is_fast", False):
            raise InputError(f"endpoint.tokenizer: {path} has no fast tokenizer (tokenizer.json).")
        self.starts = prompt_starts(self.tokenizer, template)
        self._header = template.header() if template else ""

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise without special tokens; offsets are in code points."""
        return loader.tokenize(self.tokenizer, texts)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of some tokens, without special tokens and incomplete characters."""
        text: str = self.tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text.strip(BROKEN)

    def text_starts(self) -> Mapping[str, tuple[int, ...]]:
        """Return the starts of prompts that are sent as text, where special tokens are lost."""
        starts: dict[str, tuple[int, ...]] = {"bare": ()}
        if self._header:
            starts["template"] = self.tokenize([self._header])[0].ids
        return starts

    def count_missing(self, answer: CompletionResponse) -> int:
        """Return how many generated tokens are not in an answer's texts; 0 if few or unknown.

        One token for each text may be its end token.
        """
        generated = answer.new_tokens
        if generated is None and len(answer.texts) == 1 and answer.log_probabilities:
            generated = len(answer.log_probabilities)
        if generated is None or not self.own:
            return 0
        written = sum(len(tokens.ids) for tokens in self.tokenize(answer.texts))
        missing = generated - written - len(answer.texts)
        return missing if missing > MISSING_ABOVE * generated else 0


def _locate(name: str) -> Path:
    """Return the folder of a tokenizer; from the hub, only tokenizer files are fetched."""
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
        f"endpoint.tokenizer: {name} is not a folder, is not in the hub's cache and cannot be "
        f"fetched."
    )
