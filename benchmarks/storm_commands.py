"""The commands that `kill_storm.py` stops, the files that they need, and what is compared."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from child_process import run

TIMES = re.compile(
    r'"(?:seconds|started|finished|resumed_from|tokens_per_second)": .*|'
    r'\{[^{}]*"metric": "(?:seconds|tokens_per_second|overhead)"[^{}]*(?:\{[^{}]*\})?[^{}]*\}'
)
ROWS = {"seconds", "tokens_per_second", "overhead"}
"""Metrics of time."""
SAMPLED = ("draw", "asked_again", "seen")
"""What a merge says of the questions that it asked again, which nobody may foresee."""
SIMULATE = (
    *("clients=2", "rounds=3", "central=false", "training.steps=6", "records.cases=4"),
    *("records.documents_per_case=5", "evaluated=3", "training.rank=4", "training.max_length=48"),
    *("training.batch_size=2", "partition.method=iid", "workers=1", "device=cpu"),
)


@dataclass(frozen=True)
class Command:
    """A command that is killed: its words without --out, its inputs, and how it is resumed."""

    words: tuple[str, ...]
    out: str = "out"
    resume: bool = True
    """Whether it takes --resume where answers are kept; otherwise the same words go on."""
    before: Callable[[Path, Path], object] = lambda made, here: None
    results: Callable[[Path], Any] = lambda out: report_without_times(out / "report.json")
    untouched: tuple[str, ...] = ()
    """Folders that stay byte for byte as they are."""


def report_without_times(path: Path) -> Any:
    """Return a report without what differs from run to run."""
    document = json.loads(path.read_text())
    document["measurements"] = [r for r in document["measurements"] if r["metric"] not in ROWS]
    document["budget"].pop("seconds", None)
    document["environment"].pop("git")  # somebody may work in the checkout meanwhile
    for name in ("started", "finished", "resumed_from"):
        document["run"].pop(name)
    for shard in document["run"].get("shards") or ():
        for name in SAMPLED:
            shard.pop(name, None)
    document["limits"] = [limit for limit in document["limits"] if not limit.startswith("Shard ")]
    return document


def simulation_results(out: Path) -> Any:
    """Return the report of a simulation and the hashes of all that it left but logs of time."""
    files = {
        path.relative_to(out).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "report.json"
    }
    return report_without_times(out / "report.json"), files


def folder_results(out: Path) -> Any:
    """Return the hashes of a folder's estimates; what lists them has the ledger's times."""
    return {
        path.relative_to(out).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*.safetensors"))
    }


AUDIT = ("--quiet", "--device", "cpu", "--target", "../../made/fed")
OWN, VICTIM = "../../made/fed/data/c0.jsonl", "../../made/fed/data/c1.jsonl"
EXTRACT = (
    *("extract", "--prefixes", OWN, "--victim", VICTIM, *AUDIT),
    *("--set", "contextual.samples=4", "--attack", "contextual", "--attack", "verbatim"),
)


def copy_shards(made: Path, here: Path) -> None:
    """Give each point shards of its own, as they were made once."""
    for number in (1, 2):
        shutil.copytree(made / f"shard{number}", here / f"shard{number}")


COMMANDS = {
    "extract": Command(EXTRACT),
    "memorize": Command(
        (*("memorize", "--clients", OWN, VICTIM, *AUDIT, "--prefix-length", "8", "--workers", "1"),
         "--new-tokens", "24", "--sample", "30")
    ),
    "infer": Command(("infer", "--data", VICTIM, *AUDIT, "--candidates", "20")),
    "attribute": Command(
        ("attribute", "--rounds", "../../made/marked", "--workers", "1", "--device", "cpu",
         "--quiet", "--others", "2", "--queries", "5", "--limit", "1", "--threshold", "2"),
        resume=False,
    ),
    "estimate": Command(
        ("attribute", "estimate", "--rounds", "marked", "--quiet", "--others", "2", "--queries",
         "5", "--limit", "1", "--threshold", "2", "--log", "log.json", "--seed", "3"),
        resume=False,
        before=lambda made, here: shutil.copytree(made / "marked", here / "marked"),
        results=folder_results,
    ),
    "canary measure": Command(
        ("canary", "measure", "../../made/planted/owner/canaries.json", *AUDIT[:-1],
         "../../made/planted", "--references", "200", "--space-limit", "0"),
    ),
    "simulate": Command(
        ("simulate", "--profile", "fed_pii", "--quiet", *(f"--set={one}" for one in SIMULATE)),
        resume=False,
        results=simulation_results,
    ),
    "merge": Command(
        ("merge", "shard1", "shard2", "--device", "cpu", "--quiet"),
        resume=False,
        before=copy_shards,
        untouched=("shard1", "shard2"),
    ),
}  # fmt: skip


def make_inputs(made: Path, wanted: Sequence[str]) -> None:
    """Make the inputs of the commands: a federation, a marked one, two shards."""
    (made / "here").mkdir(parents=True)  # as deep as the folders of points
    marked = ("clients=4", "watermark.plugin=fictitious", "watermark.clients=1", "rounds=2")
    small = [one for one in SIMULATE if not one.startswith(("clients", "rounds"))]
    commands = [("simulate", "--profile", "fed_pii", *_set(SIMULATE), "--out", "../fed")]
    if "canary measure" in wanted:
        planted = _set((*SIMULATE, "canaries.count=6", "canaries.controls=20"))
        commands += [("simulate", "--profile", "fed_pii", *planted, "--out", "../planted")]
    if {"attribute", "estimate"} & {*wanted}:
        sets = _set((*small, *marked))
        commands += [("simulate", "--profile", "fed_attr", *sets, "--out", "../marked")]
    if "merge" in wanted:
        commands += [(*EXTRACT, "--shard", f"{n}/2", "--out", f"../shard{n}") for n in (1, 2)]
    for words in commands:
        if (process := run([*words, "--quiet"], made / "here")).code:
            sys.exit(f"{' '.join(words)} ended with {process.code}: {process.output}")


def _set(settings: Sequence[str]) -> list[str]:
    return [f"--set={one}" for one in settings]
