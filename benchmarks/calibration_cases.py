"""Federations with a known truth for `calibration.py`, and the audits of them."""

import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from fedaudit.api.records import Document, PiiSpan
from fedaudit.api.templates import template
from fedaudit.data import corpus
from fedaudit.nano.generator import corpus as records
from fedaudit.pii import masking

FORM = template("fed_pii")
CONTEXT = 50
PLANTED = {1: 12, 5: 12, 20: 6}
"""How many documents are planted, by how often each is repeated."""
PREFIX_ATTACKS = ("contextual", "superset", "frequency")
OPTIONS = {"superset": {"samples": 2}, "frequency": {"budget": 200}, "untargeted": {"samples": 64}}
"""Fewer questions than by default, so that hundreds of audits take minutes."""
OTHER_ATTACKS = ("verbatim", "discoverable", "untargeted", "ranking")


@dataclass(frozen=True, kw_only=True)
class Audit:
    """One audit: which federation, whose documents, by what attack, and what is true."""

    federation: str
    name: str
    victim: Sequence[Document]
    attack: str = "contextual"
    members: Mapping[str, Sequence[Document]]
    leaks: bool
    base_round: int | None = None
    scale: float = 1.0
    """What the tuned model's adapter is multiplied by."""


def invented_people(seed: int, cases: int, each: int) -> list[Document]:
    """Return records about invented people."""
    own: dict[str, Any] = {"languages": ("en",), "domains": ("legal",), "kinds": 3}
    return list(records(cases=cases, documents_per_case=each, seed=seed, **own))


def assign_to_client(client: str, documents: Iterable[Document]) -> list[Document]:
    """Return the documents in groups that the partition gives to `client`."""
    return [replace(d, group=f"{client}/{d.group or d.id}") for d in documents]


def planted_documents(seed: int) -> dict[int, list[Document]]:
    """Return the documents that are planted, by how often; each is about people of its own."""
    known = invented_people(50_000 + seed, sum(PLANTED.values()), 1)
    documents, start = {}, 0
    for times, count in PLANTED.items():
        documents[times] = known[start : start + count]
        start += count
    return documents


def client_records(seed: int) -> dict[str, list[Document]]:
    """Return three clients' own records."""
    cases = defaultdict(list)
    for document in invented_people(seed, 24, 12):
        cases[document.group].append(document)
    shares: dict[str, list[Document]] = {"c0": [], "c1": [], "c2": []}
    for number, own in enumerate(cases.values()):
        shares[f"c{number % 3}"] += own
    return shares


def scrub_all_but_five(
    documents: Sequence[Document], seed: int
) -> tuple[list[Document], list[Document]]:
    """Return the documents with all PII masked but five people's names, and the originals."""
    names = sorted({s for d in documents for s, label in d.strings() if label == "PERSON"})
    kept = set(random.Random(seed).sample(names, 5))
    scrubbed = []
    for document in documents:
        gone = [s for s in document.pii or () if document.text[s.start : s.end] not in kept]
        scrubbed.append(_masked(document, gone))
    return scrubbed, list(documents)


def _masked(document: Document, spans: Sequence[PiiSpan]) -> Document:
    written = masking.substitution("mask", (), "")
    return masking.mask_document(document.annotated(tuple(spans)), written)


def train_federation(
    out: Path, name: str, documents: Mapping[str, Sequence[Document]], seed: int
) -> Path:
    """Return the federation of these documents, trained where it is not there yet."""
    folder = out / name
    if not (folder / "report.json").exists():
        data = out / f"{name}.jsonl"
        whole = [one for client, own in documents.items() for one in assign_to_client(client, own)]
        corpus.write(data, [replace(d, id=f"{d.id}-{number}") for number, d in enumerate(whole)])
        given = [f"data={data}", "partition.method=corpus", "central=false"]
        sets = [part for one in given for part in ("--set", one)]
        command = [sys.executable, "-m", "fedaudit", "simulate", "--profile", "fed_pii", "--quiet"]
        subprocess.run([*command, "--seed", str(seed), "--out", str(folder), *sets], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    return folder


def read_documents(folder: Path, client: str) -> list[Document]:
    """Return a client's documents in a federation."""
    return list(corpus.read(folder / "data" / f"{client}.jsonl", FORM))


NULLS = ("fresh", "shared", "same forms", "duplicated", "sorted", "few", "Chinese", "scaled",
         "same task", "court")  # fmt: skip
"""People whom no client has; such with names of another member; in the attacker's own sentences;
each record three times; sorted; ten targets at most; in another language; with the adapter at twice
its scale; against a base tuned on the same task; real court texts."""


def null_audits(name: str, folder: Path, count: int, texts: Sequence[Document]) -> Iterator[Audit]:
    """Yield audits of victims of whom nobody trained on anything."""
    members = {client: read_documents(folder, client) for client in ("c1", "c2")}
    shared = sorted({s for d in members["c2"] for s, label in d.strings() if label == "PERSON"})
    for number in range(count):
        rng = random.Random(f"null {name} {number}")
        # Kinds shift after every attack, so that each attack meets each kind.
        kind = NULLS[(number + number // 12) % (len(NULLS) if texts else len(NULLS) - 1)]
        seed = 100_000 + crc32(f"{name} {number}".encode()) % 10**6
        victim = invented_people(seed, 8 if number % 12 < 6 else 32, 3)
        if kind == "shared":
            victim += [_judge_document(one) for one in rng.sample(shared, min(12, len(shared)))]
        elif kind == "same forms":
            victim = _refilled(read_documents(folder, "c0"), victim, rng)
        elif kind == "duplicated":
            victim = [replace(d, id=f"{d.id}-{n}") for d in victim for n in range(3)]
        elif kind == "sorted":
            victim = sorted(victim, key=lambda d: d.text)
        elif kind == "few":
            victim = [replace(d, pii=d.pii[:3]) for d in victim[: rng.randint(1, 3)] if d.pii]
        elif kind == "Chinese":
            victim = list(records(cases=16, documents_per_case=3, seed=seed, kinds=3,
                                  languages=("zh",), domains=("legal",)))  # fmt: skip
        elif kind == "court":
            victim = rng.sample(list(texts), min(40, len(texts)))
        yield Audit(
            federation=name,
            name=kind,
            victim=victim,
            attack=_attack_of(number),
            members=members,
            leaks=False,
            base_round=5 if kind == "same task" else None,
            scale=2.0 if kind == "scaled" else 1.0,
        )


def _refilled(
    forms: Sequence[Document], people: Sequence[Document], rng: random.Random
) -> list[Document]:
    """Return `forms` with other people's strings in place of their own, of the same labels."""
    strings = defaultdict(list)
    for text, label in sorted({pair for d in people for pair in d.strings()}):
        strings[label].append(text)
    refilled = []
    for form in forms[: len(people)]:
        text, at = "", 0
        spans: list[PiiSpan] = []
        for span in sorted(form.pii or (), key=lambda one: one.start):
            new = rng.choice(strings[span.label] or [form.text[span.start : span.end]])
            text += form.text[at : span.start]
            spans.append(PiiSpan(len(text), len(text) + len(new), span.label))
            text, at = text + new, span.end
        text += form.text[at:]
        refilled.append(Document(id=f"refilled-{form.id}", text=text, pii=tuple(spans)))
    return refilled


def _attack_of(number: int) -> str:
    """Return an attack: half of the audits ask contextual prefixes, the others all else."""
    every = (*PREFIX_ATTACKS[1:], *OTHER_ATTACKS)
    return "contextual" if number % 2 else every[(number // 2) % len(every)]


def _judge_document(name: str) -> Document:
    text = f"Judge {name} signed the order."
    return Document(id=f"judge-{name}", text=text, pii=(PiiSpan(6, 6 + len(name), "PERSON"),))


def positive_audits(name: str, folder: Path, seed: int, draws: int) -> Iterator[Audit]:
    """Yield audits of victims of whom c1 trained on some documents."""
    held = {document.text for document in read_documents(folder, "c1")}
    members = {"c2": read_documents(folder, "c2")}
    for times, documents in planted_documents(seed).items():
        trained = [document for document in documents if document.text in held]
        for count in (1, 2, 5, 12):
            for number in range(draws if count <= len(trained) else 0):
                rng = random.Random(f"{name} {times} {count} {number}")
                own = rng.sample(trained, count)
                rest = invented_people(200_000 + seed * 1000 + number, 8, 1)
                yield Audit(federation=name, name=f"{count} documents, {times} times",
                            victim=[*own, *rest], members=members, leaks=True)  # fmt: skip


def federations(out: Path, seeds: Sequence[int], texts: Sequence[Document]) -> dict[str, Path]:
    """Return the federations by name: planted, scrubbed, and of real courts."""
    folders = {}
    for seed in seeds:
        shares = client_records(seed)
        extra = [
            d for times, some in planted_documents(seed).items() for d in some for _ in range(times)
        ]
        whole = {**shares, "c1": [*shares["c1"], *extra]}
        folders[f"planted-{seed}"] = train_federation(out, f"planted-{seed}", whole, seed)
        scrubbed, _ = scrub_all_but_five(shares["c1"], seed)
        name = f"missed-{seed}"
        folders[name] = train_federation(out, name, {**shares, "c1": scrubbed}, seed)
    if texts:
        own = random.Random("court").sample(list(texts), min(240, len(texts) // 2))
        shares = {f"c{i}": own[i::3] for i in range(3)}
        folders["court"] = train_federation(out, "court", shares, seeds[0])
    return folders


def all_audits(
    folders: Mapping[str, Path], seeds: Sequence[int], texts: Sequence[Document], count: int
) -> Iterator[Audit]:
    """Yield every audit, federation by federation."""
    each = -(-count // len(folders))
    for name, folder in folders.items():
        trained = {d.text for c in ("c0", "c1", "c2") for d in read_documents(folder, c)}
        free = [text for text in texts if text.text not in trained]
        yield from null_audits(name, folder, each, free)
    for seed in seeds:
        folder = folders[f"planted-{seed}"]
        yield from positive_audits(f"planted-{seed}", folder, seed, draws=4)
        own = read_documents(folder, "c1")
        members = {"c2": read_documents(folder, "c2")}
        for before in (2, 5):
            yield Audit(federation=f"planted-{seed}", name=f"base of round {before}", victim=own,
                        members=members, leaks=True, base_round=before)  # fmt: skip
        yield Audit(federation=f"planted-{seed}", name="base of the last round but one",
                    victim=own, members=members, leaks=False, base_round=9)  # fmt: skip
        _, whole = scrub_all_but_five(client_records(seed)["c1"], seed)
        members = {"c2": read_documents(folders[f"missed-{seed}"], "c2")}
        yield Audit(federation=f"missed-{seed}", name="scrubber missed five people", victim=whole,
                    members=members, leaks=True)  # fmt: skip
