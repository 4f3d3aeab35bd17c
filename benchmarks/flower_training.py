"""How long a whole federation takes, beside a Flower app with PEFT and Trainer clients.

    pip install --constraint constraints.txt 'fedaudit[flower]'
    python benchmarks/flower_training.py [--clients 5] [--rounds 3] [--steps 40] [--repeats 3]

Both start from one adapter and train the same clients on the same batches, one at a time and in
one thread each: `fedaudit simulate`, and an app as FlowerTune writes it, on Flower's simulation
engine, with FedAvg. Losses and the last global adapter must come out alike. Seconds are the
clock's, of the whole command, so run this on an idle machine; the second ratio leaves out what
starting either takes, measured with one step.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from fedaudit.federation import adapters

PROFILE = """
name = "flower_training"
title = "A federation to be trained twice"
paper = "none"

[scale.nano]
base = "fedaudit-nano"
data = "nano"
clients = {clients}
rounds = {rounds}
held_out = 0.0
evaluated = 0
central = false
workers = 1
device = "cpu"
dtype = "float32"
records = {{ cases = {cases}, documents_per_case = 8, languages = ["en"] }}
partition = {{ method = "iid" }}
training = {{ steps = {steps}, batch_size = {batch}, learning_rate = 1e-3, decay = "linear", \
restart = true, rank = 16, alpha = 32, max_length = 128, learned = "text", targets = {targets} }}
"""
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
OURS, FLOWER = "fedaudit", "flower"
APP = Path(__file__).with_name("flower_app.py")


def simulate(out: Path, options: argparse.Namespace, steps: int) -> float:
    """Train the federation with fedaudit; return the seconds of the command."""
    profile = out.with_suffix(".toml")
    profile.write_text(
        PROFILE.format(
            clients=options.clients,
            rounds=options.rounds,
            cases=options.cases,
            steps=steps,
            batch=options.batch,
            targets=json.dumps(TARGETS),
        )
    )
    command = ["-m", "fedaudit", "simulate", "--profile", profile, "--out", out, "--quiet"]
    return seconds_of(command, out.with_suffix(".log"))


def run_flower(federation: Path, out: Path, options: argparse.Namespace, steps: int) -> float:
    """Train `federation` again as a Flower app; return the seconds of the command."""
    arguments = [APP, federation, out, steps, options.batch]
    return seconds_of(arguments, out.with_suffix(".log"))


def seconds_of(arguments: Sequence[object], log: Path) -> float:
    """Run Python with `arguments` in one thread, and return how long it took."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_memory_monitor_refresh_ms": "0"}
    begun = time.perf_counter()
    with log.open("w") as output:
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            stdout=output,
            stderr=output,
            env=environment,
            check=False,
        )
    if done.returncode:
        sys.exit(f"{log} says what went wrong.")
    return time.perf_counter() - begun


def compare_results(federation: Path, out: Path) -> str:
    """Return how far apart the two federations ended, in losses and in the last adapter."""
    manifest = json.loads((federation / "federation.json").read_text())
    total = sum(client["examples"] for client in manifest["clients"])
    shares = {client["id"]: client["examples"] / total for client in manifest["clients"]}
    rounds = manifest["rounds"][1:]
    ours = [sum(shares[c] * loss for c, loss in one["loss"].items()) for one in rounds]
    theirs = json.loads((out / "losses.json").read_text())
    first = adapters.read(federation / manifest["rounds"][0]["adapter"])
    last, other = adapters.read(federation / rounds[-1]["adapter"]), adapters.read(out)
    apart = sum(float((last[n] - other[n]).square().sum()) for n in last) ** 0.5
    moved = sum(float((last[n] - first[n]).square().sum()) for n in last) ** 0.5
    worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    return f"losses apart by at most {worst:.1e}; adapters by {apart / moved:.1e} of their way"


def main() -> None:
    """Train the federation in turn in both ways, and print the ratio of times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("flower-training"))
    options = parser.parse_args()
    folder = options.out.absolute()
    folder.mkdir(parents=True)
    spent: dict[tuple[str, int], list[float]] = {}
    for repeat in range(options.repeats):
        for steps in (1, options.steps):
            ours = folder / f"{OURS}-{steps}-{repeat}"
            flower = folder / f"{FLOWER}-{steps}-{repeat}"
            spent.setdefault((OURS, steps), []).append(simulate(ours, options, steps))
            spent.setdefault((FLOWER, steps), []).append(run_flower(ours, flower, options, steps))
            print(f"{steps:>4} steps a client and round: fedaudit {spent[OURS, steps][-1]:.1f} s, "
                  f"Flower {spent[FLOWER, steps][-1]:.1f} s; {compare_results(ours, flower)}",
                  flush=True)  # fmt: skip
    whole = [b / a for a, b in zip(spent[OURS, options.steps], spent[FLOWER, options.steps],
                                   strict=True)]  # fmt: skip
    trained = {
        way: [a - b for a, b in zip(spent[way, options.steps], spent[way, 1], strict=True)]
        for way in (OURS, FLOWER)
    }
    steps_only = [b / a for a, b in zip(trained[OURS], trained[FLOWER], strict=True)]
    for title, found in (("whole command", whole), ("without starting", steps_only)):
        print(f"{title}: Flower took {median(found):.2f} times as long "
              f"({min(found):.2f} to {max(found):.2f}, n = {len(found)})")  # fmt: skip


if __name__ == "__main__":
    main()
