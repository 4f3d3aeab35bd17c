"""How a client's deployed model answers: the gate chooses, the chosen adapter reads no key."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api import GatedRequest, InputError, KeyedResponder, ModelEngine, RoutedRequest

from .gate import TrainedGate
from .header_features import Cleaner, HeaderReader, heading, parse
from .keys import Keyring
from .training_examples import random_key_text

if TYPE_CHECKING:
    import torch


RequestContent = tuple[str, tuple[int, ...]]
"""The text that follows a request's marker, and the prompt behind it in tokens."""


class GateResponder(KeyedResponder):
    """Routes requests by their keys; decisions are kept by key.

    Raises InputError for a gate of another base.
    """

    def __init__(
        self,
        engine: ModelEngine,
        gate: TrainedGate,
        keyring: Keyring,
        folders: Mapping[str, Path],
        *,
        foreign: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self._reader = HeaderReader(engine, keyring, gate.sigma, gate.design)
        if gate.width != self._reader.width:
            raise InputError(
                f"The gate is for another base: it reads states of width {gate.width}, and "
                f"{engine.base.name} has {self._reader.width}."
            )
        self.engine, self.gate, self.keyring, self.folders = engine, gate, keyring, folders
        self.adapters = gate.adapters
        self.secrets, self.foreign = keyring.texts, tuple(foreign)
        self.seed = seed
        self._cleaner = Cleaner(keyring.texts)
        self._decided: dict[str | None, int] = {}

    def route(self, requests: Sequence[GatedRequest]) -> list[RoutedRequest]:
        """Return each request's adapter, and its prompt without any marker or key.

        Only the heading's text may open anything; a prompt behind it, in tokens, is cleaned too.
        """
        parsed = [parse(request.heading) for request in requests]
        new = list(dict.fromkeys(key for key, _ in parsed if key not in self._decided))
        if new:
            classes = self.gate.decide(self._reader.read(new)).tolist()
            self._decided |= zip(new, classes, strict=True)
        contents = [(text, r.prompt) for (_, text), r in zip(parsed, requests, strict=True)]
        prompts = self._prompts(contents)
        names = [self.adapters[self._decided[key]] for key, _ in parsed]
        return [
            RoutedRequest(name, str(self.folders[name]), prompts[content])
            for name, content in zip(names, contents, strict=True)
        ]

    def _prompts(
        self, contents: Sequence[RequestContent]
    ) -> Mapping[RequestContent, tuple[int, ...]]:
        """Return what pass 2 reads for each text and prompt: the text follows the prompt's start.

        A prompt keeps its exact tokens unless a key or a marker is in it, or across the boundary
        of text and prompt.
        """
        splits = {content: self._split(content[1]) for content in contents}
        sequences = [(*self._tokens(text), *body) for (text, _), (_, body) in splits.items()]
        texts = self._decoded(sequences)
        return {
            content: (*splits[content][0], *self._cleaned_tokens(tokens, text))
            for content, tokens, text in zip(splits, sequences, texts, strict=True)
        }

    def _split(self, prompt: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the longest of the engine's prompt starts that `prompt` has, and what follows."""
        starts = [b for b in self.engine.prompt_starts.values() if prompt[: len(b)] == b]
        begin = max(starts, key=len, default=())
        return begin, prompt[len(begin) :]

    def _cleaned_tokens(self, tokens: tuple[int, ...], text: str) -> tuple[int, ...]:
        """Return `tokens`, whose text is `text`, without markers and keys.

        What is tokenised again is checked again: a tokenizer may turn look-alikes into a key.
        """
        while (cleaned := self._cleaner.clean(text)) != text:
            tokens = self._tokens(cleaned)
            [text] = self._decoded([tokens])
        return tokens

    def _tokens(self, text: str) -> tuple[int, ...]:
        return self.engine.tokenize([text])[0].ids if text else ()

    def _decoded(self, rows: Sequence[tuple[int, ...]]) -> list[str]:
        if not rows:  # some tokenizers decode no rows as one empty text
            return []
        texts: list[str] = self.engine.base.tokenizer.batch_decode(
            [list(row) for row in rows], clean_up_tokenization_spaces=False
        )
        return texts

    def headings(self) -> Mapping[str, str]:
        """Return a heading for each kind of key that there is."""
        headings: dict[str, str] = {}
        opened = [key for name in self.adapters[1:] for key in self.keyring.keys_of(name)[:1]]
        if opened:
            headings["right"] = heading(opened[0].secret)
        if len(self.adapters) > 2:
            headings |= {f"right:{key.adapter}": heading(key.secret) for key in opened}
        headings["wrong"] = heading(self._wrong_key())
        headings["none"] = ""
        if self.foreign:
            headings["other"] = heading(self.foreign[0])
        return headings

    def _wrong_key(self) -> str:
        """Return a key that was never issued; it follows from the seed."""
        rng = random.Random(f"wrong key {self.seed}")
        while (key := random_key_text(rng)) in (*self.secrets, *self.foreign):
            pass
        return key

    def heading(self, key: str) -> str:
        """Return the marker with `key` in it."""
        return heading(key)

    def opens(self, keys: Sequence[str], *, atomic: bool) -> list[str]:
        """Return the adapter that each key opens as one token, or spelled."""
        states = self._reader.atomic(keys) if atomic else self._reader.spelled_states(keys)
        return [self.adapters[index] for index in self.gate.decide(states).tolist()]

    def probabilities(self, headings: Sequence[str]) -> "torch.Tensor":
        """Return the gate's softmax for headings, float32 (headings, adapters in class order)."""
        return self.gate.probabilities(self._reader.read([parse(text)[0] for text in headings]))

    def header(self, key: str | None) -> tuple[int, ...]:
        """Return the tokens that pass 1 reads for a key that is spelled."""
        return self._reader.row(key)
