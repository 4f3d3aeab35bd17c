"""Whether `fedaudit audit` gives the right verdict where the truth is known, seed by seed.

    python benchmarks/audit_verdicts.py --out DIR [--seeds 11 12 13] [--case leak]

Small federations of invented courts are trained on the built-in model (kept in DIR, as all reports
are: a run goes on where another stopped), then audited by the command, under its default policy:

* leak: client c1 trained on its own records;
* strangers: the same model, and people of whom nobody has a record, asked in full;
* too-small: the same model, and two records of such people;
* broken: the same model with an adapter whose matrices are zero;
* contaminated: a base that already knows c1, tuned by clients without c1;
* absent: the federation trained without c1;
* defended: all clients scrubbed their records;
* marked: clients trained on watermarked documents, and the right ones are named.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibration_cases import FORM, invented_people, planted_documents

from fedaudit.data import corpus
from fedaudit.federation import counterfactual

ALIKE = ("--set", "central=false", "--set", "evaluated=24")


@dataclass(frozen=True)
class Case:
    """What is audited, by which words, and which ends are right."""

    words: Callable[[Path, int], list[str]]
    right: tuple[str, ...]
    quick: bool = True
    """Whether a first answer is enough: it cannot pass a model, it asks too little for that."""


def run(words: Sequence[str], here: Path) -> int:
    """Run fedaudit in a folder and return its exit code."""
    command = [sys.executable, "-m", "fedaudit", *words, "--quiet"]
    with (here / "log.txt").open("a") as log:
        print(" ".join(words), file=log, flush=True)
        return subprocess.run(command, cwd=here, stdout=log, stderr=log, check=False).returncode


def simulated(here: Path, name: str, seed: int, *words: str) -> Path:
    """Return a federation's folder, trained where it is not there yet."""
    place = here / name
    if not (place / "report.json").exists() and run(
        ["simulate", "--seed", str(seed), "--out", name, *words], here
    ):
        sys.exit(f"{name}: see {here / 'log.txt'}")
    return place


def courts(here: Path, seed: int) -> Path:
    """Return records of three clients; c1 has five documents twenty times each."""
    path = here / "courts.jsonl"
    if not path.exists():
        own = invented_people(seed, 18, 8)
        groups = {one.group: number for number, one in enumerate(own)}
        names = dict(zip(groups, (f"c{n % 3}" for n in range(len(groups))), strict=True))
        extra = [one for one in planted_documents(seed)[20][:5] for _ in range(20)]
        whole = [(names[one.group], one) for one in own] + [("c1", one) for one in extra]
        corpus.write(path, [_assign_to_client(one, who, n) for n, (who, one) in enumerate(whole)])
    return path


def _assign_to_client(document: Any, client: str, number: int) -> Any:
    group = f"{client}/{document.group or document.id}"
    return replace(document, id=f"{document.id}-{number}", group=group)


def federation(here: Path, seed: int, name: str = "fed", *words: str) -> Path:
    """Return the federation of these records."""
    data = ("--set", f"data={courts(here, seed)}", "--set", "partition.method=corpus")
    return simulated(here, name, seed, "--profile", "fed_pii", *ALIKE, *data, *words)


def strangers(here: Path, seed: int, cases: int, name: str) -> str:
    """Write records of people whom nobody has, and return the file's name."""
    corpus.write(here / name, invented_people(300_000 + seed, cases, 3 if cases > 2 else 1))
    return name


def _leak(here: Path, seed: int) -> list[str]:
    return [str(federation(here, seed))]


def _strangers(here: Path, seed: int) -> list[str]:
    corpus.write(here / "never.jsonl", invented_people(500_000 + seed, 100, 3))
    return [*_leak(here, seed), "--victim", strangers(here, seed, 100, "strangers.jsonl"),
            "--held-out", "never.jsonl"]  # fmt: skip


def _too_small(here: Path, seed: int) -> list[str]:
    return [*_leak(here, seed), "--victim", strangers(here, seed, 2, "two.jsonl")]


def _sides(place: Path) -> list[str]:
    return ["--prefixes", f"{place}/data/c0.jsonl", "--victim", f"{place}/data/c1.jsonl"]


def _broken(here: Path, seed: int) -> list[str]:
    from safetensors.torch import load_file, save_file

    place = federation(here, seed)
    broken = here / "broken"
    if not broken.exists():
        shutil.copytree(place / f"rounds/{_last(place)}/global", broken)
        path = broken / "adapter_model.safetensors"
        save_file({name: tensor * 0 for name, tensor in load_file(path).items()}, path)
    return ["fedaudit-nano", "--adapter", "broken", *_sides(place)]


def _last(place: Path) -> str:
    return sorted(one.name for one in (place / "rounds").iterdir())[-1]


def _contaminated(here: Path, seed: int) -> list[str]:
    from peft import PeftModel
    from transformers import AutoTokenizer

    from fedaudit import nano
    from fedaudit.engine.loading.loader import load_base

    place, base = federation(here, seed), here / "base"
    if not base.exists():
        model = load_base("fedaudit-nano", device="cpu").model
        merged = PeftModel.from_pretrained(model, str(place / f"rounds/{_last(place)}/global"))
        merged.merge_and_unload().save_pretrained(base)
        AutoTokenizer.from_pretrained(nano.folder()).save_pretrained(base)
    documents = [one for one in corpus.read(courts(here, seed), FORM) if one.group[:2] != "c1"]
    others = [
        _assign_to_client(one, "c1", n)
        for n, one in enumerate(invented_people(400_000 + seed, 6, 8))
    ]
    corpus.write(here / "others.jsonl", [*documents, *others])
    tuned = simulated(here, "again", seed, "--profile", "fed_pii", *ALIKE, "--set", f"base={base}",
                      "--set", f"data={here / 'others.jsonl'}",
                      "--set", "partition.method=corpus")  # fmt: skip
    return [str(tuned), *_sides(place)]


def _absent(here: Path, seed: int) -> list[str]:
    place = federation(here, seed)
    made = counterfactual.place_of(place, ["c1"])
    if not (made / "report.json").exists() and run(
        ["simulate", "--seed", str(seed), "--out", "fed", "--profile", "fed_pii", *ALIKE,
         "--set", f"data={courts(here, seed)}", "--set", "partition.method=corpus",
         "--without", "c1"], here):  # fmt: skip
        sys.exit(f"without c1: see {here / 'log.txt'}")
    return [str(made), *_sides(place)]


def _defended(here: Path, seed: int) -> list[str]:
    place = federation(here, seed, "scrubbed", "--set", "defenses=scrub")
    return [str(place), *_sides(federation(here, seed))]


def _marked(here: Path, seed: int) -> list[str]:
    return [str(simulated(here, "marked", seed, "--profile", "fed_attr"))]


CASES = {
    "leak": Case(_leak, ("fail",)),
    "strangers": Case(_strangers, ("pass",), quick=False),
    "too-small": Case(_too_small, ("inconclusive",)),
    "broken": Case(_broken, ("inconclusive", "refused")),
    "contaminated": Case(_contaminated, ("pass", "inconclusive")),
    "absent": Case(_absent, ("pass", "inconclusive")),
    "defended": Case(_defended, ("pass", "inconclusive")),
    "marked": Case(_marked, ("fail",)),
}


def audited(name: str, here: Path, seed: int) -> dict[str, Any]:
    """Return the status of a case's audit, and what failed; kept, and made where it is missing."""
    kept = here / f"{name}.json"
    if not kept.exists():
        out = f"audit-{name}"
        shutil.rmtree(here / out, ignore_errors=True)
        quick = ["--quick"] if CASES[name].quick else []
        code = run(["audit", *CASES[name].words(here, seed), *quick, "--out", out], here)
        found: dict[str, Any] = {"status": "refused", "code": code}
        if code in (0, 1, 7):
            report = json.loads((here / out / "report.json").read_text())
            found = {"code": code, **_told(report), **_named(report)}
        kept.write_text(json.dumps(found, indent=1))
    told: dict[str, Any] = json.loads(kept.read_text())
    return told


def _told(report: dict[str, Any]) -> dict[str, Any]:
    return {"status": report["verdict"]["status"], "reasons": report["verdict"]["reasons"]}


def _named(report: dict[str, Any]) -> dict[str, Any]:
    """Return whether the clients that an attribution flagged are those that are marked."""
    rows = {
        row["metric"]: row["value"]
        for row in report["measurements"]
        if row["metric"] in ("tpr", "fpr") and row["plugin"] == "fed_attr"
    }
    return {"named": rows} if rows else {}


def is_right(name: str, found: dict[str, Any]) -> bool:
    """Return whether a case ended as it should."""
    named = found.get("named", {"tpr": 1.0, "fpr": 0.0})
    return found["status"] in CASES[name].right and (named["tpr"], named["fpr"]) == (1.0, 0.0)


def main() -> None:
    """Audit every case of every seed, and print which verdicts were right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--case", action="append", choices=list(CASES))
    given = parser.parse_args()
    wrong = 0
    for seed in given.seeds:
        here = given.out.absolute() / str(seed)
        here.mkdir(parents=True, exist_ok=True)
        for name in given.case or CASES:
            found = audited(name, here, seed)
            right = is_right(name, found)
            wrong += not right
            print(f"{seed} {name}: {found['status']}{'' if right else ' (WRONG)'}", flush=True)
    print(f"{wrong} wrong", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
