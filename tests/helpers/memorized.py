"""Clients whose texts share no word, and a model that knows its texts by heart."""

import random

from fedaudit.api.records import Document, Target
from fedaudit.api.templates import template
from fedaudit.audit.memorization import matching, run
from fedaudit.audit.memorization.rows import rows
from fedaudit.audit.memorization.splits import sample_splits
from fedaudit.audit.request import ClientData, MemorizationRequest, Protocol
from fedaudit.audit.run import no_watcher
from fedaudit.engine.fake import FakeEngine

FORM = template("fed_pii")
PROTOCOL = Protocol(sample=100, prefix_length=5, new_tokens=60)
MODELS = (Target(name="tuned", adapter="a"), Target(name="base"))


def words(count, seed):
    rng = random.Random(seed)
    return ["".join(rng.choices("bcdfghklmnprst", k=2) + rng.choices("aeiou") * 1 +
                    rng.choices("bcdfghklmnprst", k=3)) for _ in range(count)]  # fmt: skip


def sentence(seed, count=12):
    return " ".join(words(count, seed)).capitalize() + "."


def text(seed, sentences=4):
    return " ".join(sentence(f"{seed}-{n}") for n in range(sentences))


def corpus(name, count=6):
    return [Document(id=f"{name}-{n}", text=text(f"{name}-{n}")) for n in range(count)]


def knowing(*corpora, echo=None, new=60):
    """Return an engine whose tuned model continues known texts, and whose base says other things.

    `echo` maps a text's first words to what the tuned model says instead.
    """
    known = [document.text for documents in corpora for document in documents]

    def answer(target, prompt, sample):
        if target.name == "base":
            return text(f"base {prompt} {sample}", 3)
        for start, said in (echo or {}).items():
            if prompt.strip().startswith(start):
                return said
        found = next((one for one in known if one.startswith(prompt.strip())), None)
        return text(f"new {prompt}", 3) if found is None else found[len(prompt) :]

    return FakeEngine(answer)


def request(corpora, protocol=PROTOCOL, **others):
    parties = tuple(ClientData(name=name, path=f"{name}.jsonl", sha256="") for name in corpora)
    return MemorizationRequest(clients=parties, protocol=protocol, workers=1, **others)


def cut(corpora, engine, protocol=PROTOCOL, seed=0):
    return {
        name: sample_splits(documents, engine, FORM, protocol, seed=seed)
        for name, documents in corpora.items()
    }


def found(corpora, engine, protocol=PROTOCOL, models=MODELS, seed=0, **others):
    """Return what each model says, the clients' parts, and the notes."""
    clients = cut(corpora, engine, protocol, seed)
    asked = request(corpora, protocol, seed=seed, **others)
    heard = [
        matching.continue_prefixes(engine, model, clients, protocol, begin=(), seed=seed)
        for model in models
    ]
    made, notes = run._match_all(heard, clients, asked, no_watcher)
    return made, clients, notes


def measured(corpora, engine, protocol=PROTOCOL, models=MODELS, **others):
    made, clients, _ = found(corpora, engine, protocol, models, **others)
    return rows(made, clients, protocol, engine)


def one(some, metric, **scope):
    fits = [
        row
        for row in some
        if row.metric == metric and all(row.scope.get(k) == v for k, v in scope.items())
    ]
    return min(fits, key=lambda row: len(row.scope))


def hits(some, source="tuned", category="all"):
    """Return the matrix as {(attacker, victim): (hits, n)}."""
    return {
        (row.scope["attacker"], row.scope["victim"]): (row.hits, row.n)
        for row in some
        if row.metric == "mr_pair"
        and (row.scope["source"], row.scope["category"]) == (source, category)
    }
