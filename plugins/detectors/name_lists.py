"""Names that people have, from Faker's lists for some eighty languages and countries."""

import re
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from fedaudit.api import HAN

_LATIN = re.compile(r"[A-Z\u00c0-\u00de\u0100-\u024f][^\W\d_]+")
_HAN = re.compile(f"[{HAN}]{{1,2}}")


class NameLists(NamedTuple):
    """First names and surnames in Latin letters, and surnames in Han characters."""

    first: frozenset[str]
    last: frozenset[str]
    han: frozenset[str]


@cache
def name_lists() -> NameLists:
    """Return the names of all of Faker's languages and countries."""
    first, last, han = set[str](), set[str](), set[str]()
    package = import_module("faker.providers.person")
    for module in iter_modules(package.__path__):
        provider = getattr(import_module(f"{package.__name__}.{module.name}"), "Provider", None)
        for attribute, names in vars(provider).items() if provider else ():
            if not isinstance(names, tuple | list | set | dict):
                continue
            strings = {name for name in names if isinstance(name, str)}
            if "first_name" in attribute:
                first |= {name for name in strings if _LATIN.fullmatch(name)}
            elif "last_name" in attribute:
                last |= {name for name in strings if _LATIN.fullmatch(name)}
                if module.name.startswith("zh"):
                    han |= {name for name in strings if _HAN.fullmatch(name)}
    return NameLists(frozenset(first), frozenset(last), frozenset(han))
