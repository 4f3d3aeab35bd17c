"""What a joint audit costs a member: processor time, bytes and memory of all but the model.

    python benchmarks/joint_cost.py --members 10 --targets 10000 --completions 50000

Two members are made of invented people: three of a member's strings stand in each of its records,
and one in five completions begins with a string of the other one. Every step runs once for a pair;
what a member does for each of the others is multiplied.
"""

import argparse
import random
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fedaudit.extraction.controls import sample_controls
from fedaudit.joint import keys
from fedaudit.joint.intersection import Asker, Holder, padded_size
from fedaudit.nano.people import invent

WORDS = (
    *("the", "court", "found", "that", "bank", "had", "not", "paid", "after", "hearing", "of"),
    *("a", "loan", "which", "she", "signed", "in", "spring", "and", "asked", "for", "more"),
    *("time", "because", "no", "letter", "came", "to", "their", "house", "until", "it", "late"),
)
FIELDS = {"name": "PERSON", "phone": "PHONE_NUMBER", "email": "EMAIL_ADDRESS"}


def strings_of(rng: random.Random, count: int) -> dict[str, str]:
    """Return distinct strings of invented people, with their labels."""
    found: dict[str, str] = {}
    while len(found) < count:
        person = invent("en", rng)
        found |= {str(getattr(person, field)): label for field, label in FIELDS.items()}
    return dict(list(found.items())[:count])


def records_of(rng: random.Random, strings: list[str]) -> Iterator[str]:
    """Yield texts of about 300 characters, each with three of the strings."""
    for i in range(0, len(strings), 3):
        pieces = [" ".join(rng.choices(WORDS, k=17)) for _ in range(3)]
        pairs = zip(pieces, strings[i : i + 3], strict=False)
        yield " ".join(word for pair in pairs for word in pair)


def completions_of(rng: random.Random, strings: list[str], count: int) -> Iterator[str]:
    """Yield completions of about ten words, one in five of which begins with a string."""
    for _ in range(count):
        words = rng.choices(WORDS, k=9)
        yield " " + " ".join([rng.choice(strings), *words[3:]] if rng.random() < 0.2 else words)


@contextmanager
def timed(name: str, times: int = 1) -> Iterator[None]:
    """Print the processor time of a step, and of what a member does for all others."""
    began = time.process_time()
    yield
    seconds = time.process_time() - began
    print(f"{name:<42} {seconds:>8.1f} s  x {times} = {seconds * times / 60:>6.1f} min", flush=True)


def measure(members: int, targets: int, completions: int) -> None:
    """Run every step for a pair of members, and print what it cost."""
    rng, others = random.Random(0), members - 1
    ours, theirs = strings_of(rng, targets), strings_of(rng, targets)
    texts = list(records_of(rng, list(ours)))
    their_texts = list(records_of(rng, list(theirs)))
    with timed("controls and keys of a member's strings"):
        controls = dict(sample_controls(ours, texts, seed=0))
        asked = keys.asked_keys({*ours, *controls})
    elements: set[str] = set()
    with timed("keys of completions and texts"):
        for model in (keys.TUNED, keys.BASE):
            for text in completions_of(rng, list(ours), completions):
                elements.update(keys.answer_keys(model, text))
        drawn = len(elements)
        elements.update(*map(keys.text_keys, their_texts))
    size = padded_size(len(asked))
    print(f"{len(ours):,} strings and {len(controls):,} controls: {len(asked):,} keys, {size:,} "
          f"padded; {drawn:,} keys of completions and {len(elements) - drawn:,} of texts, "
          f"{padded_size(len(elements)):,} padded")  # fmt: skip
    holder, asker = Holder.new(), Asker.new()
    with timed("setup: encrypt completions and texts"):
        setup = holder.setup(sorted(elements), size)
    with timed("request: encrypt strings"):
        request = asker.request(asked)
    with timed("answer: encrypt another's request", others):
        answer = holder.answer(request, size)
    with timed("count: decrypt an answer and intersect", others):
        common = asker.common(asked, setup, answer)
    assert common == elements.intersection(asked)
    print(f"{len(common):,} keys in common, as in plaintext")
    for name, content in (("setup", setup), ("request", request), ("answer", answer)):
        print(f"{name:<8} {len(content) / 2**20:>8.1f} MiB")
    total = len(setup) + len(request) + len(answer)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"one way of a pair {total / 2**20:.1f} MiB, peak memory {peak:.2f} GiB")


def main() -> None:
    """Measure with the sizes of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--completions", type=int, default=50_000)
    given = parser.parse_args()
    measure(given.members, given.targets, given.completions)


if __name__ == "__main__":
    main()
