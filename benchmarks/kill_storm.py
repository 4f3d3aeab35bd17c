"""Commands killed at random moments and resumed must end like runs that nothing disturbed.

    python benchmarks/kill_storm.py [--command extract ...] [--points 20] [--seed 0]

Each command runs once undisturbed. Then, at each point, it is started anew, stopped by SIGKILL or
(every second time) SIGINT at a random moment of the undisturbed run's time, and resumed until it
ends; with probability 1/3 it is stopped again. The exit codes must be equal, and so must the
reports, apart from times and what was resumed (for `simulate` the adapters' bytes as well). Files
of the user's, whose names resemble fedaudit's, lie beside the output from the start and within it
from the first kill on, and must stay. The number of kept answers that a stopped command names must
be that in its cache. All commands run in children forked from one process that has imported the
libraries.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from child_process import FinishedProcess, run
from storm_commands import COMMANDS, Command, make_inputs

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

CHANCE_AGAIN = 1 / 3
OF_THE_USER = (
    ".env.template",
    ".out.original",
    ".out.settings",
    ".tmpabcdef",
    ".fedaudit-1-thesis",
)
"""Names of a user's files, as those of fedaudit's own once were."""


@dataclass
class StormResult:
    """How a command's stopped runs ended, and what was wrong with them."""

    seconds: float
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def run_storm(
    command: Command, made: Path, place: Path, points: int, rng: random.Random
) -> StormResult:
    """Kill a command at so many points, each in a folder of its own."""
    whole = place / "whole"
    first = _prepare_folder(command, made, whole)
    undisturbed = run(_words(command), whole)
    if undisturbed.code not in (0, 1, 7):
        sys.exit(f"the undisturbed run ended with {undisturbed.code}: {undisturbed.output}")
    wanted, result = command.results(whole / command.out), StormResult(undisturbed.seconds)
    for point in range(points):
        here = place / str(point)
        before = _prepare_folder(command, made, here)
        assert before == first
        process = _kill_and_resume(command, here, undisturbed.seconds, point, rng, result)
        _compare_results(command, here, (undisturbed.code, wanted, first), process, point, result)
        shutil.rmtree(here)
    return result


def _prepare_folder(command: Command, made: Path, here: Path) -> str:
    here.mkdir(parents=True)
    command.before(made, here)
    _put_files(here)
    return _digest(command, here)


def _put_files(folder: Path) -> None:
    for name in OF_THE_USER:
        (folder / name).write_text(f"mine: {name}")


def _take_files(folder: Path) -> list[str]:
    """Remove a user's files; return the names of those that are missing or were changed."""
    lost = []
    for path in [folder / name for name in OF_THE_USER]:
        if not path.is_file() or path.read_text() != f"mine: {path.name}":
            lost.append(path.name)
        path.unlink(missing_ok=True)
    return lost


def _digest(command: Command, here: Path) -> str:
    files = [p for name in command.untouched for p in sorted((here / name).rglob("*"))]
    content = b"".join(str(p.relative_to(here)).encode() + p.read_bytes() for p in files)
    return sha256(content).hexdigest()


def _words(command: Command) -> list[str]:
    return [*command.words, "--out", command.out]


def _kill_and_resume(
    command: Command, here: Path, whole: float, point: int, rng: random.Random, result: StormResult
) -> FinishedProcess:
    """Kill the command once or more, and resume it until it ends by itself."""
    stop_signal = signal.SIGINT if point % 2 else signal.SIGKILL
    words = _words(command)
    for _ in range(20):
        process = run(words, here, signal_number=stop_signal, after=rng.uniform(0, whole))
        _check_message(command, here, process, stop_signal, point, result)
        if process.code in (0, 1, 7):
            result.ends["ended before the signal"] += 1
            return process
        result.ends[f"stopped by {signal.Signals(stop_signal).name}"] += 1
        out = here / command.out
        if out.is_dir() and any(not path.name.startswith(".") for path in out.iterdir()):
            _put_files(out)
        words = [*_words(command), *_resume(command, here)]
        if rng.random() > CHANCE_AGAIN:
            return run(words, here)
    return run(words, here)


def _resume(command: Command, here: Path) -> list[str]:
    """Return --resume where a cache of answers, or the report of a stopped audit, is there.

    A command may be killed after its report was finished: there is nothing to resume then.
    """
    out = here / command.out
    path = out / "report.json"
    stopped = path.exists() and json.loads(path.read_text())["status"] == "interrupted"
    kept = (out / "answers.sqlite").exists() or stopped
    return ["--resume"] if command.resume and kept else []


def _check_message(
    command: Command,
    here: Path,
    process: FinishedProcess,
    stop_signal: int,
    point: int,
    result: StormResult,
) -> None:
    """Note what a stopped command says that is not true."""
    if process.code in (0, 1, 7) or (
        process.code == -signal.SIGKILL and stop_signal == signal.SIGKILL
    ):
        return
    if process.code != 6 and not (
        stop_signal == signal.SIGINT and process.code in (-signal.SIGINT, 130)
    ):
        result.wrong.append(f"point {point}: exit code {process.code}: {process.output[-2000:]}")
        return
    if process.code == 130 and not process.output:
        result.ends["interrupted before the command began"] += 1
        return
    if process.code != 6:
        result.wrong.append(
            f"point {point}: SIGINT ended it with {process.code}: {process.output[-300:]}"
        )
    lines = process.output.strip().splitlines()
    if len(lines) > 1:
        result.wrong.append(f"point {point}: {len(lines)} lines: {process.output[-2000:]}")
    kept = re.search(r"([\d,]+) answers? (?:are|is) kept", process.output)
    result.ends["said that answers are kept"] += bool(kept)
    if not kept and "No answer was kept" not in process.output:
        return  # stopped before the cache was opened, it says nothing of how many
    claimed = int(kept[1].replace(",", "")) if kept else 0
    if claimed != (there := answers(here / command.out)):
        result.wrong.append(f"point {point}: it says {claimed} answers are kept; {there} are.")


def answers(out: Path) -> int:
    """Return how many answers a folder's cache has."""
    from fedaudit.cache.answers import load

    found = load(out, write=False)
    return found.answers if found else 0


def _compare_results(
    command: Command,
    here: Path,
    wanted: tuple[int, Any, str],
    process: FinishedProcess,
    point: int,
    result: StormResult,
) -> None:
    code, results, first = wanted
    for folder in (here, here / command.out):
        present = any((folder / name).exists() for name in OF_THE_USER)
        if (folder == here or present) and (lost := _take_files(folder)):
            result.wrong.append(f"point {point}: lost of the user's in {folder.name}: {lost}")
    if process.code != code:
        result.wrong.append(
            f"point {point}: in the end {process.code}, not {code}: {process.output[-2000:]}"
        )
        return
    if command.results(here / command.out) != results:
        shutil.copytree(here, here.parent / f"differs-{point}", dirs_exist_ok=True)
        result.wrong.append(f"point {point}: another result, in {here.parent}/differs-{point}")
    if _digest(command, here) != first:
        result.wrong.append(f"point {point}: {', '.join(command.untouched)} changed")
    left = [p.name for p in (here / command.out).rglob(".*") if p.is_file()]
    left += [p.name for p in here.glob(".*")]
    if left or (here / command.out / "answers.sqlite").exists():
        result.wrong.append(f"point {point}: left behind: {left or 'answers.sqlite'}")


def main() -> None:
    """Storm the commands and print what became of them; exit code 1 where anything is wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--command", action="append", choices=list(COMMANDS))
    options.add_argument("--points", type=int, default=20)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    wanted = given.command or list(COMMANDS)
    import torch

    import fedaudit.engine.local  # noqa: F401 - children find it imported

    torch.set_num_threads(1)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="kill-storm-") as place:
        os.environ["FEDAUDIT_CONFIG"] = str(Path(place) / "configuration")
        make_inputs(Path(place) / "made", wanted)
        for name in wanted:
            began = time.monotonic()
            rng = random.Random(f"{given.seed} {name}")
            result = run_storm(
                COMMANDS[name], Path(place) / "made", Path(place) / name, given.points, rng
            )
            ends = ", ".join(f"{count} {end}" for end, count in result.ends.most_common())
            print(
                f"{name}: {given.points} points, seed {given.seed}, {result.seconds:.1f} s "
                f"undisturbed, {time.monotonic() - began:.0f} s in all; {ends}; "
                f"{len(result.wrong)} wrong",
                flush=True,
            )
            for line in result.wrong:
                print(f"  {line}", flush=True)
            wrong += len(result.wrong)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
