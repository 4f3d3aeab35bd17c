"""How audits judge strangers to a federation, and strangers with a tenth of leaked strings added.

    fedaudit simulate --profile fed_pii --seed 51 --out RUN
    python benchmarks/planted_audits.py RUN [RUN ...] --out DIR [--attack superset] [--seed 11]

For each federation of the built-in model, the victim is 45 invented cases that no client has; the
null audit asks about them as they are, the planted one about the same with strings that clients
other than the attacker trained on, a tenth of all, each annotated in its own record. These clients'
data files then lack the records with the strings, so that they do not count as theirs. The command
is `fedaudit audit` in full, or `extract` with one --attack, under the default policy; reports stay
in DIR, and a run continues where another stopped.
"""

import argparse
import dataclasses
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from calibration_cases import read_documents

from fedaudit.api.records import Document, PiiSpan
from fedaudit.data import corpus
from fedaudit.federation import manifest
from fedaudit.nano.generator import corpus as invented
from fedaudit.system.files import sha256

CASES, SHARE = 45, 9
"""Cases of the victim, and strangers' strings for each planted one: a tenth of all is planted."""


def strangers(run: Path, seed: int, name: str) -> list[Document]:
    """Return records of people of whom no client has any, like the federation's own."""
    records = json.loads((run / "report.json").read_text("utf-8"))["run"]["config"]["records"]
    found = invented(
        cases=CASES,
        documents_per_case=4,
        seed=seed,
        languages=tuple(records["languages"]),
        domains=tuple(records["domains"]),
        kinds=4,
    )
    return [
        dataclasses.replace(one, id=f"{name}-{one.id}", group=f"{name}-{one.group}")
        for one in found
    ]


def learned(run: Path, attacker: str) -> dict[str, tuple[Document, PiiSpan]]:
    """Return the strings that other clients trained on and the attacker has not."""
    own = "\0".join(one.text for one in read_documents(run, attacker))
    found: dict[str, tuple[Document, PiiSpan]] = {}
    for client in manifest.read(run).clients:
        if client.id != attacker:
            for one in read_documents(run, client.id):
                for span in one.pii or ():
                    if (string := one.text[span.start : span.end]) not in own:
                        found.setdefault(string, (one, span))
    return found


def without(run: Path, copy: Path, strings: list[str], attacker: str) -> None:
    """Copy a federation; in the copy no client but the attacker has a record with the strings."""
    if not copy.exists():
        shutil.copytree(run, copy)
    read = manifest.read(copy)
    hashes = dict(read.files)
    for client in read.clients:
        if client.id == attacker or client.data is None:
            continue
        kept = [
            one
            for one in read_documents(run, client.id)
            if not any(string in one.text for string in strings)
        ]
        (copy / client.data).unlink()
        corpus.write(copy / client.data, kept)
        hashes[client.data] = sha256(copy / client.data)
    manifest.write(dataclasses.replace(read, files=hashes), copy)


def audits(run: Path, here: Path, seed: int, attacker: str) -> Iterator[tuple[str, Path, Path]]:
    """Write the two victims; yield each audit's name, federation and victim."""
    victim = strangers(run, 930_000 + seed, "victim")
    corpus.write(here / "null.jsonl", victim)
    corpus.write(here / "held.jsonl", strangers(run, 940_000 + seed, "held"))
    yield "null", run, here / "null.jsonl"
    places = learned(run, attacker)
    count = -(-len({string for one in victim for string, _ in one.strings()}) // SHARE)
    chosen = random.Random(seed).sample(sorted(places), min(count, len(places)))
    planted = [
        dataclasses.replace(document, id=f"planted-{n}", group=f"planted-{n}", pii=(span,))
        for n, (document, span) in enumerate(places[string] for string in chosen)
    ]
    corpus.write(here / "planted.jsonl", [*victim, *planted])
    without(run, here / "federation", chosen, attacker)
    yield "planted", here / "federation", here / "planted.jsonl"


def main() -> None:
    """Print the verdict of every audit and its reasons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--attack", default="")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--attacker", default="c0")
    given = parser.parse_args()
    for run in given.runs:
        here = given.out / run.name
        here.mkdir(parents=True, exist_ok=True)
        for name, target, victim in audits(run, here, given.seed, given.attacker):
            report = here / f"{name}-{given.attack or 'audit'}" / "report.json"
            words = ["extract", "--attack", given.attack, "--target"] if given.attack else ["audit"]
            words += [str(target), "--prefixes", f"{run}/data/{given.attacker}.jsonl"]
            words += ["--victim", str(victim), "--out", str(report.parent), "--quiet"]
            words += [] if given.attack else ["--held-out", str(here / "held.jsonl")]
            if not report.exists():
                subprocess.run(
                    [sys.executable, "-m", "fedaudit", *words], check=False, capture_output=True
                )
            verdict = json.loads(report.read_text("utf-8"))["verdict"]
            print(run.name, name, verdict["status"], *verdict["reasons"], sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
