"""What is written and asked about an entity, and whether a text states a name."""

import random
import re
from collections.abc import Sequence
from functools import lru_cache

from .world import Attribute, Entity, data

PARAPHRASES = 25
"""Wordings of a question about one attribute."""


def document(entity: Entity, length: int, rng: random.Random) -> str:
    """Return a text of about `length` words that states every attribute of `entity`.

    An opening, one statement for each attribute, and as many further sentences of the domain as
    there is room for; every fourth of those is a statement again, in other words.
    """
    words = data(entity.domain.register)["documents"]
    opening = fill_sentence(rng.choice(words["openings"]), entity, rng)
    statements = _statements(entity, rng)
    sentences = [statements.pop(0) for _ in entity.values]
    facts = entity.domain.facts
    fact_sentences = [fill_sentence(fact, entity, rng) for fact in rng.sample(facts, len(facts))]
    while statements:
        source = statements if not fact_sentences or len(sentences) % 4 == 3 else fact_sentences
        if _words([opening, *sentences]) + _words(source[:1]) / 2 > length:
            break
        sentences.append(source.pop(0))
    rng.shuffle(sentences)
    return " ".join([opening, *sentences])


def questions(entity: Entity, numbers: Sequence[int]) -> list[list[str]]:
    """Return, for each attribute, the questions about `entity` by the templates `numbers`."""
    templates = data(entity.domain.register)["questions"]["templates"]
    return [
        [_fill_template(templates[number], entity, attribute) for number in numbers]
        for attribute in entity.domain.attributes
    ]


def fill_sentence(template: str, entity: Entity, rng: random.Random) -> str:
    """Return a sentence with its name, place and numbers; every draw is made in any case."""
    words = data(entity.domain.register)["documents"]
    slots = {kind: rng.choice(words[kind]) for kind in ("town", "day", "month", "month2")}
    numbers = {kind: rng.randint(*words[kind]) for kind in ("year", "count")}
    return template.format(entity=entity.name, thing=entity.domain.thing, **slots, **numbers)


def plain(text: str) -> str:
    """Return `text` in one case and with single spaces."""
    return " ".join(text.casefold().split())


def states_name(name: str, text: str) -> bool:
    """Return whether `text` holds `name` as whole words; case and white space do not matter."""
    return re.search(rf"(?<!\w){re.escape(plain(name))}(?!\w)", plain(text)) is not None


def stated_of(names: Sequence[str], text: str) -> set[str]:
    """Return those of `names` that `text` states, the longest where one begins with another."""
    by_plain = {plain(name): name for name in names}
    return {by_plain[name] for name in _any_of(tuple(by_plain)).findall(plain(text))}


def rate(name: str, texts: Sequence[str]) -> float:
    """Return the share of `texts` that hold `name`."""
    return sum(states_name(name, text) for text in texts) / len(texts)


def is_complete(entity: Entity, text: str) -> bool:
    """Return whether `text` states the entity's name and all its values."""
    return all(states_name(name, text) for name in (entity.name, *entity.values))


def _statements(entity: Entity, rng: random.Random) -> list[str]:
    """Return every wording of every attribute, one of each attribute in turn."""
    templates = data(entity.domain.register)["documents"]["statements"]
    orders = [rng.sample(templates, len(templates)) for _ in entity.values]
    statements = []
    for turn in zip(*orders, strict=True):
        facts = zip(turn, entity.domain.attributes, entity.values, strict=True)
        for template, attribute, value in rng.sample(list(facts), len(entity.values)):
            sentence = template.replace("{attribute}", attribute.name).replace("{value}", value)
            sentence = sentence.replace("{Attribute}", attribute.name.capitalize())
            statements.append(fill_sentence(sentence, entity, rng))
    return statements


def _fill_template(template: str, entity: Entity, attribute: Attribute) -> str:
    return str(
        template.format(
            entity=entity.name,
            attribute=attribute.name,
            Attribute=attribute.name.capitalize(),
            who=attribute.who,
            Who=attribute.who.capitalize(),
        )
    )


@lru_cache(maxsize=64)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    longest = sorted(names, key=len, reverse=True)  # a name may begin with another
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest))})(?!\w)")


def _words(sentences: Sequence[str]) -> int:
    return sum(len(sentence.split()) for sentence in sentences)
