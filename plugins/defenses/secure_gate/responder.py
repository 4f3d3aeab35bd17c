"""How a client's deployed model answers: the gate chooses, the chosen adapter reads no key."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.defense import KeyedResponder
from fedaudit.records import Request, Routed

from .gate import Gate
from .headers import Reader
from .keys import Keyring
from .lessons import drawn
from .marker import Cleaner, heading, parse

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine


class GateResponder(KeyedResponder):
    """Routes requests by their keys; decisions are kept by key."""

    def __init__(
        self,
        engine: "LocalEngine",
        gate: Gate,
        keyring: Keyring,
        folders: Mapping[str, Path],
        *,
        foreign: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self.engine, self.gate, self.keyring, self.folders = engine, gate, keyring, folders
        self.adapters = gate.adapters
        self.secrets, self.foreign = keyring.texts, tuple(foreign)
        self.seed = seed
        self._reader = Reader(engine, keyring, gate.sigma)
        self._cleaner = Cleaner(keyring.texts)
        self._decided: dict[str | None, int] = {}

    def route(self, requests: Sequence[Request]) -> list[Routed]:
        """Return each request's adapter, and its prompt without any marker or key.

        Only the heading's text may open anything; a prompt behind it, in tokens, is cleaned too.
        """
        parsed = [parse(request.heading) for request in requests]
        new = list(dict.fromkeys(key for key, _ in parsed if key not in self._decided))
        if new:
            classes = self.gate.decide(self._reader.read(new)).tolist()
            self._decided |= zip(new, classes, strict=True)
        rests = [self._cleaner.clean(rest) for _, rest in parsed]
        texts = list(dict.fromkeys(rest for rest in rests if rest))
        tokens = dict(zip(texts, self.engine.tokenize(texts), strict=True))
        prompts = self._cleaned([request.prompt for request in requests])
        routed = []
        for (key, _), rest, request in zip(parsed, rests, requests, strict=True):
            name = self.adapters[self._decided[key]]
            spelled = tokens[rest].ids if rest else ()
            routed.append(
                Routed(name, str(self.folders[name]), (*spelled, *prompts[request.prompt]))
            )
        return routed

    def _cleaned(
        self, prompts: Sequence[tuple[int, ...]]
    ) -> Mapping[tuple[int, ...], tuple[int, ...]]:
        """Return each prompt without markers and keys; one that has none keeps its very tokens."""
        tokenizer = self.engine.base.tokenizer
        distinct = list(dict.fromkeys(prompts))
        found = {prompt: prompt for prompt in distinct}
        texts = tokenizer.batch_decode([list(prompt) for prompt in distinct])
        for prompt, text in zip(distinct, texts, strict=True):
            if (cleaned := self._cleaner.clean(text)) != text:
                found[prompt] = tuple(tokenizer(cleaned, add_special_tokens=False)["input_ids"])
        return found

    def headings(self) -> Mapping[str, str]:
        """Return a heading for each kind of key that there is."""
        found: dict[str, str] = {}
        opened = [key for name in self.adapters[1:] for key in self.keyring.of(name)[:1]]
        if opened:
            found["right"] = heading(opened[0].secret)
        if len(self.adapters) > 2:
            found |= {f"right:{key.adapter}": heading(key.secret) for key in opened}
        rng = random.Random(f"wrong key {self.seed}")
        found["wrong"] = heading(drawn(rng))
        found["none"] = ""
        if self.foreign:
            found["other"] = heading(self.foreign[0])
        return found

    def heading(self, key: str) -> str:
        """Return the marker with `key` in it."""
        return heading(key)

    def opens(self, keys: Sequence[str], *, atomic: bool) -> list[str]:
        """Return the adapter that each key opens as one token, or spelled."""
        states = self._reader.atomic(keys) if atomic else self._reader.spelled(keys)
        return [self.adapters[index] for index in self.gate.decide(states).tolist()]

    def header(self, key: str | None) -> tuple[int, ...]:
        """Return the tokens that pass 1 reads for a key that is spelled."""
        return self._reader.row(key)
