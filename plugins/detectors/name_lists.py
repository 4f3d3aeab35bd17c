"""Names that people have and words that name other things, from Faker's lists."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple

from fedaudit.api import HAN

from .name_words import NO_NAMES

_LATIN = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_HAN = re.compile(f"[{HAN}]+")
_LETTERS = str.maketrans("łøđðħıŁØĐÐĦİ’‐‑", "lodohiLODOHI'--", "")
_DIGRAPHS = {"ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ə": "e", "ʻ": "'"}


class NameLists(NamedTuple):
    """Names in Latin letters as `name_key` folds them, and names in Han characters."""

    first: frozenset[str]
    last: frozenset[str]
    common: frozenset[str]
    """Words that mean something else than a person; some are names as well."""
    han: frozenset[str]
    han_given: frozenset[str]
    """Characters that given names in Han characters are made of."""


def name_key(word: str) -> str:
    """Return a name without its accents and case, as files spell it and lists may not."""
    folded = word.casefold() if word.isascii() else _plain(word)
    return folded.replace("-", "")


def word_key(word: str) -> str:
    """Return a word as lists of words have it: an accent makes it another one, as in Thế or Mỹ."""
    return name_key(word) if word.isascii() else word.casefold()


def _plain(word: str) -> str:
    letters = unicodedata.normalize("NFKD", word.translate(_LETTERS).casefold())
    letters = "".join(_DIGRAPHS.get(char, char) for char in letters)
    return (
        "".join(char for char in letters if not unicodedata.combining(char))
        .replace("’", "'")
        .replace("ʼ", "'")
    )


@cache
def name_lists() -> NameLists:
    """Return the names of all of Faker's languages and countries."""
    first, last, han, given = {"mohd", "muhd"}, set[str](), set[str](), set[str]()
    for module, provider in _providers("faker.providers.person"):
        for attribute, strings in _attributes(provider):
            if re.search(r"first_(?:romanized_)?names?", attribute):
                first |= _latin_keys(strings)
                if module.startswith("zh"):
                    given |= {char for name in strings if _HAN.fullmatch(name) for char in name}
            elif re.search(r"last_(?:romanized_)?names?", attribute):
                last |= _latin_keys(strings)
                if module.startswith("zh"):
                    han |= {name for name in strings if _HAN.fullmatch(name) and len(name) < 3}
    common = {name_key(word) for word in NO_NAMES} | set(_common_words()) - {"hong", "el"}
    return NameLists(*map(frozenset, (first, last, common, han, given)))


def _latin_keys(strings: Iterable[str]) -> set[str]:
    """Return the names in Latin letters; of those with a hyphen, their parts as well."""
    names = {name for name in strings if _LATIN.fullmatch(name) and name[0].isupper()}
    parts = {part for name in names for part in name.split("-") if len(part) > 2}
    return {key for name in names | parts if (key := name_key(name)).isascii()}


def _common_words() -> Iterator[str]:
    """Yield everyday English words, of jobs and companies, countries and languages."""
    for package, module, wanted in (
        ("lorem", "en_US", "word_list"),
        ("job", "en_US", "jobs"),
        ("company", "", "catch_phrase_words|bsWords"),
        ("address", "en", "countries"),
        ("address", "en_US", "states"),
    ):
        name = f"faker.providers.{package}" + (f".{module}" if module else "")
        for attribute, strings in _attributes(import_module(name).Provider):
            if wanted and re.fullmatch(wanted, attribute):
                for string in strings:
                    for word in re.findall(r"[^\W\d_]{2,}", string):
                        yield from (name_key(word), word.casefold())


@cache
def states() -> frozenset[str]:
    """Return the states of the USA, before which a city stands: "Austin, Texas"."""
    provider = import_module("faker.providers.address.en_US").Provider
    return frozenset(word for state in provider.states for word in state.split())


def _providers(package: str) -> Iterator[tuple[str, Any]]:
    for module in iter_modules(import_module(package).__path__):
        provider = getattr(import_module(f"{package}.{module.name}"), "Provider", None)
        if provider:
            yield module.name, provider


def _attributes(provider: Any) -> Iterator[tuple[str, set[str]]]:
    """Yield the collections of a provider and all strings in them, at any depth."""
    for attribute, values in vars(provider).items():
        if isinstance(values, tuple | list | set | dict):
            yield attribute, set(_strings(values))


def _strings(values: Any) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, tuple | list | set | dict):
        for value in values:
            yield from _strings(value)
