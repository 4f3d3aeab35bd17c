"""What each instrument sees of planted secrets, on one federation whose truth is known.

    python benchmarks/instruments.py --out DIR

Names are planted in records of one form: some stand in eight records of c1, some in one, some in
four of c1 and four of c2, some in nobody's. Telephone numbers of `fedaudit canary make` stand in
eight records of c1 and in one. The federation is trained with c1 and without; then every instrument
is run as anybody would, c0 attacking c1, and asked about each kind of secret by itself. It prints a
table in Markdown. What is trained already is not trained again.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit.nano.people import invent

FORM = "Matter {number}: the claimant is {name}, who signed for the parcel on a {day}."
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
EACH = 5
OFTEN, ONCE, SHARED, NOBODY = "8 records of c1", "1 record of c1", "4 of c1, 4 of c2", "nobody's"
COPIES = {OFTEN: (8, 0), ONCE: (1, 0), SHARED: (4, 4), NOBODY: (0, 0)}
"""Of each kind of secret, how many records of c1 and of c2 hold each."""
PROFILE = """
name = "instruments"
title = "A federation with planted secrets"
paper = "none"

[scale.nano]
base = "fedaudit-nano"
data = "{data}"
clients = 3
rounds = 4
held_out = 0.0
evaluated = 0
central = false
workers = 1
device = "cpu"
partition = {{ method = "corpus" }}
training = {{ epochs = 6, batch_size = 8, learning_rate = 5e-3, warmup = 3, rank = 32, alpha = 64, \
max_length = 64, targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", \
"down_proj"] }}
"""
Record = dict[str, Any]


def fedaudit(*words: object) -> None:
    """Run a command; whatever its verdict, it must have come to one."""
    command = [sys.executable, "-m", "fedaudit", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 7):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")


def record(number: int, name: str, group: str) -> Record:
    """Return a record that names somebody, annotated."""
    text = FORM.format(number=number, name=name, day=DAYS[number % len(DAYS)])
    start = text.index(name)
    pii = [{"start": start, "end": start + len(name), "label": "PERSON"}]
    return {"text": text, "pii": pii, "group": group}


def names() -> dict[str, list[str]]:
    """Return the planted names of each kind, and c0's and c2's own, all different."""
    import random

    rng, found = random.Random("instruments"), dict[str, None]()
    while len(found) < EACH * len(COPIES) + 40:
        found.setdefault(str(invent("en", rng).name))
    every = list(found)
    kinds = {kind: every[n * EACH : (n + 1) * EACH] for n, kind in enumerate(COPIES)}
    return {**kinds, "own": every[EACH * len(COPIES) :]}


def write(path: Path, rows: Sequence[Record]) -> Path:
    """Write records as JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def records(secrets: Mapping[str, Sequence[str]]) -> dict[str, list[Record]]:
    """Return the records of every client, and those of each kind of secret, once each."""
    made: dict[str, list[Record]] = {"c0": [], "c1": [], "c2": [], **{kind: [] for kind in COPIES}}
    number = 100
    for kind, (first, second) in COPIES.items():
        for name in secrets[kind]:
            for copy in range(max(1, first + second)):
                number += 7
                who = "c1" if copy < first else "c2"
                row = record(number, name, f"{who}/{number}")
                if first + second:
                    made[who].append(row)
                if not copy:
                    made[kind].append(row)
    for place, name in enumerate(secrets["own"]):
        who = "c0" if place < 24 else "c2"
        made[who].append(record(3000 + 7 * place, name, f"{who}/o{place}"))
    return made


def federation(place: Path) -> dict[str, Path]:
    """Make records and canaries, train with c1 and without; return the files of each kind."""
    made = records(names())
    files = {name: write(place / f"{number}.jsonl", rows)
             for number, (name, rows) in enumerate(made.items())}  # fmt: skip
    coins, planted = place / "canaries.json", place / "c1.jsonl"
    if not planted.exists():
        fedaudit("canary", "make", "--out", coins, "--client", "c1", "--count", 8, "--times", "1,8",
                 "--seed", 4, "--corpus", files["c1"])  # fmt: skip
        fedaudit("canary", "plant", coins, "--records", files["c1"], "--client", "c1", "--out",
                 planted, "--seed", 4)  # fmt: skip
    rows = [json.loads(line) for line in planted.read_text().splitlines()]
    for number, row in enumerate(rows):
        row.setdefault("group", f"c1/k{number}")
    data = write(place / "all.jsonl", [*made["c0"], *rows, *made["c2"]])
    profile = place / "profile.toml"
    profile.write_text(PROFILE.format(data=data))
    simulate = ("simulate", "--profile", profile, "--out", place / "run", "--quiet")
    fedaudit(*simulate)
    fedaudit(*simulate, "--without", "c1")
    return files


def report(place: Path, name: str, *words: object) -> tuple[list[Record], dict[str, Record]]:
    """Run an audit once; return its measurements, and what findings say of each string."""
    out = place / name
    if not (out / "report.json").exists():
        fedaudit(*words, "--out", out, "--quiet")
    found = json.loads((out / "report.json").read_text())
    plain = out / "revealed.jsonl"
    lines = plain.read_text().splitlines() if plain.exists() else []
    texts = {row["id"]: row["text"] for row in map(json.loads, lines)}
    evidence = {texts.get(one["id"], ""): one["evidence"] for one in found["findings"]}
    return found["measurements"], evidence


def mean(values: Sequence[float]) -> str:
    """Return a mean of shares."""
    return f"{sum(values) / len(values):.2f}"


def seen(place: Path, files: Mapping[str, Path]) -> dict[str, dict[str, str]]:
    """Return what each instrument says of each kind of secret."""
    run, secrets = place / "run", names()
    data = run / "data"
    ask = ("extract", "--target", run, "--prefixes", data / "c0.jsonl", "--reveal")
    told: dict[str, dict[str, str]] = {}
    for kind in COPIES:
        own, name = files[kind], str(list(COPIES).index(kind))
        beside = ("--counterfactual", run / "without/c1") if kind != NOBODY else ()
        cells = told.setdefault(kind, {})
        _, drawn = report(place, f"contextual{name}", *ask, "--victim", own, *beside,
                          "--set", "contextual.samples=15", "--set", "contextual.sweeps=false",
                          "--set", "contextual.context=8")  # fmt: skip
        cells["contextual"] = mean([float(one in drawn) for one in secrets[kind]])
        _, exact = report(place, f"exact{name}", *ask, "--victim", own, *beside, "--estimator",
                          "exact", "--set", "contextual.sweeps=false",
                          "--set", "contextual.context=8")  # fmt: skip
        some = [exact.get(one, {}) for one in secrets[kind]]
        cells["exact"] = mean([one.get("probability", 0.0) for one in some])
        changes = [one.get("memorization", 0.0) for one in some]
        cells["counterfactual"] = "-" if kind == NOBODY else mean(changes)
        rows, _ = report(place, f"verbatim{name}", *ask, "--victim", own, "--attack", "verbatim",
                         "--set", "verbatim.prefix=6", "--set", "verbatim.suffix=8",
                         "--set", "verbatim.shortest=4")  # fmt: skip
        cells["verbatim"] = value(rows, "coverage", source="tuned")
        rows, _ = report(place, f"infer{name}", "infer", "--target", run, "--data", own,
                         "--candidates", 10)  # fmt: skip
        cells["inference"] = value(rows, "inference_accuracy", source="tuned")
        cells["inference"] += f" (base {value(rows, 'inference_accuracy', source='base')})"
        cells["membership"] = "-"
        if kind != NOBODY:
            rows, _ = report(place, f"membership{name}", *ask, "--victim", own, "--attack",
                             "membership", "--held-out", files[NOBODY])  # fmt: skip
            cells["membership"] = value(rows, "auc", score="reference")
    rows, _ = report(place, "exposure", "canary", "measure", place / "canaries.json", "--target",
                     run)  # fmt: skip
    for kind, times in ((OFTEN, 8), (ONCE, 1), (NOBODY, 0)):
        bits = value(rows, "exposure", source="tuned", times=times)
        told[kind]["exposure"] = f"{bits} bits"
    told[SHARED]["exposure"] = "-"
    return told


def value(rows: Sequence[Record], metric: str, **scope: object) -> str:
    """Return the first number of a metric with this in its scope."""
    fits = (r for r in rows if r["metric"] == metric and scope.items() <= r["scope"].items())
    row = next(fits, None)
    return "-" if row is None or row["value"] is None else f"{row['value']:.2f}"


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    place = parser.parse_args(words).out.absolute()
    place.mkdir(parents=True, exist_ok=True)
    told = seen(place, federation(place))
    kinds = list(COPIES)
    print(f"| instrument | {' | '.join(kinds)} |\n|{' --- |' * (len(kinds) + 1)}")
    for instrument in ("contextual", "exact", "verbatim", "inference", "membership", "exposure",
                       "counterfactual"):  # fmt: skip
        print(f"| {instrument} | {' | '.join(told[kind][instrument] for kind in kinds)} |")


if __name__ == "__main__":
    main()
