"""The taxonomy of personal data: 7 major and 36 minor categories, and what four norms say of them.

The data are in taxonomy.toml; docs/taxonomy.md says where they come from. A label that belongs to
no category is "other": nothing is guessed from its name.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

NORMS = ("gdpr", "ccpa", "gbt", "pdpa")
"""The norms by their keys in the data file, in the order in which they are shown."""

OTHER_CATEGORY = "other"
"""What stands for the major category of a label that belongs to none."""

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W_a-zA-Z]+")
_COUNTRY = re.compile(
    r"^(?:A[RTU]|B[EGR]|C[AHLNYZ]|D[EK]|E[ESU]|F[IR]|G[BR]|H[KRU]|I[DELNT]|JP|KR|L[TUV]|M[TXY]|N[GLOZ]"
    r"|P[HLT]|R[OU]|S[AEGIK]|T[HRW]|U[AKS]|ZA|AUSTRALIA|BELGIUM|BRAZIL|CANADA|CHILE|CHINA|COLOMBIA"
    r"|CROATIA|DENMARK|FINLAND|FRANCE|GERMANY|HONG_KONG|INDIA|INDONESIA|IRELAND|ISRAEL|ITALY|JAPAN"
    r"|KOREA|MEXICO|NETHERLANDS|NEW_ZEALAND|NORWAY|PARAGUAY|PERU|POLAND|PORTUGAL|SCOTLAND|SINGAPORE"
    r"|SOUTH_AFRICA|SPAIN|SWEDEN|SWITZERLAND|TAIWAN|THAILAND|TURKEY|URUGUAY|VENEZUELA)_(?=.)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A clause of a norm, and what it is about."""

    reference: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """A law or a standard."""

    key: str
    name: str
    title: str
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A minor category of personal data."""

    name: str
    major: str
    description: str
    examples: tuple[str, ...]
    labels: tuple[str, ...]
    """The labels of detectors and data sets that mean it."""
    clauses: tuple[tuple[str, ...], ...]
    """References into each of NORMS."""

    def references(self, norm: str) -> tuple[str, ...]:
        """Return what the norm of that key says of it."""
        return self.clauses[NORMS.index(norm)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taxonomy:
    """All norms, major categories with their descriptions, and minor categories, in order."""

    norms: tuple[Norm, ...]
    majors: tuple[tuple[str, str], ...]
    categories: tuple[Category, ...]


@cache
def taxonomy() -> Taxonomy:
    """Return the taxonomy as read from taxonomy.toml."""
    text = files("fedaudit.pii").joinpath("taxonomy.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return Taxonomy(
        norms=tuple(_norm(key, table["norms"][key]) for key in NORMS),
        majors=tuple((major["name"], major["description"]) for major in table["major"]),
        categories=tuple(
            _category(minor, major["name"]) for major in table["major"] for minor in major["minor"]
        ),
    )


def category(label: str) -> Category | None:
    """Return the category that `label` or a category's own name means; None if none does.

    Case does not matter, nor whether words are joined by spaces, hyphens, underscores or nothing.
    The B-, I- ... of a token's place in a name count no more than a number behind (B-LASTNAME1) or
    a country in front: US_PASSPORT, UKNationalHealthNumber.
    """
    inner = re.sub(r"^\s*[BIESLU][-_]", "", label, flags=re.IGNORECASE)
    spelt = (label, inner, re.sub(r"\d+$", "", inner.strip()), _without_country(inner))
    by_label = _by_label()
    return next((by_label[key] for key in map(_key, spelt) if key in by_label), None)


def major_category(label: str) -> str:
    """Return the major category of `label`, or OTHER_CATEGORY."""
    pii_category = category(label)
    return pii_category.major if pii_category else OTHER_CATEGORY


def in_order(majors: Iterable[str]) -> list[str]:
    """Return names of major categories once each, in the order of the taxonomy, others last."""
    order = {name: index for index, (name, _) in enumerate(taxonomy().majors)}
    return sorted(set(majors), key=lambda name: (order.get(name, len(order)), name))


@cache
def _by_label() -> Mapping[str, Category]:
    return {_key(label): c for c in taxonomy().categories for label in (c.name, *c.labels)}


def _key(label: str) -> str:
    return re.sub(r"[\s_'’/-]+", "", label).upper().replace("LICENCE", "LICENSE")


def _without_country(label: str) -> str:
    """Return a label without the country in front of it, whose words are joined by capitals too."""
    words = [word.upper() for word in _WORD.findall(label)]
    return _COUNTRY.sub("", "_".join(words))


def _norm(key: str, table: Mapping[str, Any]) -> Norm:
    clauses = (Clause(reference=name, subject=about) for name, about in table["clauses"].items())
    return Norm(key=key, name=table["name"], title=table["title"], clauses=tuple(clauses))


def _category(table: Mapping[str, Any], major: str) -> Category:
    return Category(
        name=table["name"],
        major=major,
        description=table["description"],
        examples=tuple(table["examples"]),
        labels=tuple(table["labels"]),
        clauses=tuple(tuple(table[norm]) for norm in NORMS),
    )
