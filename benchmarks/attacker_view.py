"""How far an attacker without a victim is right to believe what `extract` lists.

    for seed in 0 1 2 3 4; do
        fedaudit simulate --profile fed_pii --seed $seed --out /tmp/federation-$seed
    done
    python benchmarks/attacker_view.py /tmp/federation-* [--attackers c0 c1 c2]

Each attacker lists candidates as if it had nobody's data but its own. The truth is what stands in
the other clients' records: a candidate is true if it is one of their PII strings and in no text of
the attacker's. Beside the share of true ones stands what the report says of it, with the interval
and whether it holds the truth.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def records(path: Path) -> list[Row]:
    """Return the records of one client."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def truth(federation: Path, attacker: str) -> set[str]:
    """Return the PII strings of the other clients that the attacker's texts do not hold."""
    files = {path.stem: records(path) for path in (federation / "data").glob("c*.jsonl")}
    own = "\x00".join(record["text"] for record in files.pop(attacker))
    strings = {
        record["text"][span["start"] : span["end"]].strip()
        for others in files.values()
        for record in others
        for span in record["pii"]
    }
    return {string for string in strings if string not in own}


def listed(federation: Path, attacker: str, seed: int) -> tuple[list[Row], list[Row]]:
    """Return the candidates in plain text and the rows of precision of one audit."""
    with tempfile.TemporaryDirectory() as place:
        prefixes = federation / "data" / f"{attacker}.jsonl"
        command = [sys.executable, "-m", "fedaudit", "extract", "--target", str(federation)]
        command += ["--prefixes", str(prefixes), "--out", place, "--reveal", "--quiet"]
        command += ["--seed", str(seed)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode not in (0, 7):  # without a victim an audit is inconclusive
            raise SystemExit(done.stderr)
        report = json.loads((Path(place) / "report.json").read_text("utf-8"))
        plain = records(Path(place) / "revealed.jsonl")
    rows = [row for row in report["measurements"] if row["metric"] == "precision"]
    return plain, rows


def lines(plain: Sequence[Row], rows: Sequence[Row], true: set[str]) -> Iterator[tuple[Any, ...]]:
    """Yield kind, top, the share of true candidates, what the report says, whether it holds."""
    for row in rows:
        label, top = row["scope"].get("label", "all"), row["scope"]["top"]
        some = [one["text"] in true for one in plain if label in ("all", one["label"])][:top]
        share = sum(some) / top
        if row["value"] is None:
            yield label, top, share, f"not measured: {row['reason']}", ""
            continue
        said = f"{row['value']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
        yield label, top, share, said, "yes" if row["low"] <= share <= row["high"] else "no"


def main() -> None:
    """Print a line for each federation, attacker, kind and length of the list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("federations", nargs="+", type=Path)
    parser.add_argument("--attackers", nargs="+", default=["c0"])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(f"{'federation':24} {'by':4} {'kind':14} {'top':>4} {'true':>5}  said, holds")
    for federation in given.federations:
        for attacker in given.attackers:
            plain, rows = listed(federation, attacker, given.seed)
            for label, top, share, said, holds in lines(plain, rows, truth(federation, attacker)):
                name = federation.name[-24:]
                print(f"{name:24} {attacker:4} {label:14} {top:4} {share:5.2f}  {said} {holds}")


if __name__ == "__main__":
    main()
