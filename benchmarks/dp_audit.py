"""What `fedaudit dp audit` says of a claimed epsilon with the noise off, and with it on.

    python benchmarks/dp_audit.py --out DIR [--seeds 5] [--epsilon 8] [--canaries 600]

For every seed: records of two banks, canaries by coin among those of c0, the federation trained by
DP-SGD without noise (sigma 1e-9) and with the noise that the claim takes, and both audited by the
commands that anybody would give. It prints a line an audit: the verdict, the guesses that are
right, the bound, and what a perfect attack could prove. What is there already is not trained again.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fedaudit.nano import generator

PROFILE = """
name = "dp_audit"
title = "A federation with canaries by coin"
paper = "none"

[scale.nano]
base = "fedaudit-nano"
data = "{data}"
clients = 2
rounds = {rounds}
held_out = 0.0
evaluated = 0
central = false
workers = 1
device = "cpu"
partition = {{ method = "corpus" }}
training = {{ epochs = {epochs}, batch_size = 32, learning_rate = 5e-3, warmup = 5, rank = 16, \
alpha = 32, max_length = 64, targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", \
"up_proj", "down_proj"] }}
"""


def fedaudit(*words: object) -> tuple[int, str]:
    """Run a command, and return its exit code and what it printed."""
    command = [sys.executable, "-m", "fedaudit", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 7):
        sys.exit(done.stderr)
    return done.returncode, done.stdout


def records(place: Path, seed: int) -> None:
    """Write the records of c0 and c1, each in a file of its own."""
    made = list(
        generator.corpus(
            cases=20,
            documents_per_case=4,
            seed=seed,
            languages=("en",),
            domains=("legal",),
            tasks=("record",),
        )
    )
    for number, name in enumerate(("c0", "c1")):
        rows = [
            {"id": one.id, "text": one.text, "pii": [], "group": f"{name}/{one.id}"}
            for one in made[number::2]
        ]
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def federation(place: Path, name: str, options: str, asked: argparse.Namespace, seed: int) -> Path:
    """Train a federation on the planted records with a defence's options, once."""
    run, profile = place / name, place / "profile.toml"
    data = place / "all.jsonl"
    profile.write_text(PROFILE.format(data=data, rounds=asked.rounds, epochs=asked.epochs))
    defenses = f'defenses=[{{name="dp", delta=1e-5, {options}}}]'
    fedaudit("simulate", "--profile", profile, "--out", run, "--set", defenses, "--seed", seed,
             "--quiet")  # fmt: skip
    return run


def planted(place: Path, asked: argparse.Namespace, seed: int) -> str:
    """Make and plant the canaries where that was not done, and return their commitment."""
    coins = place / "coins.json"
    if not coins.exists():
        records(place, seed)
        _, said = fedaudit("dp", "make", "--out", coins, "--corpus", place / "c0.jsonl",
                           "--count", asked.canaries, "--position", asked.position,
                           "--suffix-tokens", 24)  # fmt: skip
        (place / "said.txt").write_text(said)
        fedaudit("dp", "plant", coins, "--records", place / "c0.jsonl", "--out",
                 place / "c0p.jsonl")  # fmt: skip
        both = (place / name for name in ("c0p.jsonl", "c1.jsonl"))
        (place / "all.jsonl").write_text("".join(one.read_text() for one in both))
    said = (place / "said.txt").read_text()
    return said.split("commitment is ")[1].split(":")[0]


def trial(asked: argparse.Namespace, seed: int) -> None:
    """Train and audit both federations of one seed, and print what comes of it."""
    place = asked.out / f"seed{seed}"
    place.mkdir(parents=True, exist_ok=True)
    key = planted(place, asked, seed)
    bare = federation(place, "noiseless", "noise_multiplier=1e-9", asked, seed)
    honest = federation(place, "honest", f"epsilon={asked.epsilon}", asked, seed)
    for name, run, control in (("sigma 0", bare, []), ("honest", honest, ["--noiseless", bare])):
        report = place / f"{run.name}.json"
        words = ("dp", "audit", place / "coins.json", "--target", run, "--epsilon", asked.epsilon)
        code, _ = fedaudit(*words, "--commitment", key, *control, "--json", report, "--out",
                           place / f"audit-{run.name}", "--quiet")  # fmt: skip
        print(f"seed {seed}  {name:8}  {told(report)}  exit {code}", flush=True)


def told(path: Path) -> str:
    """Return an audit in one line."""
    found = json.loads(path.read_text())
    rows = [row for row in found["measurements"] if row["scope"].get("source") == "tuned"]
    low = {row["scope"]["estimator"]: row for row in rows if row["metric"] == "epsilon_low"}
    caps = [row for row in found["measurements"] if row["metric"] == "epsilon_cap"]
    cap = next(row["value"] for row in caps if row["scope"]["judged"])
    area = next(row for row in rows if row["metric"] == "auc")
    scope = low["f_dp"]["scope"]
    return (
        f"{found['verdict']['status']:12}  right {scope['correct']:>3} / {scope['guesses']:<3}  "
        f"AUC {area['value']:.3f}  f-DP {low['f_dp']['value']:5.2f}  any "
        f"{low['one_run']['value']:5.2f}  at most {cap:.2f}"
    )


def main(words: Sequence[str] | None = None) -> None:
    """Run every seed that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--canaries", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--position", default="client")
    asked = parser.parse_args(words)
    asked.out = asked.out.absolute()
    for seed in range(asked.first, asked.first + asked.seeds):
        trial(asked, seed)


if __name__ == "__main__":
    main()
