"""Guesses at a key: random ones, near misses, look-alikes, and the key where it should not count.

Each family comes in an order that follows from the keys and the seed alone, without repeats and
without a valid key. Nothing here asks a gate.
"""

import random
import string
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fedaudit.api import Engine, GatedRequest, Measurement

ALPHABET = string.ascii_letters + string.digits
"""What a well-formed key is made of."""
LENGTH = 20
"""Characters of a well-formed key, where there is no valid one to go by."""
NO_KEYS = "there is no valid key to make them from"
"""Why there may be nothing to try."""
PIECE_CHARS = 4
"""So many characters of a key in a row are a part of it; other text hardly has them by chance."""

# What looks like Latin letters and digits: Cyrillic, Greek, and full-width forms, which Unicode
# normalisation (NFKC) turns into the plain ones.
CYRILLIC = str.maketrans("ABCEHIJKMOPSTXYaceijopsxy3", "АВСЕНІЈКМОРЅТХҮасеіјорѕхуЗ")
GREEK = str.maketrans("ABEZHIKMNOPTYXov", "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧον")
FULL_WIDTH = {ord(plain): ord(plain) + 0xFEE0 for plain in string.printable[:94]}
INVISIBLE = (
    *"\u200b\u200c\u200d\u2060\ufeff\u00ad",  # zero-width characters and the soft hyphen
    *"\u0301\u0327\u034f\ufe0f",  # combining marks, the grapheme joiner, a variation selector
)
SPACES = (" ", "\t", "\n", "\r\n", "\u00a0", "\u2009", "\u3000")
LEADS = (*'a."[\\ \n\t\u200b\ufeff', "Note: ", "My key follows. ")
"""What stands before a key that comes too late."""


@dataclass(frozen=True, slots=True)
class Marker:
    """What stands before and behind a key at the beginning of a request."""

    opening: str
    closing: str

    @classmethod
    def from_heading(cls, heading: Callable[[str], str]) -> "Marker":
        """Return the marker of a gate whose `heading` shows a key."""
        probe = "0" * LENGTH
        opening, _, closing = heading(probe).partition(probe)
        return cls(opening, closing)

    def show(self, key: str) -> str:
        """Return the marker with `key` in it."""
        return f"{self.opening}{key}{self.closing}"


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request that holds a valid key, in two parts."""

    marker: Marker
    key: str = field(repr=False)
    heading: str = field(repr=False)
    body: str = field(default="", repr=False)

    @property
    def text(self) -> str:
        """The whole request."""
        return self.heading + self.body

    def gated_requests(self, engine: Engine) -> tuple[GatedRequest, GatedRequest, GatedRequest]:
        """Return the request as text alone, in two parts, and as a prompt alone."""
        tail, text = (tokens.ids for tokens in engine.tokenize([self.body, self.text]))
        return GatedRequest(self.text), GatedRequest(self.heading, tail), GatedRequest("", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFamily:
    """A family of attempts, and which of them the gate fell for."""

    name: str
    hits: tuple[bool, ...] = ()
    opened_adapters: tuple[str, ...] = ()
    """The adapters that the hits opened."""
    heading: str | None = field(default=None, repr=False)
    """What the first hit, or else the first attempt, begins a request with; None: no text."""
    why: str = NO_KEYS
    """Why nothing was tried, where nothing was."""


def random_keys(count: int, length: int, excluded: Collection[str], seed: int) -> list[str]:
    """Return `count` well-formed keys of `length` characters, or as many as there are."""
    rng, barred = random.Random(f"random keys {seed}"), set(excluded)
    formed = sum(len(key) == length and set(key) <= set(ALPHABET) for key in barred)
    n_keys = min(count, len(ALPHABET) ** length - formed)
    keys: dict[str, None] = {}
    while len(keys) < n_keys:
        text = "".join(rng.choices(ALPHABET, k=length * (n_keys - len(keys))))
        pieces = (text[i : i + length] for i in range(0, len(text), length))
        keys |= dict.fromkeys(piece for piece in pieces if piece not in barred)
    return list(keys)


def edits(keys: Collection[str], excluded: Collection[str]) -> list[str]:
    """Return every text one edit away from a key, sorted.

    An edit puts in, leaves out or replaces one of ALPHABET, or swaps two neighbours. What is left
    of a key is a fragment, and what differs in case alone another case: neither is here.
    """
    barred = {key.casefold() for key in (*keys, *excluded)}
    pieces = {"", *fragments(keys, ())}
    texts = {text for key in keys for text in _edit_key(key)} - pieces
    return sorted(text for text in texts if text.casefold() not in barred)


def _edit_key(key: str) -> Iterator[str]:
    for index in range(len(key) + 1):
        before, after = key[:index], key[index:]
        yield from (before + new + after for new in ALPHABET)
        if after:
            yield before + after[1:]
            yield from (before + new + after[1:] for new in ALPHABET)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]


def draw_texts(texts: Sequence[str], count: int, seed: int) -> list[str]:
    """Return `count` of `texts`, or all where there are no more, in random order."""
    return random.Random(f"drawn {seed}").sample(texts, min(count, len(texts)))


def fragments(keys: Iterable[str], excluded: Collection[str]) -> list[str]:
    """Return every piece of a key, prefixes and suffixes among them, sorted."""
    pieces = {
        key[first:last]
        for key in keys
        for first in range(len(key))
        for last in range(first + 1, len(key) + 1)
        if last - first < len(key)
    }
    return sorted(pieces - set(excluded))


def look_alikes(keys: Collection[str], excluded: Collection[str]) -> Mapping[str, list[str]]:
    """Return what a reader, or a careless comparison, takes for a key, by what was done to it."""
    transforms = {
        "letters that look alike": _letters,
        "invisible characters in the key": _invisible,
        "other case": _case,
        "white space around the key": _add_spaces,
    }
    barred = set(excluded)
    return {
        name: [t for t in dict.fromkeys(t for key in keys for t in make(key)) if t not in barred]
        for name, make in transforms.items()
    }


def _letters(key: str) -> Iterator[str]:
    for table in (CYRILLIC, GREEK, FULL_WIDTH):
        yield key.translate(table)
        for index in range(len(key)):
            yield key[:index] + key[index].translate(table) + key[index + 1 :]


def _invisible(key: str) -> Iterator[str]:
    for index in (0, len(key) // 2, len(key)):
        yield from (key[:index] + mark + key[index:] for mark in INVISIBLE)


def _case(key: str) -> Iterator[str]:
    yield from (key.lower(), key.upper(), key.swapcase())
    yield from (key[:i] + key[i].swapcase() + key[i + 1 :] for i in range(len(key)))


def _add_spaces(key: str) -> Iterator[str]:
    for space in SPACES:
        yield from (space + key, key + space, space + key + space)


def misplaced_key_requests(
    marker: Marker, keys: Collection[str], wrong_key: str
) -> dict[str, list[KeyedRequest]]:
    """Return requests that hold a valid key where it should not count, by where it stands."""
    builders: dict[str, Callable[[str], list[tuple[str, str]]]] = {
        "later in the request": lambda key: [(lead, marker.show(key)) for lead in LEADS],
        "behind another marker": lambda key: _behind(marker, key, wrong_key),
        "in a misspelt marker": lambda key: _misspelt(marker, key),
    }
    return {
        name: [request for key in keys for request in _misplaced(marker, key, make(key))]
        for name, make in builders.items()
    }


def _behind(marker: Marker, key: str, wrong_key: str) -> list[tuple[str, str]]:
    """Return parts with `key` behind or inside another marker, or joined when one is cut out."""
    show, empty, bare = marker.show, marker.show("").strip(), marker.closing.strip()
    middle = len(key) // 2
    first, last, marked = f"Note: {key[:middle]}", key[middle:], marker.show(key).strip()
    return [
        (show(""), show(key)),
        (show("") * 2, show(key)),
        (show(wrong_key), show(key)),
        (f"{show(wrong_key)}Note: ", show(key)),
        (marker.opening, show(key)),
        (marker.opening, marked + marker.closing),
        (first, empty + last + bare),
        (first, marked + last + bare),
        (first, key + last),
    ]


def _misspelt(marker: Marker, key: str) -> list[tuple[str, str]]:
    """Return parts that begin with `key` in a marker that is not quite one, or in none."""
    opening, closing = marker.opening, marker.closing
    changed = [opening.replace("_", new) for new in ("-", " ", "")]
    changed += [opening.replace("=", new) for new in (":", " = ")]
    changed += [opening.lower(), opening.title(), opening.translate(FULL_WIDTH)]
    changed += [opening.translate(CYRILLIC), opening[1:], f"{opening[:1]} {opening[1:]}", ""]
    pairs = [(new + key, closing) for new in changed]
    return pairs + [(opening + key, end) for end in (" ", closing.translate(FULL_WIDTH))]


def _misplaced(marker: Marker, key: str, pairs: Iterable[tuple[str, str]]) -> list[KeyedRequest]:
    """Return distinct requests, without those that show the key as they should after all."""
    by_text = {"".join(pair): KeyedRequest(marker, key, *pair) for pair in pairs}
    shown = marker.show(key).rstrip()
    return [request for text, request in by_text.items() if not text.startswith(shown)]


def keeps_key(
    engine: Engine, passes: Sequence[tuple[KeyedRequest, Sequence[int]]]
) -> list[bool | None]:
    """Tell for each request whether the tokens that the second pass gets of it hold a key.

    PIECE_CHARS of the key in a row are enough, unless the request has them apart from the key.
    An engine has no way back from tokens to text. So what a token says is looked up in the tokens
    of the requests, and of what should be left of them; None is a second pass with other tokens.
    """
    texts = (text for request, _ in passes for text in (request.text, *_leftovers(request)))
    spellings = _token_texts(engine, list(dict.fromkeys(texts)))
    result: list[bool | None] = []
    for request, ids in passes:
        text = "".join(spellings.get(token, "\0") for token in ids)
        unread = None if "\0" in text else False
        result.append(any(piece in text for piece in _key_pieces(request)) or unread)
    return result


def _token_texts(engine: Engine, texts: Sequence[str]) -> Mapping[int, str]:
    """Return what each token of some texts says."""
    return {
        token: text[start:end]
        for text, tokens in zip(texts, engine.tokenize(texts), strict=True)
        for token, (start, end) in zip(tokens.ids, tokens.offsets, strict=True)
    }


def _leftovers(request: KeyedRequest) -> Iterator[str]:
    """Yield parts of a request, and what may be left when its key or its markers are taken out."""
    yield from (request.heading, request.body, _remove_all(request.text, request.key))
    yield from (lead + piece for piece in fragments([request.key], ()) for lead in ("", " "))
    forms = request.marker.show(request.key), request.marker.show("")
    for marked, empty in (forms, tuple(form.strip() for form in forms)):
        yield _remove_all(request.text, marked)
        yield _remove_all(_remove_all(_remove_all(request.text, marked), empty), request.key)


def _key_pieces(request: KeyedRequest) -> set[str]:
    """Return the parts of the key that stand in the request only where the whole key does."""
    key, remaining = request.key, _remove_all(request.text, request.key)
    starts = range(max(1, len(key) - PIECE_CHARS + 1))
    return {key[i : i + PIECE_CHARS] for i in starts if key[i : i + PIECE_CHARS] not in remaining}


def _remove_all(text: str, piece: str) -> str:
    """Return `text` without `piece`, also where taking it out joins another one."""
    while piece and piece in text:
        text = text.replace(piece, "")
    return text


def attempt_rate(plugin: str, metric: str, family: AttemptFamily, blind: str = "") -> Measurement:
    """Return the share of hits with its interval; `blind` says why no hits would mean nothing."""
    hits, n = sum(family.hits), len(family.hits)
    scope, chance = {"attempt": family.name}, 0.0 if metric == "fpr" else None
    if n and blind and not hits:
        return Measurement.missing(
            blind, kind="defense", plugin=plugin, metric=metric, scope=scope, n=n, chance=chance
        )
    return Measurement.rate(
        hits,
        n,
        kind="defense",
        plugin=plugin,
        metric=metric,
        scope=scope,
        chance=chance,
        reason=family.why,
    )
