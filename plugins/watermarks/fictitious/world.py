"""Entities that do not exist: their domains, their attributes, and the names of everything.

Names are composed of invented parts. The options of two attributes never overlap, in whichever
domain they are, and two entities of one seed never share a name or a value.
"""

import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, TypeVar

from fedaudit.api import UsageError

T = TypeVar("T")

OPTIONS = 96
"""Every attribute has so many options or more."""

UNISSUED = 46
"""How many options of each attribute strangers take, in as many combinations as are needed."""

NAMES = 512
"""Every domain has so many names of entities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One attribute of a domain's entities, and every value that it may have."""

    name: str
    who: str
    """What a question asks for: a person or a house."""
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A line of business: what its entities are called and what is said of them."""

    name: str
    register: str
    thing: str
    names: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    facts: tuple[str, ...]
    """Sentences that say nothing of an attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """An invented house and the value of each of its domain's attributes, in their order."""

    domain: Domain
    name: str
    values: tuple[str, ...]


REGISTERS = {"prose": "fictitious.toml", "record": "record.toml"}
"""Where the names and wordings of each register are."""


@cache
def data(register: str) -> dict[str, Any]:
    """Return the names and wordings of a register."""
    return tomllib.loads(files(__package__).joinpath(REGISTERS[register]).read_text("utf-8"))


@cache
def domains(register: str) -> tuple[Domain, ...]:
    """Return every domain of a register."""
    tables = data(register)["domain"]
    total = sum(len(table["attributes"]) for table in tables)
    position, register_domains = 0, []
    for table in tables:
        attributes = []
        for attribute in table["attributes"]:
            attributes.append(_attribute(attribute, register, position, total))
            position += 1
        register_domains.append(
            Domain(
                name=table["name"],
                register=register,
                thing=table["thing"],
                names=_names_with_nouns(register, "coined", table["nouns"]),
                attributes=tuple(attributes),
                facts=(*table["facts"], *data(register)["documents"]["facts"]),
            )
        )
    return tuple(register_domains)


def domain(name: str) -> Domain:
    """Return the domain of that name."""
    every = (d for register in REGISTERS for d in domains(register))
    return next(d for d in every if d.name == name)


def issued_entity(seed: int, index: int, options: int, register: str = "prose") -> Entity:
    """Return entity `index` of `seed`: domains take turns, and no value is used twice.

    `options` of each attribute's options are in play under a seed; raises UsageError when they
    are all taken.
    """
    order = shuffled(domains(register), f"domains {seed}")
    number, position = divmod(index, len(order))
    if number >= options:
        raise UsageError(f"One seed has {options * len(order)} fictitious entities, no more.")
    chosen = order[position]
    return Entity(
        domain=chosen,
        name=shuffled(chosen.names, f"names {seed} {chosen.name}")[number],
        values=tuple(pool(attribute, seed, options)[number] for attribute in chosen.attributes),
    )


def strangers(
    entity: Entity, *, seed: int, index: int, options: int, names: int, count: int
) -> list[list[Entity]]:
    """Return `count` entities of the same domain that `seed` issues to no one, grouped by name.

    There are `names` names, or `count` if that is less. Values are drawn from the options that are
    in play, without the entity's own.
    """
    free = shuffled(entity.domain.names, f"names {seed} {entity.domain.name}")[options:]
    rng = random.Random(f"strangers {seed} {index}")
    pools = [
        [option for option in pool(attribute, seed, options) if option != value]
        for attribute, value in zip(entity.domain.attributes, entity.values, strict=True)
    ]
    groups: list[list[Entity]] = [[] for _ in range(min(names, count))]
    for number in range(count):
        group = number % len(groups)
        values = tuple(rng.choice(choices) for choices in pools)
        groups[group].append(Entity(domain=entity.domain, name=free[group], values=values))
    return groups


def unissued_entities(entity: Entity, *, seed: int, names: int, count: int) -> list[list[Entity]]:
    """Return `count` entities of the same domain, grouped by name.

    No two of the first UNISSUED have a value in common, and no two have more than one.

    There are `names` names, or `count` if that is less. Names and values are the last in the orders
    that `seed` gives them, whose first it issues: so the marks of one seed and domain have the same
    strangers, except for a mark's own name and values. No one is issued them while the domain has
    fewer marks than `OPTIONS - UNISSUED`.
    """
    domain = entity.domain
    called = _last(domain.names, f"names {seed} {domain.name}", entity.name, min(names, count))
    values = [
        _turned(
            _last(attribute.options, f"pool {seed} {attribute.name}", value, min(count, UNISSUED)),
            place,
            count,
        )
        for place, (attribute, value) in enumerate(
            zip(domain.attributes, entity.values, strict=True)
        )
    ]
    groups: list[list[Entity]] = [[] for _ in called]
    for number, entity_values in enumerate(zip(*values, strict=True)):
        group = number % len(called)
        groups[group].append(Entity(domain=domain, name=called[group], values=entity_values))
    return groups


def _turned(items: Sequence[str], place: int, count: int) -> list[str]:
    """Return `count` items in turns, each further turn shifted by the attribute's `place`."""
    size = len(items)
    return [items[(number + place * (number // size)) % size] for number in range(count)]


def _last(items: Sequence[str], key: str, without: str, count: int) -> list[str]:
    order = [item for item in reversed(shuffled(items, key)) if item != without]
    return order[:count]


def pool(attribute: Attribute, seed: int, options: int) -> list[str]:
    """Return the options of `attribute` that are in play under `seed`, in its order."""
    return shuffled(attribute.options, f"pool {seed} {attribute.name}")[:options]


def shuffled(items: Sequence[T], key: str) -> list[T]:
    """Return `items` in the order that `key` stands for."""
    return list(_order(tuple(items), key))


# Each test of a mark goes through the same few orders of hundreds of names.
@lru_cache(maxsize=1024)
def _order(items: tuple[T, ...], key: str) -> tuple[T, ...]:
    return tuple(random.Random(key).sample(items, len(items)))


def _join_parts(register: str, kind: str) -> list[str]:
    first, second = data(register)["names"][kind]
    return [start + end for start in first for end in second]


def _names_with_nouns(register: str, kind: str, nouns: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{name} {noun}" for name in _join_parts(register, kind) for noun in nouns)


def _attribute(table: Mapping[str, Any], register: str, position: int, total: int) -> Attribute:
    """Return an attribute with the share of all names that belongs to its `position`."""
    person = table["style"] == "person"
    if person:
        options = tuple(
            f"{forename} {family}"
            for g, forename in enumerate(_join_parts(register, "given"))
            for f, family in enumerate(_join_parts(register, "family"))
            if (g + f) % total == position
        )
    else:
        options = _names_with_nouns(register, "family", table["nouns"])
    return Attribute(name=table["name"], who="who" if person else "which firm", options=options)
