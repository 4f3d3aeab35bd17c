"""Compare a joint audit with the matrix, which has all records in one place.

    python benchmarks/joint_equality.py --out DIR [--seeds 1 2 3]

For each seed, three federations of the profile fed_pii on the built-in model: clients that differ,
clients that are alike, and four clients. Each client is a member of a joint audit, in a folder of
its own, whose files are copied to the others; `extract --matrix` is given all records. Verdicts are
compared and, for every pair, the counts of what came out of the model, of its base, and of the
strings that third members share. Finished audits are reused. The exit code is 1 if anything
differs.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

FEDERATIONS = {
    "clients that differ": (),
    "clients that are alike": ("partition.method=iid",),
    "four clients": ("clients=4",),
}
LESS = ("rounds=5", "central=false")
BY_VICTIM = {"chance", "effective_controls", "gain_score", "p_value"}
"""What the matrix measures behind the attacker's prompts, and a joint audit behind the victim's."""
OF_A_PAIR = {("set", "all"), ("source", "tuned-not-base")}
"""The row that says how many of a victim's strings an attacker drew, and the base did not."""
BUDGET = ("--budget", "40", "--device", "cpu", "--seed", "0")


def counts(report: Mapping[str, Any]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return what was counted of every pair's targets: hits, n and value by metric and scope."""
    return {
        (row["metric"], *sorted((k, str(v)) for k, v in row["scope"].items())): (
            row["hits"], row["n"], row["value"]
        )
        for row in report["measurements"]
        if row["scope"].get("attacker") and row["metric"] not in BY_VICTIM
        and row["scope"].get("source") not in ("control", "known")
    }  # fmt: skip


def fedaudit(*words: str | Path, cwd: Path) -> None:
    """Run a command; end this program unless it ends with a result."""
    command = [sys.executable, "-m", "fedaudit", *map(str, words)]
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1, 7):
        raise SystemExit(f"{' '.join(command)}: {ended.stderr}")


def send(folder: Path, names: AbstractSet[str]) -> None:
    """Copy what each member wrote into the folders of those that it is for."""
    for sender in names:
        for path in (folder / sender).glob(f"{sender}.*"):
            _, _, only = path.stem.partition("-for-")
            for receiver in [only] if only else names - {sender}:
                shutil.copy(path, folder / receiver)


def jointly(folder: Path, records: Mapping[str, Path]) -> None:
    """Take members through all steps of a joint audit of `folder`/run; write joint.json."""
    for name, path in records.items():
        key = folder / f"{name}.pem"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
        fedaudit("joint", "commit", name, "--as", name, "--ours", path, "--key", key.name,
                 "--target", "run", *BUDGET, cwd=folder)  # fmt: skip
    send(folder, records.keys())
    for step in (("ask",), ("answer",), ("count", "--counts")):
        for name in records:
            fedaudit("joint", step[0], name, *step[1:], cwd=folder)
        send(folder, records.keys())
    fedaudit("joint", "report", min(records), "--json", "joint.json", cwd=folder)


def compared(folder: Path, settings: Sequence[str], seed: int) -> dict[str, Any]:
    """Simulate a federation and audit it both ways; return what is shown of it."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [f"--set={one}" for one in (*LESS, *settings)]
    fedaudit("simulate", "--profile", "fed_pii", "--out", "run", "--seed", str(seed), *made,
             "--device", "cpu", "--quiet", cwd=folder)  # fmt: skip
    records = {path.stem: path.absolute() for path in (folder / "run/data").glob("c*.jsonl")}
    if not (folder / "matrix.json").exists():
        fedaudit("extract", "run", "--matrix", *BUDGET, "--quiet", "--json", "matrix.json",
                 cwd=folder)  # fmt: skip
    if not (folder / "joint.json").exists():
        for name in records:
            shutil.rmtree(folder / name, ignore_errors=True)
        jointly(folder, dict(sorted(records.items())))
    joint, matrix = (
        json.loads((folder / f"{name}.json").read_text("utf-8")) for name in ("joint", "matrix")
    )
    together, apart = counts(matrix), counts(joint)
    extracted = [
        value for (metric, *scope), value in together.items()
        if metric == "coverage" and len(scope) == len(("attacker", "victim", *OF_A_PAIR))
        and {*scope} >= OF_A_PAIR
    ]  # fmt: skip
    return {
        "records": sum(len(path.read_text("utf-8").splitlines()) for path in records.values()),
        "pairs": len(records) * (len(records) - 1),
        "rows": len(together),
        "different": len({*together.items()} ^ {*apart.items()}),
        "hits": sum(hits or 0 for hits, _, _ in extracted),
        "strings": sum(n or 0 for _, n, _ in extracted),
        "matrix": matrix["verdict"]["status"],
        "joint": joint["verdict"]["status"],
    }


def main() -> int:
    """Compare all federations, print a line for each, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    wrong = False
    for seed in options.seeds:
        for name, settings in FEDERATIONS.items():
            found = compared(options.out / f"{name.replace(' ', '_')}-{seed}", settings, seed)
            print(f"{name}, seed {seed}: {json.dumps(found)}", flush=True)
            wrong |= bool(found["different"]) or found["matrix"] != found["joint"]
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
