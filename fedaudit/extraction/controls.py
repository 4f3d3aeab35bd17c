"""The guess control: strings of the same kinds as the victim's PII that are in no member's data."""

import random
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

from fedaudit.api.scripts import has_han, scripts
from fedaudit.extraction.recombination import Recombiner, words_by_shape
from fedaudit.metrics.document_frequency import absent_strings
from fedaudit.metrics.extraction import prefix_disjoint
from fedaudit.nano.people import LABELS, Person, invent, invent_word
from fedaudit.pii.normalized_search import fold

FACTOR = 4
"""Invented values for each target whose kind can be invented, such as a name or an address."""

CONTROLS = 2_000
"""About how many control strings are looked for; the smallest p value is about 1 / CONTROLS."""

MAX_CONTROLS = 400
"""The most control strings for each target."""

ENOUGH = 8
"""With this many targets of a kind or more, controls are made of the targets' pieces only."""

TRIES = 20
"""The most tries for each candidate to fill in: some kinds have few distinct strings."""

WORD_LISTS = "word_lists.toml"
"""Strings of kinds that are single words."""

_FIELDS = {label: field for field, label in LABELS.items()}


def sample_controls(
    targets: Mapping[str, str],
    corpus: Sequence[str],
    *,
    seed: int,
    donors: Mapping[str, Collection[str]] | None = None,
    real_controls: Mapping[str, str] | None = None,
    most: int = CONTROLS,
) -> tuple[tuple[str, str], ...]:
    """Return strings like `targets` (string -> label) that are in no member's data, with labels.

    Controls are recombined (`recombination`) from the targets of the label and from `donors`,
    strings of the label that others have. For kinds that can be invented (names, addresses,
    numbers, ...) in the target's script, FACTOR invented strings are added for each target, and for
    kinds that are single words (given names, diagnoses, nationalities, ...) those of a list.
    `real_controls` are real strings (string -> label), used in place of made-up ones for the labels
    that they have. In whatever spelling, no control occurs in a text of `corpus`, and none is the
    beginning of a target or of another control.
    """
    rng = random.Random(f"control {seed}")
    by_label: dict[str, list[str]] = {}
    for string, label in sorted(targets.items()):
        by_label.setdefault(label, []).append(string)
    controls = dict(sorted((real_controls or {}).items()))
    quota = max(FACTOR, min(MAX_CONTROLS, most // max(1, len(targets))))
    words = words_by_shape(sorted(corpus))
    for label, strings in by_label.items():
        if label not in (real_controls or {}).values():
            donor_strings = (donors or {}).get(label, ())
            for guess in _generate_controls(strings, donor_strings, label, words, quota, rng):
                if guess:
                    controls.setdefault(guess, label)
    return tuple((guess, controls[guess]) for guess in _free(controls, corpus, targets))


def _generate_controls(
    strings: Sequence[str],
    donor_strings: Collection[str],
    label: str,
    words: Mapping[str, Sequence[str]],
    quota: int,
    rng: random.Random,
) -> Iterator[str]:
    """Yield candidates for the controls of one kind, possibly with duplicates."""
    # The model was trained on other members' strings, so it says pieces of them more often.
    pool = strings if len(strings) >= ENOUGH else [*strings, *donor_strings]
    recombiner = Recombiner(pool, words)
    for string in strings:
        yield from _listed(string, label, quota, rng)
        for number in range(quota):
            if number < FACTOR and label in _FIELDS:
                yield _invent_string(string, label, rng)
            yield recombiner.make(string, rng).strip()


def _listed(string: str, label: str, count: int, rng: random.Random) -> Iterator[str]:
    """Yield single words of a kind that are written like `string`, if that is one, too."""
    if len(string.split()) > 1:
        return
    language = "zh" if has_han(string) else "en"
    listed = _word_lists().get((label, language), ())
    words = rng.sample(listed, min(count, len(listed)))
    if not listed and (word := invent_word(label, language, rng)):
        words = [word, *(invent_word(label, language, rng) for _ in range(count - 1))]
    for word in words:
        if scripts(word) & scripts(string):
            yield word[:1].upper() + word[1:] if string[:1].isupper() else word


@cache
def _word_lists() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return the words of each label and language."""
    text = (files("fedaudit.extraction") / WORD_LISTS).read_text("utf-8")
    return {
        (label, language): tuple(table[language].split())
        for table in tomllib.loads(text).values()
        for label in table["labels"]
        for language in ("en", "zh")
    }


def _free(strings: Collection[str], corpus: Sequence[str], targets: Collection[str]) -> list[str]:
    """Return the strings, sorted, that are in no text and begin neither a target nor another one.

    Strings are compared as answers are: of those that differ only in case, one is kept.
    """
    spelt: dict[str, str] = {}
    for string in sorted(strings):
        spelt.setdefault(fold(string), string)
    spelt.pop("", None)
    folded_targets = set(map(fold, targets))
    free = absent_strings(spelt, list(map(fold, corpus))) - folded_targets
    disjoint = set(prefix_disjoint((*free, *folded_targets)))
    return sorted(spelt[form] for form in free & disjoint)


def fill_candidates(
    strings: Sequence[str], label: str, corpus: Sequence[str], *, count: int, seed: int
) -> tuple[str, ...]:
    """Return up to `count` distinct strings like `strings`, all of one label, that are in no text.

    The strings are made as controls are; fewer are returned if the kind has too few.
    """
    rng = random.Random(f"fill {seed} {label}")
    text, order = "\x00".join(corpus), sorted(strings)
    candidates: dict[str, None] = {}
    for attempt in range(TRIES * count if order else 0):
        guess = _guess(order[attempt % len(order)], label, order, rng)
        if guess and guess not in text:
            candidates[guess] = None
        if len(candidates) == count:
            break
    return tuple(candidates)


def _guess(string: str, label: str, strings: Sequence[str], rng: random.Random) -> str:
    if label in _FIELDS and (invented := _invent_string(string, label, rng)):
        return invented
    halves = _halves(string), _halves(rng.choice(strings))
    return halves[0][0] + halves[1][1]


def _invent_string(string: str, label: str, rng: random.Random) -> str:
    """Return an invented string of one kind, or "" if its script is not that of `string`.

    A model trained on Russian names says no English ones, so those would be useless as controls.
    """
    person: Person = invent("zh" if has_han(string) else "en", rng)
    invented = str(getattr(person, _FIELDS[label]))
    of_target, of_invented = scripts(string), scripts(invented)
    return invented if not (of_target and of_invented) or of_target & of_invented else ""


def _halves(string: str) -> tuple[str, str]:
    """Split a string at the space nearest to its middle, or in the middle if it has none."""
    spaces = [i for i, character in enumerate(string) if character == " "]
    middle = len(string) // 2
    cut = min(spaces, key=lambda i: abs(i - middle), default=middle)
    return string[:cut], string[cut:]
