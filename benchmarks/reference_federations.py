"""LiRA, RMIA and DUCI with more and more reference federations, beside scores that need none.

    python benchmarks/reference_federations.py --out DIR [--references 16] [--targets 3]

One pool of made-up records. Every federation is trained on another random half of it, by the same
command: some are targets, the others references, so that each record was in about half of these.
For every target it prints what `fedaudit extract --attack membership --reference ...` reports, and
what training and audit took. What is there already is not trained again.

With --organisations it asks in place of that, of every federation, whether an organisation took
part: c1, against records of the same pool that nobody trained on, and one that did not, half of
these against the other half. Clients are dealt by clusters of their records, so that the pool is
often no control of c1's own, and it must be said that this cannot be told.

With --usage it asks how much of a set was used, of sets of which a target had a known share.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedaudit.nano import generator

PROFILE = """
name = "reference"
title = "A federation on half of a pool"
paper = "none"

[scale.nano]
base = "fedaudit-nano"
data = "{data}"
clients = 3
rounds = 2
held_out = 0.0
evaluated = 0
central = false
workers = 1
device = "cpu"
training = {{ epochs = {epochs}, batch_size = 16, learning_rate = 5e-3, warmup = 3, rank = 16, \
alpha = 32, max_length = 128, targets = ["q_proj", "k_proj", "v_proj", "o_proj"] }}
"""


def fedaudit(*words: object) -> None:
    """Run a command; whatever its verdict, it must have come to one."""
    command = [sys.executable, "-m", "fedaudit", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 7):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")


def pool(count: int) -> list[dict[str, Any]]:
    """Return the records, the same ones every time."""
    made = generator.corpus(cases=count, documents_per_case=1, seed=1, languages=("en",),
                            domains=("legal",), tasks=("record",))  # fmt: skip
    return [{"id": one.id, "text": one.text, "pii": [], "group": one.id} for one in made]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write records as JSONL, where that was not done."""
    if not path.exists():
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def federation(asked: argparse.Namespace, name: str, rows: Sequence[dict[str, Any]]) -> float:
    """Train a federation on a random half, once; return the seconds that it took."""
    place = asked.out / name
    place.mkdir(parents=True, exist_ok=True)
    order = list(rows)
    random.Random(f"half {name}").shuffle(order)
    data = write(place / "in.jsonl", order[: len(order) // 2])
    write(place / "out.jsonl", order[len(order) // 2 :])
    profile = place / "profile.toml"
    profile.write_text(PROFILE.format(data=data, epochs=asked.epochs))
    seconds = place / "seconds.txt"
    if not seconds.exists():
        begun = time.perf_counter()
        fedaudit("simulate", "--profile", profile, "--out", place / "run", "--quiet", "--seed",
                 random.Random(name).randrange(1000))  # fmt: skip
        seconds.write_text(f"{time.perf_counter() - begun}")
    return float(seconds.read_text())


def audit(asked: argparse.Namespace, name: str, count: int) -> tuple[list[dict[str, Any]], float]:
    """Return the rows of an audit with so many references, and the seconds that it took."""
    place = asked.out / name
    out = place / f"audit{count}"
    begun = time.perf_counter()
    if not (out / "report.json").exists():
        named = [word for k in range(count) for word in ("--reference", asked.out / f"r{k}/run")]
        fedaudit("extract", "--target", place / "run", "--prefixes", place / "in.jsonl",
                 "--victim", place / "in.jsonl", "--held-out", place / "out.jsonl",
                 "--attack", "membership", *named, "--out", out, "--quiet")  # fmt: skip
    taken = time.perf_counter() - begun
    return json.loads((out / "report.json").read_text())["measurements"], taken


def participation(asked: argparse.Namespace, name: str) -> None:
    """Print what is said of an organisation that took part and of one that did not."""
    place = asked.out / name
    rest = [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]
    half = len(rest) // 2
    data = place / "run/data"
    pairs = {
        "took part": (data / "c1.jsonl", place / "out.jsonl"),
        "did not": (write(place / "claimed.jsonl", rest[:half]),
                    write(place / "aside.jsonl", rest[half:])),
    }  # fmt: skip
    for number, (truth, (claimed, aside)) in enumerate(pairs.items()):
        out = place / f"organisation{number}"
        if not (out / "report.json").exists():
            fedaudit("extract", "--target", place / "run", "--prefixes", data / "c0.jsonl",
                     "--victim", claimed, "--held-out", aside, "--attack", "membership", "--set",
                     "membership.organisation=true", "--out", out, "--quiet")  # fmt: skip
        rows = json.loads((out / "report.json").read_text())["measurements"]
        own = [row for row in rows if row["scope"].get("unit") == "organisation"]
        p = next(row for row in own if row["metric"] == "p_value")
        gaps = [
            f"{row['value']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
            for row in own
            if row["metric"] == "score_gap" and "round" not in row["scope"]
        ]
        value = "cannot tell" if p["value"] is None else f"p {p['value']:.4f}"
        print(f"{name}  {truth:10}{value:14}{' '.join(gaps)} {p['reason'][:50]}", flush=True)


def usage(asked: argparse.Namespace, name: str, share: float) -> None:
    """Print how much of a set the tool says was used, of which a federation had that share."""
    place = asked.out / name
    used, unused = (
        [json.loads(line) for line in (place / file).read_text().splitlines()]
        for file in ("in.jsonl", "out.jsonl")
    )
    size = len(unused) // 2
    count = round(share * size)
    claimed = write(place / f"claimed{count}.jsonl", used[:count] + unused[: size - count])
    aside = write(place / "aside.jsonl", unused[size:])
    out, bare = place / f"usage{count}", place / "bare"
    if not bare.exists():
        # Without the clients' own files, whose records would be left out as known members'.
        shutil.copytree(place / "run", bare, ignore=shutil.ignore_patterns("data"))
        manifest = json.loads((bare / "federation.json").read_text())
        for client in manifest["clients"]:
            manifest["files"].pop(client.pop("data"))
        del manifest["files"]["data/partition.json"]
        (bare / "federation.json").write_text(json.dumps(manifest))
    if not (out / "report.json").exists():
        named = [f"--reference={asked.out / f'r{k}/run'}" for k in range(asked.references)]
        fedaudit("extract", "--target", bare, "--prefixes", claimed, "--victim", claimed,
                 "--held-out", aside, "--attack", "membership", *named, "--out", out,
                 "--quiet")  # fmt: skip
    rows = json.loads((out / "report.json").read_text())["measurements"]
    parts = [
        f"{row['scope']['estimator']} {row['value']:.2f} [{row['low']:.2f}, {row['high']:.2f}] of "
        f"{row['n']}"
        if row["value"] is not None
        else f"{row['scope']['estimator']}: {row['reason']}"
        for row in rows
        if row["metric"] == "usage"
    ]
    print(f"{name}  used {share:.0%}: {'; '.join(parts)}", flush=True)


def told(rows: Sequence[dict[str, Any]], score: str, **scope: object) -> str:
    """Return area, balanced accuracy and rate at 1 % of a score."""
    wanted = {"score": score, **scope}
    fits = [row for row in rows if wanted.items() <= row["scope"].items()]

    def number(metric: str, **more: object) -> str:
        found = [r for r in fits if r["metric"] == metric and more.items() <= r["scope"].items()]
        if not found or (row := found[0])["value"] is None:
            return "-"
        bounds = f" [{row['low']:.3f}, {row['high']:.3f}]" if row["low"] is not None else ""
        return f"{row['value']:.3f}{bounds}"

    parts = (number("auc"), number("balanced_accuracy"), number("tpr", fpr=0.01))
    return "  ".join(parts)


def main(words: Sequence[str] | None = None) -> None:
    """Train what is not there, audit every target, and print a line a score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--references", type=int, default=16)
    parser.add_argument("--targets", type=int, default=3)
    parser.add_argument("--records", type=int, default=240)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--organisations", action="store_true")
    parser.add_argument("--usage", action="store_true")
    asked = parser.parse_args(words)
    asked.out = asked.out.absolute()
    rows = pool(asked.records)
    names = [f"t{k}" for k in range(asked.targets)] + [f"r{k}" for k in range(asked.references)]
    seconds = [federation(asked, name, rows) for name in names]
    print(f"{len(names)} federations, {sum(seconds) / len(names):.0f} s each", flush=True)
    if asked.organisations:
        for name in names:
            participation(asked, name)
        return
    if asked.usage:
        for name in names[: asked.targets]:
            for share in (0.0, 0.25, 0.5, 0.75, 1.0):
                usage(asked, name, share)
        return
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= asked.references]
    for name in names[: asked.targets]:
        plain, taken = audit(asked, name, 0)
        for score in ("reference", "loss", "min_k++", "error_zone"):
            print(f"{name}  {score:14}  {told(plain, score)}", flush=True)
        print(f"{name}  audit without references: {taken:.0f} s")
        for count in counts:
            made, taken = audit(asked, name, count)
            for score in ("lira", "rmia"):
                for way in ("offline", "online"):
                    line = told(made, score, estimator=way)
                    print(f"{name}  {score} {way:8} k={count:<3}  {line}  ({taken:.0f} s)",
                          flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
