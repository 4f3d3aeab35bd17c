"""What a joint audit costs a member: processor time, bytes and memory of all but the model.

    python benchmarks/joint_cost.py --members 10 --targets 10000 --completions 50000

Two members are made of invented people: three of a member's strings stand in each of its records,
and one in five completions begins with a string of the other one. Every step runs once for a pair;
what a member does for each of the others is multiplied.
"""

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedaudit.extraction.controls import sample_controls
from fedaudit.joint import exchange, keys
from fedaudit.joint.elements import BINS, Elements
from fedaudit.joint.exchange import ANSWER, ASK, REQUEST, SETUP, Message
from fedaudit.joint.intersection import Asker, Holder, padded_bin
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
    """Print a step's processor time, that for all others, and the peak of memory so far."""
    began = time.process_time()
    yield
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:<42} {seconds:>8.1f} s  x {times} = {seconds * times / 60:>6.1f} min  "
          f"{peak:.2f} GiB", flush=True)  # fmt: skip


def measure(members: int, targets: int, completions: int, folder: Path) -> None:
    """Run every step for a pair of members, and print what it cost."""
    rng, others = random.Random(0), members - 1
    ours, theirs = strings_of(rng, targets), strings_of(rng, targets)
    texts = list(records_of(rng, list(ours)))
    their_texts = list(records_of(rng, list(theirs)))
    with timed("controls and keys of a member's strings"):
        controls = dict(sample_controls(ours, texts, seed=0))
        asked = Elements(keys.asked_keys({*ours, *controls}))
    elements = Elements()
    with timed("keys of completions and texts"):
        for model in (keys.TUNED, keys.BASE):
            for text in completions_of(rng, list(ours), completions):
                elements.update(keys.answer_keys(model, text))
        drawn = len(elements)
        for text in their_texts:
            elements.update(keys.text_keys(text))
    asked_size, size = padded_bin(asked) * BINS, padded_bin(elements) * BINS
    print(f"{len(ours):,} strings and {len(controls):,} controls: {len(asked):,} keys, "
          f"{asked_size:,} padded; {drawn:,} keys of completions and {len(elements) - drawn:,} of "
          f"texts, {size:,} padded")  # fmt: skip
    holder, asker, key = Holder.new(), Asker.new(), Ed25519PrivateKey.generate()
    paths = {step: exchange.path_of(folder, step, "a") for step in (ASK, ANSWER)}

    def read(step: str) -> Message:
        return exchange.read(paths[step], key.public_key())

    with timed("setup: encrypt completions and texts"):
        setup = holder.setup(elements)
    with timed("request: encrypt strings"):
        request = asker.request(asked)
    exchange.write(paths[ASK], key, {}, {SETUP: setup, REQUEST: request})
    del setup, request
    with timed("answer: encrypt another's request", others):
        answer = holder.answer(read(ASK).bins(REQUEST), asked_size)
        exchange.write(paths[ANSWER], key, {}, {ANSWER: answer})
        del answer
    with timed("count: decrypt an answer and intersect", others):
        common = asker.common(asked, read(ASK).bins(SETUP), read(ANSWER).bins(ANSWER))
        answers = keys.read_answers({*ours, *controls}, common)
    plain = [{key for one in s.bins for key in one.tolist()} for s in (asked, elements)]
    assert common == plain[0] & plain[1]
    came = len(answers.drawn[keys.TUNED, keys.STRICT])
    print(f"{len(common):,} keys in common, as in plaintext; {came:,} strings drawn")
    total = 0
    for path in paths.values():
        total += path.stat().st_size
        print(f"{path.name:<12} {path.stat().st_size / 2**20:>8.1f} MiB")
    print(f"one way of a pair {total / 2**20:.1f} MiB")


def main() -> None:
    """Measure with the sizes of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--completions", type=int, default=50_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(given.members, given.targets, given.completions, Path(folder))


if __name__ == "__main__":
    main()
