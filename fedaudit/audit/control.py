"""The guess control: PII of the victim's kinds that is in nobody's data."""

import random
import re
from collections.abc import Mapping, Sequence

from fedaudit.metrics.frequency import absent
from fedaudit.nano.people import LABELS, Person, invent

FACTOR = 4
"""Control strings for each target: more of them narrow the control's interval."""

TRIES = 20
"""Guesses for each string that is to be filled in, at most: some kinds have few."""

_HAN = re.compile(r"[㐀-鿿]")
_FIELDS = {label: field for field, label in LABELS.items()}


def guesses(
    targets: Mapping[str, str], corpus: Sequence[str], *, seed: int
) -> tuple[tuple[str, str], ...]:
    """Return about FACTOR strings, with labels, for each of `targets` (string -> label).

    Labels that invented people have (names, addresses, numbers, ...) are invented in the target's
    script. Others are recombined from the halves of targets of one label, which is the harder
    control: their parts are in the data. No string stands in any text of `corpus`.
    """
    rng = random.Random(f"control {seed}")
    by_label: dict[str, list[str]] = {}
    for string, label in sorted(targets.items()):
        by_label.setdefault(label, []).append(string)
    found: dict[str, str] = {}
    for label, strings in by_label.items():
        for string in strings:
            for _ in range(FACTOR):
                if guess := _guess(string, label, strings, rng):
                    found.setdefault(guess, label)
    free = absent(found, corpus)
    return tuple((guess, found[guess]) for guess in sorted(free))


def fills(
    strings: Sequence[str], label: str, corpus: Sequence[str], *, count: int, seed: int
) -> tuple[str, ...]:
    """Return up to `count` distinct strings like `strings`, all of one label, in no text.

    They are made as guesses are; where a kind has too few, there are fewer.
    """
    rng = random.Random(f"fill {seed} {label}")
    text, order = "\x00".join(corpus), sorted(strings)
    found: dict[str, None] = {}
    for attempt in range(TRIES * count if order else 0):
        guess = _guess(order[attempt % len(order)], label, order, rng)
        if guess and guess not in text:
            found[guess] = None
        if len(found) == count:
            break
    return tuple(found)


def is_han(string: str) -> bool:
    """Tell whether a string holds Chinese characters: invented ones then do too."""
    return bool(_HAN.search(string))


def _guess(string: str, label: str, others: Sequence[str], rng: random.Random) -> str:
    if label in _FIELDS:
        person: Person = invent("zh" if is_han(string) else "en", rng)
        return str(getattr(person, _FIELDS[label]))
    parts = _halves(string), _halves(rng.choice(others))
    return parts[0][0] + parts[1][1]


def _halves(string: str) -> tuple[str, str]:
    """Cut a string at the space nearest to its middle, or in the middle."""
    spaces = [i for i, character in enumerate(string) if character == " "]
    middle = len(string) // 2
    cut = min(spaces, key=lambda i: abs(i - middle), default=middle)
    return string[:cut], string[cut:]
