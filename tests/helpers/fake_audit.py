"""fedaudit in a process of its own, against a model that costs nothing, killed where one likes.

    python fake_audit.py HOW POINT LOG WORD ...

runs `fedaudit WORD ...`. At its POINT-th chance (0: never) the process dies as HOW says: a signal's
name, or FULL for a full disk. Chances are as the model begins to answer, and before, in the middle
of and after every write to the cache of answers. Every answered piece is a line of LOG.
"""

import dataclasses
import errno
import json
import os
import signal
import sys
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from fedaudit import cli
from fedaudit.audit import access
from fedaudit.cache import engine as caching_engine
from fedaudit.cache.answers import AnswerCache
from fedaudit.engine import environment
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction import learned, prefix_attack, sampling
from fedaudit.extraction.exact import walk
from fedaudit.federation import manifest
from fedaudit.system.failures import raise_unwritable
from fedaudit.system.files import sha256

NAMES = [f"{first} {last}" for first in ("Ann", "Bo", "Cy", "Di") for last in ("Lee", "Ash", "Orr")]
PLACES = ["Leeds", "York", "Bath"]

END = [
    "paid for the loss of the house that year as it had said it would",
    "kept the letters of both sides until the judge asked to see all of them",
    "lost the first hearing and then the second one before it paid at last",
]


def document(number, name, place, last="."):
    """Return a record of the corpus with its two PII annotated."""
    text = f"Case {number % 7}: the claimant {name} of {place} sued the bank, which "
    text += f"{END[number % 3]}{last}"
    spans = [(text.index(name), name, "PERSON"), (text.index(place), place, "PLACE")]
    pii = [{"start": at, "end": at + len(word), "label": label} for at, word, label in spans]
    return {"id": str(number), "text": text, "pii": pii}


def corpus(victim):
    """Return the documents of the victim, or of the attacker, who has other people."""
    names, last = (NAMES[6:], " again.") if victim else (NAMES[:6], ".")
    return [document(n, names[n % 6], PLACES[n % 2 + victim], last) for n in range(24)]


def keep_documents(folder):
    """Give every client of a federation's folder one of the two corpora, by turns."""
    found = manifest.read(folder)
    (folder / "data").mkdir()
    for number, one in enumerate(found.clients):
        lines = [json.dumps(document) + "\n" for document in corpus(number % 2)]
        (folder / f"data/{one.id}.jsonl").write_text("".join(lines))
    kept = tuple(dataclasses.replace(one, data=f"data/{one.id}.jsonl") for one in found.clients)
    hashes = {one.data: sha256(folder / one.data) for one in kept}
    files = {**found.files, **hashes}
    manifest.write(dataclasses.replace(found, clients=kept, files=files), folder)


def says(target, prompt, sample):
    """Return somebody's name, more often the victim's from the tuned model, or nothing known."""
    digest = blake2b(f"{prompt}|{sample}".encode(), digest_size=4).digest()
    known = NAMES[6:] if target.adapter else NAMES[10:]
    return f" {known[digest[0] % len(known)]} left." if digest[1] < 90 else " nobody left."


class Chances:
    """Counts chances to die, and takes one."""

    def __init__(self, how, point):
        self.how, self.left = how, point

    def __call__(self):
        self.left -= 1
        if self.left == 0 and self.how != "FULL":
            os.kill(os.getpid(), getattr(signal, self.how))
        if self.left <= 0 and self.how == "FULL":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Engine(FakeEngine):
    """Writes down what it was asked, and may die before it answers."""

    def __init__(self, chance, log):
        super().__init__(says, likelihood=likelihood, chance=gives)
        self.fate, self.log = chance, log

    def generate(self, target, batch, **options):
        if self.fate.how != "FULL":
            self.fate()
        found = super().generate(target, batch, **options)
        with self.log.open("a") as file:
            file.write(f"{target.name} {[(p.prompt, p.samples) for p in batch.requests]}\n")
        return found

    def score_groups(self, target, groups, **options):
        self.fate()
        with self.log.open("a") as file:
            file.write(f"{target.name} scores {[(tuple(row), 1) for g in groups for row in g]}\n")
        return super().score_groups(target, groups, **options)

    def prefix_probabilities(self, target, request, **options):
        if self.fate.how != "FULL":
            self.fate()
        found = super().prefix_probabilities(target, request, **options)
        asked = zip(request.prompts, request.trials, strict=True)
        with self.log.open("a") as file:
            file.write(f"{target.name} {[(tuple(p), trials) for p, trials in asked]}\n")
        return found


def gives(target, prompt, string):
    """Return how likely a string comes next: of some so rarely that it is given up."""
    digest = blake2b(f"{prompt}|{string}".encode(), digest_size=3).digest()
    often = digest[0] / 900 if digest[1] < 50 else digest[2] / 3e5
    return often / 7 if target.adapter is None else often


def likelihood(target, token, before):
    """Return a log-probability that tells candidates and models apart, with all its digits."""
    digest = blake2b(f"{token}|{before[-3:]}".encode(), digest_size=2).digest()
    return -(digest[0] + 1) / 77 - (0 if target.adapter else digest[1] / 33)


def replace(put, log, chance):
    """Put a model that costs nothing in place of the real one, by `put(object, name, value)`."""

    def load(audited, form, request, kept=None):
        if kept:
            kept.record_fact("the base's SHA-256", "0" * 64)
        return Engine(chance, Path(log)), "0" * 64

    put(access, "load_engine", load)
    put(sampling, "MAX_CHUNK_ANSWERS", 40)
    put(caching_engine, "ROOM", 60)
    put(walk, "QUERIES", 3)
    put(walk, "STRINGS", 10**6)
    put(environment, "describe", lambda device: {"versions": {}, "device": "none", "git": None})


def written(here):
    """Write the documents and an adapter into a folder."""
    for name, victim in (("own", 0), ("victim", 1)):
        lines = [json.dumps(document) + "\n" for document in corpus(victim)]
        (here / f"{name}.jsonl").write_text("".join(lines))
    (here / "lora").mkdir()
    (here / "lora/adapter_config.json").write_text('{"peft_type": "LORA", "lora_alpha": 16}')
    (here / "lora/adapter_model.safetensors").write_bytes(b"\2" + bytes(7) + b"{}")


def main():
    how, point, log, *words = sys.argv[1:]
    chance, writing = Chances(how, int(point) or sys.maxsize), AnswerCache._writing

    @contextmanager
    def dying(cache, **changes):
        with raise_unwritable(cache.path):
            chance()
        with writing(cache, **changes) as connection:
            yield connection
            chance()  # rows are written and nothing is committed
        with raise_unwritable(cache.path):
            chance()

    replace(setattr, log, chance)
    prefix_attack.CONTROLS, learned.MAX_TARGETS = 400, 4
    AnswerCache._writing = dying
    sys.argv = ["fedaudit", *words]
    cli.main()


if __name__ == "__main__":
    main()
