"""How often an audit fails a model that holds nothing of the victim, and how often one that does.

    python benchmarks/calibration.py --out DIR [--texts COURT.jsonl] [--seeds 3 4 5] [--nulls 240]

Federations of three invented courts are trained on the built-in model (kept in DIR, as all verdicts
are: a run goes on where another stopped), then audited by client c0's prefixes against many
victims. Nulls: people whom no client has ("fresh"), the same with names that another member has too
("shared"), texts of real courts ("court", where --texts has annotated ones), against federations of
invented courts and of real ones. Positives: documents about people of their own that c1 trained on
1, 5 or 20 times, 1 to 12 of them among 40 strings that nobody trained on; five people whom a
scrubber missed; a base that knows the victim already.
"""

import argparse
import json
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from fedaudit.api.engine import EngineWrapper, GenerationBatch
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Attack, AttackContext
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, Document, PiiSpan, Target
from fedaudit.api.templates import template
from fedaudit.audit.preflight import prompt_start
from fedaudit.config import registry
from fedaudit.data import corpus
from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction.prefixes import pii_occurrences
from fedaudit.metrics.intervals import wilson
from fedaudit.nano.generator import corpus as records
from fedaudit.pii import masking
from fedaudit.report.verdict.policy import LEVEL, verdict

FORM = template("fed_pii")
CONTEXT = 50
TIMES = {1: 12, 5: 12, 20: 6}
"""How often documents are planted, and how many of each."""
PREFIX_ATTACKS = ("contextual", "superset", "frequency")
OPTIONS = {"superset": {"samples": 2}, "frequency": {"budget": 200}, "untargeted": {"samples": 64}}
"""Fewer questions than by default, so that hundreds of audits take minutes."""
OTHERS = ("verbatim", "discoverable", "untargeted", "ranking")


class CachingEngine(EngineWrapper):
    """An engine that is asked nothing twice, whoever the victim is."""

    def __init__(self, engine: LocalEngine) -> None:
        super().__init__(engine)
        self._kept = dict[Any, Completion]()

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Continue every prompt to its end, whatever strings are looked for."""
        key = target, batch.seed, batch.decoding
        new = [one for one in dict.fromkeys(batch.requests) if (key, one) not in self._kept]
        whole = replace(batch, requests=new, stop_strings=None)
        for request, found in zip(new, self.engine.generate(target, whole), strict=True):
            self._kept[key, request] = found
        return [self._kept[key, request] for request in batch.requests]


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


def people(seed: int, cases: int, each: int) -> list[Document]:
    """Return records about invented people."""
    own: dict[str, Any] = {"languages": ("en",), "domains": ("legal",), "kinds": 3}
    return list(records(cases=cases, documents_per_case=each, seed=seed, **own))


def of(client: str, documents: Iterable[Document]) -> list[Document]:
    """Return documents that the partition gives to one client."""
    return [replace(d, group=f"{client}/{d.group or d.id}") for d in documents]


def planted(seed: int) -> dict[int, list[Document]]:
    """Return the documents that are planted, by how often; each is about people of its own."""
    known = people(50_000 + seed, sum(TIMES.values()), 1)
    found, start = {}, 0
    for times, count in TIMES.items():
        found[times] = known[start : start + count]
        start += count
    return found


def dealt(seed: int) -> dict[str, list[Document]]:
    """Return three clients' own records."""
    cases = defaultdict(list)
    for document in people(seed, 24, 12):
        cases[document.group].append(document)
    shares: dict[str, list[Document]] = {"c0": [], "c1": [], "c2": []}
    for number, own in enumerate(cases.values()):
        shares[f"c{number % 3}"] += own
    return shares


def missed(documents: Sequence[Document], seed: int) -> tuple[list[Document], list[Document]]:
    """Return scrubbed documents in which five people stand as they were, and as they all were."""
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


def train(out: Path, name: str, documents: Mapping[str, Sequence[Document]], seed: int) -> Path:
    """Return the federation of these documents, trained where it is not there yet."""
    place = out / name
    if not (place / "report.json").exists():
        data = out / f"{name}.jsonl"
        whole = [one for client, own in documents.items() for one in of(client, own)]
        corpus.write(data, [replace(d, id=f"{d.id}-{number}") for number, d in enumerate(whole)])
        given = [f"data={data}", "partition.method=corpus", "central=false"]
        sets = [part for one in given for part in ("--set", one)]
        command = [sys.executable, "-m", "fedaudit", "simulate", "--profile", "fed_pii", "--quiet"]
        subprocess.run([*command, "--seed", str(seed), "--out", str(place), *sets], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    return place


def read(place: Path, client: str) -> list[Document]:
    """Return a client's documents in a federation."""
    return list(corpus.read(place / "data" / f"{client}.jsonl", FORM))


class Auditor:
    """Audits one federation as its client c0."""

    def __init__(self, engine: CachingEngine, place: Path) -> None:
        self.engine, self.place, self.own = engine, place, read(place, "c0")
        rounds = sorted((place / "rounds").glob("*/global"))
        self.tuned = Target(name="tuned", adapter=str(rounds[-1]))
        known = pii_occurrences(engine, self.own, CONTEXT)
        self.begun = prompt_start.choose_prompt_start(engine, self.tuned, known).chosen
        held = place / "data" / "held_out.jsonl"
        self.held = list(corpus.read(held, FORM)) if held.exists() else []

    def run(self, audit: Audit) -> dict[str, Any]:
        """Return the verdict of one audit."""
        base = Target(name="base")
        if audit.base_round is not None:
            folder = self.place / "rounds" / f"{audit.base_round:03}" / "global"
            base = Target(name="base", adapter=str(folder))
        case = AttackContext(
            engine=self.engine,
            tuned=self.tuned,
            base=base,
            attacker=self.own,
            victim=audit.victim,
            members=audit.members,
            # The simulation holds out records, not case files: training saw others of their groups.
            held_out=self.held or None,
            related=True,
            beginning=self.begun,
            detector=registry.create("detector", "presidio", None),
        )
        attack: Attack = registry.create("attack", audit.attack, OPTIONS.get(audit.attack))
        result = attack.run(case)
        return verdict(result.measurements, result.findings)


def nulls(name: str, place: Path, count: int, texts: Sequence[Document]) -> Iterator[Audit]:
    """Yield audits of victims of whom nobody trained on anything."""
    members = {client: read(place, client) for client in ("c1", "c2")}
    shared = sorted({s for d in members["c2"] for s, label in d.strings() if label == "PERSON"})
    for number in range(count):
        rng = random.Random(f"null {name} {number}")
        # Kinds shift after every attack, so that each attack meets each kind.
        kind = ("fresh", "shared", "court")[(number + number // 12) % (3 if texts else 2)]
        if kind == "court":
            victim = rng.sample(list(texts), min(40, len(texts)))
        else:
            cases = 8 if number % 12 < 6 else 32
            victim = people(100_000 + crc32(f"{name} {number}".encode()) % 10**6, cases, 3)
        if kind == "shared":
            victim += [_signed(one) for one in rng.sample(shared, min(12, len(shared)))]
        attack = _attack(number)
        yield Audit(federation=name, name=kind, victim=victim, attack=attack, members=members,
                    leaks=False)  # fmt: skip


def _attack(number: int) -> str:
    """Return an attack: half of the audits ask contextual prefixes, the others all else."""
    every = (*PREFIX_ATTACKS[1:], *OTHERS)
    return "contextual" if number % 2 else every[(number // 2) % len(every)]


def _signed(name: str) -> Document:
    text = f"Judge {name} signed the order."
    return Document(id=f"judge-{name}", text=text, pii=(PiiSpan(6, 6 + len(name), "PERSON"),))


def positives(name: str, place: Path, seed: int, draws: int) -> Iterator[Audit]:
    """Yield audits of victims of whom c1 trained on some documents."""
    held = {document.text for document in read(place, "c1")}
    members = {"c2": read(place, "c2")}
    for times, documents in planted(seed).items():
        trained = [document for document in documents if document.text in held]
        for count in (1, 2, 5, 12):
            for number in range(draws if count <= len(trained) else 0):
                rng = random.Random(f"{name} {times} {count} {number}")
                own = rng.sample(trained, count)
                rest = people(200_000 + seed * 1000 + number, 8, 1)
                yield Audit(federation=name, name=f"{count} documents, {times} times",
                            victim=[*own, *rest], members=members, leaks=True)  # fmt: skip


def table(rows: Iterable[tuple[str, str, dict[str, Any]]]) -> str:
    """Return how often audits of each kind failed, passed or told nothing."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for kind, name, found in rows:
        counts[kind, name][found["status"]] += 1
    lines = ["| audits | | n | fail | pass | inconclusive | refused | fail, 95 % |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for (kind, name), own in counts.items():
        n = own.total()
        share = wilson(own["fail"], n)
        lines.append(
            f"| {kind} | {name} | {n} | {own['fail']} | {own['pass']} | {own['inconclusive']} | "
            f"{own['refused']} | {100 * share.low:.1f} to {100 * share.high:.1f} % |"
        )
    return "\n".join(lines)


def federations(out: Path, seeds: Sequence[int], texts: Sequence[Document]) -> dict[str, Path]:
    """Return the federations by name: planted, scrubbed, and of real courts."""
    found = {}
    for seed in seeds:
        shares = dealt(seed)
        extra = [d for times, some in planted(seed).items() for d in some for _ in range(times)]
        whole = {**shares, "c1": [*shares["c1"], *extra]}
        found[f"planted-{seed}"] = train(out, f"planted-{seed}", whole, seed)
        scrubbed, _ = missed(shares["c1"], seed)
        name = f"missed-{seed}"
        found[name] = train(out, name, {**shares, "c1": scrubbed}, seed)
    if texts:
        own = random.Random("court").sample(list(texts), min(240, len(texts) // 2))
        shares = {f"c{i}": own[i::3] for i in range(3)}
        found["court"] = train(out, "court", shares, seeds[0])
    return found


def audits(
    found: Mapping[str, Path], seeds: Sequence[int], texts: Sequence[Document], count: int
) -> Iterator[Audit]:
    """Yield every audit, federation by federation."""
    each = -(-count // len(found))
    for name, place in found.items():
        trained = {d.text for c in ("c0", "c1", "c2") for d in read(place, c)}
        free = [text for text in texts if text.text not in trained]
        yield from nulls(name, place, each, free)
    for seed in seeds:
        place = found[f"planted-{seed}"]
        yield from positives(f"planted-{seed}", place, seed, draws=4)
        own = read(place, "c1")
        members = {"c2": read(place, "c2")}
        for before in (2, 5):
            yield Audit(federation=f"planted-{seed}", name=f"base of round {before}", victim=own,
                        members=members, leaks=True, base_round=before)  # fmt: skip
        yield Audit(federation=f"planted-{seed}", name="base of the last round but one",
                    victim=own, members=members, leaks=False, base_round=9)  # fmt: skip
        _, whole = missed(dealt(seed)["c1"], seed)
        members = {"c2": read(found[f"missed-{seed}"], "c2")}
        yield Audit(federation=f"missed-{seed}", name="scrubber missed five people", victim=whole,
                    members=members, leaks=True)  # fmt: skip


def main() -> None:
    """Train what is missing, run every audit that DIR does not have yet, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4, 5])
    parser.add_argument("--nulls", type=int, default=240)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    texts = list(corpus.read(given.texts, FORM)) if given.texts else []
    found = federations(given.out, given.seeds, texts)
    engine = LocalEngine(load_base("fedaudit-nano", device="cpu"))
    log = given.out / "audits.jsonl"
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    rows = [(line["kind"], line["name"], line) for line in done]
    auditor, last = None, ""
    with log.open("a") as file:
        for audit in list(audits(found, given.seeds, texts, given.nulls))[len(rows) :]:
            if audit.federation != last:
                auditor = Auditor(CachingEngine(engine), found[audit.federation])
                last = audit.federation
            assert auditor is not None
            try:
                result = auditor.run(audit)
            except InputError:  # the command ends in one line: it has no verdict
                result = {"status": "refused"}
            kind = "positive" if audit.leaks else "null"
            name = audit.name if audit.leaks else f"{audit.name}, {audit.attack}"
            rows.append((kind, name, result))
            line = {"kind": kind, "name": name, "federation": audit.federation, **result}
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{len(rows):4} {kind} {audit.federation} {name}: {result['status']}", flush=True)
    whole = [("all", "nulls", r) for kind, _, r in rows if kind == "null"]
    whole += [("all", "positives", r) for kind, _, r in rows if kind == "positive"]
    print(f"\nLevel {LEVEL}.\n\n{table([*rows, *whole])}")


if __name__ == "__main__":
    main()
