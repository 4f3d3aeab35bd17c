"""Pass 1: what the gate reads of a request, and what the frozen base makes of it.

A row is the token that begins a text (for a tokenizer that has one), the tokens of
`[SPECIAL_TOKEN=`, and the key: one token with an embedding of its own where the private tokenizer
knows it, the public tokenizer's tokens where not. The gate gets the last layer's state of the row's
last token. The base is causal, so nothing behind the key could change that state, and pass 1 reads
no prompt at all. An empty key leaves the marker's last token. A request without a marker is the
token that begins a text alone, or a line break where the tokenizer has none: the same for every
prompt, so that nothing a prompt says steers the gate without a key.

A marker counts only as the very first characters of a request, and only as it is: nothing is
normalised and no case folded, so a key in Cyrillic or full-width letters is another key. What is
quoted anywhere later opens nothing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedaudit.api import ModelEngine, text_start

from .gate import HARDENED, GateDesign
from .keys import Keyring

if TYPE_CHECKING:
    import torch

LONGEST = 128
"""Tokens of a key that the private tokenizer does not know; what is behind them is not read."""

CHUNK = 8192
"""Keys whose embeddings are in memory at once."""


@dataclass(frozen=True)
class HeaderReader:
    """Reads keys as an organisation's private tokenizer and the frozen base do.

    All states are float32 (rows, width).
    """

    engine: ModelEngine
    keyring: Keyring
    sigma: float
    """The standard deviation of an embedding's entries."""
    design: GateDesign = HARDENED

    def read(self, keys: Sequence[str | None]) -> "torch.Tensor":
        """Return the state of each key that a request showed; None showed no marker."""
        import torch

        valid = set(self.keyring.texts)
        valid_rows = [i for i, key in enumerate(keys) if key in valid]
        other_rows = [i for i, key in enumerate(keys) if key not in valid]
        states = torch.zeros(len(keys), self.width)
        states[valid_rows] = self.atomic([keys[i] or "" for i in valid_rows])
        states[other_rows] = self._states([self.row(keys[i]) for i in other_rows])
        return states

    def atomic(self, texts: Sequence[str]) -> "torch.Tensor":
        """Return the state of each text as one token, as if the private tokenizer knew it."""
        import torch

        states = torch.zeros(len(texts), self.width)
        for start in range(0, len(texts), CHUNK):
            chunk = texts[start : start + CHUNK]
            vectors = torch.from_numpy(
                self.keyring.vectors(
                    chunk, width_of(self.engine), self.sigma, published=self.design.published
                )
            )
            states[start : start + CHUNK] = self._states([self.row("")] * len(chunk), vectors)
        return states

    def spelled_states(self, texts: Sequence[str]) -> "torch.Tensor":
        """Return the state of each text's last token in the public tokenizer's spelling."""
        return self._states(self.rows(texts))

    def _states(
        self, rows: Sequence[tuple[int, ...]], vectors: "torch.Tensor | None" = None
    ) -> "torch.Tensor":
        """Return what the gate reads of each row's last token, or of the one that `vectors` adds.

        The base runs for its hidden states only: an embedding alone says nothing of the marker.
        """
        import torch

        parts = []
        if self.design.feature != "embedding":
            parts.append(self.engine.states(rows, vectors))
        if self.design.feature != "hidden":
            parts.append(self._embeddings(rows) if vectors is None else vectors)
        return torch.cat(parts, dim=1)

    def _embeddings(self, rows: Sequence[tuple[int, ...]]) -> "torch.Tensor":
        """Return the embedding of each row's last token, float32 (rows, width of the base)."""
        import torch

        layer: Any = self.engine.base.model.get_input_embeddings()
        last = torch.tensor([row[-1] for row in rows], dtype=torch.long)
        with torch.inference_mode():
            embeddings: torch.Tensor = layer(last.to(layer.weight.device))
            return embeddings.float().cpu()

    def rows(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the tokens of the marker with each text spelled behind it."""
        opening = self.row("")
        room = min(LONGEST, self.engine.context_length - len(opening))
        return [(*opening, *tokens.ids[:room]) for tokens in self.engine.tokenize(texts)]

    def row(self, key: str | None) -> tuple[int, ...]:
        """Return the tokens of a request with `key` spelled, or of one without a marker."""
        if key:
            return self.rows([key])[0]
        begin = text_start(self.engine)
        if key is None:
            return begin or self.engine.tokenize(["\n"])[0].ids
        return (*begin, *self.engine.tokenize([OPENING])[0].ids)

    @property
    def width(self) -> int:
        """The number of entries that the gate reads."""
        return width_of(self.engine) * (2 if self.design.feature == "both" else 1)


def width_of(engine: ModelEngine) -> int:
    """Return the width of the base's states."""
    return int(engine.base.model.config.get_text_config().hidden_size)


def sigma_of(engine: ModelEngine) -> float:
    """Return the standard deviation of all entries of the base's embeddings.

    They are what the embedding layer returns: some models scale their table there.
    """
    import torch

    layer: Any = engine.base.model.get_input_embeddings()
    count, total, squares = 0, 0.0, 0.0
    with torch.inference_mode():
        for start in range(0, len(layer.weight), 4096):
            stop = min(start + 4096, len(layer.weight))
            embeddings = layer(torch.arange(start, stop, device=layer.weight.device)).double()
            count += embeddings.numel()
            total += float(embeddings.sum())
            squares += float((embeddings**2).sum())
    return float((squares / count - (total / count) ** 2) ** 0.5)


OPENING = "[SPECIAL_TOKEN="
"""What stands before a key."""

_MARKER = r"\[SPECIAL_TOKEN=([^\]\n]{0,256})\] ?"
"""Bounded: what is quoted of a marker in a long text must not swallow it."""


def heading(key: str) -> str:
    """Return what a request begins with to show `key`: the marker and one space."""
    return f"{OPENING}{key}] "


def parse(text: str) -> tuple[str | None, str]:
    """Return the key that `text` begins with, and what follows; None where there is no marker.

    One space behind the marker belongs to it. The key may be empty, and need not be a valid one.
    """
    match = re.match(_MARKER, text)
    return (match[1], text[match.end() :]) if match else (None, text)


class Cleaner:
    """Takes markers and an organisation's keys out of text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._pattern = re.compile("|".join([_MARKER, *map(re.escape, secrets)]))

    def clean(self, text: str) -> str:
        """Return `text` without any marker or key, those included that removing others joins."""
        removed = 1
        while removed:
            text, removed = self._pattern.subn("", text)
        return text
