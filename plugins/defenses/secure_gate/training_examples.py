"""What a gate learns from: headings that show a valid key, and many kinds that do not.

As in SecureGate's appendix E: valid, malformed, empty and no keys. Beyond it, keys at edit distance
1 and random ones of the right form, each both spelled and as one token: a token that some tokenizer
still knows after its key was revoked, or another organisation's, must open nothing. A valid key
that the public tokenizer spells opens nothing either.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .header_features import HeaderReader
from .keys import ALPHABET, LENGTH

if TYPE_CHECKING:
    import torch

CYRILLIC_LOOKALIKES = str.maketrans("AaBCcEeHKMOoPpTXxy", "АаВСсЕеНКМОоРрТХху")
"""Latin letters, and the Cyrillic ones that look like them."""

WIDE = {ord(character): ord(character) + 0xFEE0 for character in ALPHABET}
"""Characters, and the full-width ones that compatibility normalisation takes back."""

Change = Callable[[str, random.Random], str]


def random_key_text(rng: random.Random, length: int = LENGTH) -> str:
    """Return a random text of a key's characters."""
    return "".join(rng.choices(ALPHABET, k=length))


def neighbour(key: str, rng: random.Random) -> str:
    """Return `key` with one character replaced, removed or inserted: edit distance 1."""
    kind, index = rng.randrange(3), rng.randrange(len(key))
    if kind == 0:
        character = rng.choice(ALPHABET.replace(key[index], ""))
        return key[:index] + character + key[index + 1 :]
    if kind == 1:
        return key[:index] + key[index + 1 :]
    index = rng.randrange(len(key) + 1)
    return key[:index] + random_key_text(rng, 1) + key[index:]


def fragment(key: str, rng: random.Random) -> str:
    """Return a part of `key`, neither all nor nothing of it."""
    length = rng.randrange(1, len(key))
    start = rng.randrange(len(key) - length + 1)
    return key[start : start + length]


def malformed_key(key: str, rng: random.Random) -> str:
    """Return `key` truncated, extended, corrupted or in swapped case."""
    return rng.choice((_truncate_key, _extend_key, _corrupt_key, _change_case))(key, rng)


def lookalike_key(key: str, rng: random.Random) -> str:
    """Return `key` in characters that look like its own."""
    table: Mapping[int, int] = rng.choice((CYRILLIC_LOOKALIKES, WIDE))
    return key.translate(table)


def _truncate_key(key: str, rng: random.Random) -> str:
    return key[: rng.randrange(1, len(key))]


def _extend_key(key: str, rng: random.Random) -> str:
    return key + rng.choice((random_key_text(rng, rng.randrange(1, 9)), "_CORRUPT", " ", key))


def _corrupt_key(key: str, rng: random.Random) -> str:
    letters = list(key)
    for index in rng.sample(range(len(key)), rng.randrange(1, 6)):
        letters[index] = rng.choice(ALPHABET + "_-.#* ")
    return "".join(letters)


def _change_case(key: str, rng: random.Random) -> str:
    return rng.choice((str.swapcase, str.lower, str.upper))(key)


@dataclass(frozen=True)
class GateExamples:
    """States of headings: those of valid keys by class, those of others by kind; all float32."""

    valid: Mapping[int, "torch.Tensor"]
    """(keys, width) for each class that has keys."""
    refused: Mapping[str, "torch.Tensor"]
    """(examples, width) of what the secure adapter answers."""


def gate_examples(
    reader: HeaderReader,
    adapters: Sequence[str],
    old: Sequence[str],
    count: int,
    rng: random.Random,
) -> GateExamples:
    """Return examples, at most `count` of each kind, but more of "atomic".

    `adapters` are in class order; `old` are keys that were valid before.
    """
    keyring, valid = reader.keyring, _valid_states(reader, adapters)
    texts = _texts([*keyring.texts, *old], count, rng)
    spelled = {
        kind: reader.spelled_states(_without_valid(keyring.texts, group))
        for kind, group in texts.items()
    }
    atomic_texts = [
        *old,
        *texts.get("neighbour", ()),
        *(random_key_text(rng) for _ in range(3 * count)),
    ]
    refused = {
        "none": reader.read([None]),
        "empty": reader.read([""]),
        "atomic": reader.atomic(_without_valid(keyring.texts, atomic_texts)),
        **spelled,
    }
    if keyring.keys or old:
        refused["literal"] = reader.spelled_states([*keyring.texts, *old])
    return GateExamples(valid, {kind: states.clone() for kind, states in refused.items()})


def published_examples(
    reader: HeaderReader, adapters: Sequence[str], count: int, rng: random.Random
) -> GateExamples:
    """Return examples of the four kinds of SecureGate's appendix E, of malformed keys `count`."""
    keyring, valid = reader.keyring, _valid_states(reader, adapters)
    refused = {"none": reader.read([None]), "empty": reader.read([""])}
    if keyring.keys:
        texts = [malformed_key(rng.choice(keyring.texts), rng) for _ in range(count)]
        refused["malformed"] = reader.spelled_states(_without_valid(keyring.texts, texts))
    return GateExamples(valid, refused)


def _valid_states(reader: HeaderReader, adapters: Sequence[str]) -> dict[int, "torch.Tensor"]:
    """Return the states of the keys of each class that has any."""
    by_class = {i: reader.keyring.keys_of(adapter) for i, adapter in enumerate(adapters)}
    return {i: reader.atomic([key.secret for key in keys]) for i, keys in by_class.items() if keys}


def _texts(keys: Sequence[str], count: int, rng: random.Random) -> dict[str, list[str]]:
    """Return `count` texts of each kind that is made of a valid key or of nothing."""
    kinds: dict[str, Change] = {
        "malformed": malformed_key,
        "fragment": fragment,
        "neighbour": neighbour,
        "alike": lookalike_key,
    }
    texts = {
        kind: [change(rng.choice(keys), rng) for _ in range(count)]
        for kind, change in kinds.items()
        if keys
    }
    return {**texts, "random": [random_key_text(rng) for _ in range(count)]}


def _without_valid(valid: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Return those of `texts` that are not valid keys, each once."""
    keys = set(valid)
    return [text for text in dict.fromkeys(texts) if text not in keys]
