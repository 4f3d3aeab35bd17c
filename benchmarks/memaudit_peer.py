"""Side by side with memaudit: the same client, the same canaries, both reports.

    python -m venv PEER && PEER/bin/pip install 'memaudit[peft]'
    python benchmarks/memaudit_peer.py --out DIR --peer PEER/bin/python [--canaries 100]

memaudit draws canaries and puts those whose coin fell on "in" into a client's records. fedaudit
trains that client (a federation of one, one round). Then `memaudit audit` and `fedaudit extract`
(membership, and verbatim continuation from the same beginnings) audit the same adapter, each
in a process of its own. It prints what both say of membership and regurgitation, with intervals,
and how long each took. What is there already is kept; times are those of the first run.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit import nano
from fedaudit.metrics.intervals import wilson
from fedaudit.metrics.privacy.roc import auc, tpr_at_fpr
from fedaudit.nano import generator

INJECT = """
import json, sys
from pathlib import Path
from transformers import AutoTokenizer
from memaudit import generate_canaries, inject
place, base, count, controls = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
tokenizer = AutoTokenizer.from_pretrained(base)
rows = [json.loads(line) for line in (place / "own.jsonl").read_text().splitlines()]
canaries = generate_canaries(tokenizer, n=count, n_controls=controls, family="high_ppl",
                             repetitions=(1, 4, 16), seed=0)
planted, manifest = inject(rows, canaries, fmt="text", seed=0, include_prob=1.0,
                           tokenizer=tokenizer)
(place / "planted.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in planted))
(place / "manifest.json").write_text(json.dumps(manifest))
"""
PROFILE = """
name = "peer"
title = "One client with canaries"
paper = "none"

[scale.nano]
base = "fedaudit-nano"
data = "{data}"
clients = 1
rounds = 1
held_out = 0.0
evaluated = 0
central = false
workers = 1
device = "cpu"
training = {{ epochs = {epochs}, batch_size = 16, learning_rate = 3e-3, warmup = 5, rank = 16, \
alpha = 32, max_length = 64, targets = ["q_proj", "k_proj", "v_proj", "o_proj"] }}
"""
SCORES = {"mean_logprob": "loss", "loss_diff": "reference", "min_k": "min_k",
          "min_k_plus_plus": "min_k++"}  # fmt: skip
"""The same scores in both programs: memaudit's of the secret alone, fedaudit's of the record."""
BEGINNINGS = (8, 16)
"""Tokens of a secret of 32 that are shown: a quarter and a half, as memaudit does."""
Record = dict[str, Any]


def run(*words: object) -> float:
    """Run a command; return the seconds that it took."""
    command = list(map(str, words))
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 7):
        sys.exit(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    return time.perf_counter() - begun


def timed(place: Path, name: str, made: Path, *words: object) -> float:
    """Run a command unless what it makes is there; return the seconds of when it was made."""
    seconds = place / f"{name}.seconds"
    if not made.exists() or not seconds.exists():
        seconds.write_text(f"{run(*words):.1f}")
    return float(seconds.read_text())


def write(path: Path, rows: Sequence[Record]) -> Path:
    """Write records as JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def planted(place: Path, asked: argparse.Namespace, base: Path) -> Record:
    """Make the client's records and memaudit's canaries among them; return its manifest."""
    if not (place / "manifest.json").exists():
        made = generator.corpus(cases=60, documents_per_case=1, seed=3, languages=("en",),
                                domains=("legal",), tasks=("record",))  # fmt: skip
        write(place / "own.jsonl", [{"text": one.text} for one in made])
        run(asked.peer, "-c", INJECT, place, base, asked.canaries, asked.controls)
    rows = [json.loads(line) for line in (place / "planted.jsonl").read_text().splitlines()]
    write(place / "client.jsonl", [{"id": f"r{n}", "text": one["text"], "pii": []}
                                   for n, one in enumerate(rows)])  # fmt: skip
    return dict(json.loads((place / "manifest.json").read_text()))


def trained(place: Path, asked: argparse.Namespace, base: Path) -> Path:
    """Train the client; return its adapter, as PEFT finds its base."""
    profile = place / "profile.toml"
    profile.write_text(PROFILE.format(data=place / "client.jsonl", epochs=asked.epochs))
    timed(place, "training", place / "run/report.json", sys.executable, "-m", "fedaudit",
          "simulate", "--profile", profile, "--out", place / "run", "--quiet")  # fmt: skip
    adapter = place / "adapter"
    if not adapter.exists():
        shutil.copytree(place / "run/rounds/001/global", adapter)
        config = adapter / "adapter_config.json"
        table = json.loads(config.read_text())
        config.write_text(json.dumps({**table, "base_model_name_or_path": str(base)}))
    return adapter


def audits(place: Path, asked: argparse.Namespace, manifest: Record) -> Mapping[str, Any]:
    """Run both programs on the adapter; return their reports and times."""
    base = nano.folder()
    adapter = trained(place, asked, base)
    theirs = place / "memaudit.json"
    found: dict[str, Any] = {}
    found["their seconds"] = timed(
        place, "memaudit", theirs, asked.peer, "-m", "memaudit", "audit", "--model", adapter,
        "--tokenizer", base, "--canary-set", place / "manifest.json", "--ref", "auto", "--output",
        theirs)  # fmt: skip
    found["theirs"] = json.loads(theirs.read_text())
    members = [one for one in manifest["canaries"] if one["included"]]
    controls = [one for one in manifest["canaries"] if not one["included"]]
    ours = (sys.executable, "-m", "fedaudit", "extract", "--target", base, "--adapter", adapter,
            "--quiet")  # fmt: skip
    seconds = 0.0
    for name, some in (("members", members), ("controls", controls)):
        records = [{"id": one["id"], "text": f"MEMAUDIT RECOVERY PHRASE: {one['secret']}",
                    "pii": []} for one in some]  # fmt: skip
        write(place / f"{name}.jsonl", records)
        secrets = [{"id": one["id"], "text": one["secret"], "pii": []} for one in some]
        write(place / f"{name}-secrets.jsonl", secrets)
    report = place / "membership/report.json"
    seconds += timed(place, "membership", report, *ours, "--prefixes", place / "members.jsonl",
                     "--victim", place / "members.jsonl", "--held-out", place / "controls.jsonl",
                     "--attack", "membership", "--set", "membership.shifted=true", "--out",
                     report.parent)  # fmt: skip
    found["membership"] = json.loads(report.read_text())["measurements"]
    for name in ("members", "controls"):
        for shown in BEGINNINGS:
            report = place / f"verbatim-{name}-{shown}/report.json"
            seconds += timed(place, f"verbatim-{name}-{shown}", report, *ours, "--prefixes",
                             place / f"{name}-secrets.jsonl", "--attack", "verbatim", "--set",
                             f"verbatim.prefix={shown}", "--set", f"verbatim.suffix={32 - shown}",
                             "--set", "verbatim.shortest=8", "--out", report.parent)  # fmt: skip
            found[f"{name} from {shown}"] = json.loads(report.read_text())["measurements"]
    found["our seconds"] = seconds
    return found


def number(row: Record) -> str:
    """Return a value with its interval."""
    return f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def pick(rows: Sequence[Record], metric: str, **scope: object) -> Record:
    """Return the row of a metric with this in its scope."""
    return next(r for r in rows if r["metric"] == metric and scope.items() <= r["scope"].items())


def main(words: Sequence[str] | None = None) -> None:
    """Print both programs' numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--canaries", type=int, default=100)
    parser.add_argument("--controls", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=3)
    asked = parser.parse_args(words)
    place = asked.out.absolute()
    place.mkdir(parents=True, exist_ok=True)
    found = audits(place, asked, planted(place, asked, nano.folder()))
    theirs, ours = found["theirs"], found["membership"]
    headline = theirs["membership"]
    print(
        f"memaudit headline  AUC {headline['auc']:.3f}  TPR at 1 % "
        f"{headline['tpr_at_1pct_fpr']:.3f} [{headline['ci_low']:.3f}, {headline['ci_high']:.3f}]"
    )
    for score, own in SCORES.items():
        sides = [[one["scores"][score] for one in theirs["per_canary"] if one["included"] == side]
                 for side in (True, False)]  # fmt: skip
        members, controls = sides
        area, rate = auc(members, controls), tpr_at_fpr(members, controls, 0.01)
        print(f"memaudit {score:16} AUC {area.value:.3f} [{area.low:.3f}, {area.high:.3f}]  TPR at "
              f"1 % {rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}]")  # fmt: skip
        our_area = number(pick(ours, "auc", score=own))
        our_rate = number(pick(ours, "tpr", score=own, fpr=0.01))
        print(f"fedaudit {own:16} AUC {our_area}  TPR at 1 % {our_rate}")
    for test in ("ranks", "tail"):
        print(f"fedaudit p of {test}: {pick(ours, 'p_value', test=test)['value']:.2g}")
    drawn = theirs["regurgitation"]["overall"]
    print(f"memaudit regurgitation: {drawn['n_regurgitated']} of {drawn['n']}")
    for name in ("members", "controls"):
        for shown in BEGINNINGS:
            row = pick(found[f"{name} from {shown}"], "coverage", source="tuned")
            bounds = wilson(row["hits"], row["n"])
            print(f"fedaudit verbatim {name} from {shown} tokens: {row['hits']} of {row['n']} "
                  f"[{bounds.low:.3f}, {bounds.high:.3f}]")  # fmt: skip
    ratio = found["their seconds"] / found["our seconds"]
    print(f"memaudit {found['their seconds']:.1f} s, fedaudit {found['our seconds']:.1f} s in five "
          f"commands: {ratio:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
