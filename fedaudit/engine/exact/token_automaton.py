"""A vocabulary as bytes, and an automaton over the strings that its tokens can spell.

The text of a completion is the concatenated bytes of its tokens; a token may end in the middle of a
character. Leading white space of a completion is ignored.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedaudit.api.errors import InputError

if TYPE_CHECKING:
    from fedaudit.engine.loading.loader import LoadedBase

Integers = npt.NDArray[np.int64]

SPACES = tuple(chr(code).encode() for code in range(0x3001) if chr(code).isspace())
"""All white space characters in UTF-8; the last one in Unicode is U+3000."""
_SENTENCE = {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}
_NO_BYTES = (
    "The exact estimator needs a tokenizer whose tokens are bytes of the text (byte-level BPE or "
    "SentencePiece); {} has none. Use the sampling estimator."
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The bytes of every token, sorted, followed by the tokens that write nothing.

    End tokens are left out. `order` holds the token ids: those of `spelt`, then the silent ones.
    """

    order: Integers
    spelt: Sequence[bytes]

    @property
    def silent(self) -> range:
        """Return the positions in `order` of tokens that write nothing, such as special tokens."""
        return range(len(self.spelt), len(self.order))

    def run(self, prefix: bytes, low: int, high: int) -> tuple[int, int]:
        """Return the range [first, last) of tokens in [low, high) that begin with `prefix`."""
        first = bisect_left(self.spelt, prefix, low, high)
        return first, bisect_right(
            self.spelt, prefix, first, high, key=lambda spelt: spelt[: len(prefix)]
        )


def vocabulary(tokenizer: Any, size: int, end_tokens: Collection[int], name: str) -> Vocabulary:
    """Return the vocabulary of a model with `size` logits, named `name` in errors.

    Raises InputError for a tokenizer whose tokens do not map to bytes of the text.
    """
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    read = _reader(backend, name)
    if _rewrites(tokenizer):
        raise InputError(_NO_BYTES.format(name))
    special = {i for i, token in backend.get_added_tokens_decoder().items() if token.special}
    pieces: list[tuple[bytes, int]] = []
    silent: list[int] = []
    for token in set(range(size)) - set(end_tokens):
        piece = None if token in special else backend.id_to_token(token)
        if spelt := read(piece) if piece else b"":
            pieces.append((spelt, token))
        else:
            silent.append(token)
    pieces.sort()
    order = [token for _, token in pieces] + sorted(silent)
    return Vocabulary(np.array(order, dtype=np.int64), [spelt for spelt, _ in pieces])


def _rewrites(tokenizer: Any) -> bool:
    """Say whether a tokenizer removes spaces before punctuation when it decodes."""
    if type(tokenizer.backend_tokenizer.model).__name__ == "BPE":
        option = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
        return bool(getattr(tokenizer, option, False))
    return bool(getattr(tokenizer, "clean_up_tokenization_spaces", False))


def _reader(backend: Any, name: str) -> Any:
    """Return the function that maps a token to its bytes, as the tokenizer's decoder does."""
    decoder = getattr(backend, "decoder", None)
    table: dict[str, Any] = {"type": "none"}
    if decoder is not None:
        table = json.loads(decoder.__getstate__())
    members: list[dict[str, Any]] = table["decoders"] if table["type"] == "Sequence" else [table]
    kinds = {member["type"] for member in members}
    if kinds == {"ByteLevel"}:
        return _byte_level
    marks = [m for m in members if m["type"] == "Replace"]
    plain = all(m["pattern"] == {"String": "▁"} and m["content"] == " " for m in marks)
    strips = all(not m["stop"] for m in members if m["type"] == "Strip")
    if kinds <= _SENTENCE and (marks or "Metaspace" in kinds) and plain and strips:
        return _sentence
    raise InputError(_NO_BYTES.format(name))


def _alphabet() -> dict[str, int]:
    """Return the byte that each character of byte-level BPE stands for (GPT-2's table)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): b for i, b in enumerate(hidden)}


_BYTES = _alphabet()


def _byte_level(piece: str) -> bytes:
    if all(character in _BYTES for character in piece):
        return bytes(_BYTES[character] for character in piece)
    return piece.encode()


def _sentence(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("▁", " ").encode()


@dataclass(frozen=True, slots=True)
class TokenSteps:
    """The transitions at a node of the automaton; tokens are positions in `Vocabulary.order`."""

    tokens: Integers
    nodes: Integers
    """The node that each of `tokens` leads to; tokens that lead to no open string are left out."""
    first: Integers
    last: Integers
    strings: Integers
    """Any token from `first` to `last - 1` completes the string."""


class TokenAutomaton:
    """A trie of strings over bytes, in which leading white space returns to the root.

    `strings` are distinct, in alphabetical order of their bytes; none is empty or begins with
    white space (ValueError).
    """

    def __init__(self, strings: Collection[str], vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.strings = sorted(set(strings), key=_encode)
        if any(not string or string[0].isspace() for string in self.strings):
            raise ValueError("A string to spell is empty or begins with white space.")
        self._children: list[dict[int, int]] = [{}]
        self._string: list[int] = [-1]
        # The strings below a node are contiguous: from `_from` up to `_to`.
        self._from, self._to = [0], [len(self.strings)]
        self._depths = [0]
        for index, string in enumerate(self.strings):
            self._string[self._path(_encode(string), index, index + 1)] = index
        for space in SPACES:
            node = self._path(space[:-1], 0, len(self.strings))
            self._children[node][space[-1]] = 0
        self.depths: Integers = np.array(self._depths, dtype=np.int64)
        """(nodes,) The number of bytes spelt at each node."""
        self._steps: dict[int, TokenSteps] = {}

    def _path(self, spelt: bytes, start: int, end: int) -> int:
        node = 0
        for depth, byte in enumerate(spelt, 1):
            if byte not in self._children[node]:
                self._children[node][byte] = len(self._children)
                self._children.append({})
                self._string.append(-1)
                self._from.append(start)
                self._to.append(end)
                self._depths.append(depth)
            node = self._children[node][byte]
            self._from[node] = min(self._from[node], start)
            self._to[node] = max(self._to[node], end)
        return node

    def below(self) -> tuple[Integers, Integers]:
        """Return, for every node, the range [first, last) of strings that can still be spelt."""
        is_end = np.array(self._string) >= 0
        return np.array(self._from) + is_end, np.array(self._to)

    def steps(self, node: int) -> TokenSteps:
        """Return the transitions at a node, computed on first use."""
        if node not in self._steps:
            self._steps[node] = self._build_steps(node)
        return self._steps[node]

    def _build_steps(self, start: int) -> TokenSteps:
        spelt = self.vocabulary.spelt
        leads = [(position, start) for position in self.vocabulary.silent]
        completes: list[tuple[int, int, int]] = []
        open_ = [(start, b"", 0, len(spelt))]
        while open_:
            node, so_far, low, high = open_.pop()
            if so_far and self._children[node]:
                stop = bisect_right(spelt, so_far, low, high)
                leads += [(position, node) for position in range(low, stop)]
            for byte, child in self._children[node].items():
                longer = so_far + bytes([byte])
                begin, end = self.vocabulary.run(longer, low, high)
                if begin < end:
                    if self._string[child] >= 0:
                        completes.append((begin, end, self._string[child]))
                    open_.append((child, longer, begin, end))
        to = np.array(sorted(leads), dtype=np.int64).reshape(-1, 2)
        runs = np.array(sorted(completes), dtype=np.int64).reshape(-1, 3)
        return TokenSteps(to[:, 0], to[:, 1], runs[:, 0], runs[:, 1], runs[:, 2])


class AutomatonCache:
    """The vocabulary of a base, and the automaton that it used last.

    The tuned model and its base share it.
    """

    def __init__(self, base: "LoadedBase") -> None:
        self._base = base
        self._last: dict[tuple[str, ...], TokenAutomaton] = {}

    def get(self, strings: Collection[str]) -> TokenAutomaton:
        """Return the automaton of `strings`."""
        key = tuple(sorted(set(strings)))
        if key not in self._last:
            self._last = {key: TokenAutomaton(key, self._vocabulary)}
        return self._last[key]

    @cached_property
    def table(self) -> list[bytes]:
        """The bytes of every token by token id; tokens that end a completion have none."""
        table = [b""] * self._size
        for token, spelt in zip(self._vocabulary.order, self._vocabulary.spelt, strict=False):
            table[token] = spelt
        return table

    @property
    def _size(self) -> int:
        return int(self._base.model.config.get_text_config().vocab_size)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        base = self._base
        return vocabulary(base.tokenizer, self._size, base.end_tokens, base.name)


def _encode(string: str) -> bytes:
    return string.encode("utf-8", "surrogatepass")
