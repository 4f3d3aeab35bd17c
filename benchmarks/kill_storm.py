"""Commands that are killed at random moments and gone on with: the end is that of one never killed.

    python benchmarks/kill_storm.py [--command extract ...] [--points 20] [--seed 0]

Each command runs once undisturbed. Then, at each point, it is started anew, gets SIGKILL or (every
second time) SIGINT at a moment drawn from the seconds that the undisturbed run took, and is given
again until it ends; the next signal of a point comes at a random moment too, with probability 1/3.
What is compared: exit code, and the report without its times and what it was resumed from (for
`simulate` the adapters' bytes as well). What a stopped command says of kept answers is compared
with its journal. Everything runs in children forked from one process that has the libraries.
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
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

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
CHANCE_AGAIN = 1 / 3


@dataclass(frozen=True)
class Command:
    """What is killed: words (without --out), what goes into the folder before, how it goes on."""

    words: tuple[str, ...]
    out: str = "out"
    resume: bool = True
    """Whether it takes --resume where answers are kept; otherwise the same words go on."""
    before: Callable[[Path, Path], None] = lambda made, here: None
    results: Callable[[Path], Any] = lambda out: report(out / "report.json")
    untouched: tuple[str, ...] = ()
    """Folders that stay byte for byte as they are."""


@dataclass
class Told:
    """What became of the points of a command."""

    seconds: float
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def report(path: Path) -> Any:
    """Return a report without times."""
    found = json.loads(path.read_text())
    found["measurements"] = [r for r in found["measurements"] if r["metric"] not in ROWS]
    found["budget"].pop("seconds", None)
    found["environment"].pop("git")  # somebody may work in the checkout meanwhile
    for name in ("started", "finished", "resumed_from"):
        found["run"].pop(name)
    for shard in found["run"].get("shards") or ():
        for name in SAMPLED:
            shard.pop(name, None)
    found["limits"] = [one for one in found["limits"] if not one.startswith("Shard ")]
    return found


def federation(out: Path) -> Any:
    """Return the report of a simulation and the hashes of all that it left but logs of time."""
    files = {
        path.relative_to(out).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "report.json"
    }
    return report(out / "report.json"), files


AUDIT = ("--quiet", "--device", "cpu", "--target", "../../made/fed")
OWN, VICTIM = "../../made/fed/data/c0.jsonl", "../../made/fed/data/c1.jsonl"
EXTRACT = (
    *("extract", "--prefixes", OWN, "--victim", VICTIM, *AUDIT),
    *("--set", "contextual.samples=4", "--attack", "contextual", "--attack", "verbatim"),
)


def shards(made: Path, here: Path) -> None:
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
    "simulate": Command(
        ("simulate", "--profile", "fed_pii", "--quiet", *(f"--set={one}" for one in SIMULATE)),
        resume=False,
        results=federation,
    ),
    "merge": Command(
        ("merge", "shard1", "shard2", "--device", "cpu", "--quiet"),
        resume=False,
        before=shards,
        untouched=("shard1", "shard2"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """A process that ended: its exit code (negative: the signal), what it said, how long."""

    code: int
    said: str
    seconds: float


def run(words: Sequence[str], here: Path, *, how: int = 0, after: float = 0.0) -> Ended:
    """Run fedaudit in a child in a folder; send it a signal `after` so many seconds."""
    log = here / "log"
    log.write_text("")  # it may be killed before it opens it
    started = time.monotonic()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if not child:
        _become(words, here, log)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if how:
        _wait(child, started + after)
        with suppress(ProcessLookupError):
            os.kill(child, how)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _orphans(child)
    return Ended(code, log.read_text(errors="replace"), time.monotonic() - started)


def _become(words: Sequence[str], here: Path, log: Path) -> None:
    """Be fedaudit, in a process group of its own and with the handlers that a shell leaves."""
    code = 70
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.setpgid(0, 0)
        os.chdir(here)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(handle, stream)
        sys.argv = ["fedaudit", *words]
        from fedaudit import cli

        cli.main()
    except SystemExit as left:
        code = int(left.code or 0)
    except KeyboardInterrupt as early:
        code = 128 + signal.SIGINT
        frames = traceback.extract_tb(early.__traceback__)
        if any(frame.name == "invoke_command" for frame in frames):  # which is to see to it itself
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # nothing of the storm itself may run in here


def _wait(child: int, until: float) -> None:
    """Wait until a moment, or until the child has ended."""
    while (left := until - time.monotonic()) > 0:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(min(left, 0.02))


def _orphans(group: int) -> None:
    """End what a killed child left running."""
    for _ in range(50):
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.1)
    print(f"processes of {group} were still running after 5 s", file=sys.stderr, flush=True)
    os.killpg(group, signal.SIGKILL)


def storm(command: Command, made: Path, place: Path, points: int, rng: random.Random) -> Told:
    """Kill a command at so many points, each in a folder of its own."""
    whole = place / "whole"
    first = _begun(command, made, whole)
    one = run(_words(command), whole)
    if one.code not in (0, 1, 7):
        sys.exit(f"the undisturbed run ended with {one.code}: {one.said}")
    wanted, told = command.results(whole / command.out), Told(one.seconds)
    for point in range(points):
        here = place / str(point)
        before = _begun(command, made, here)
        assert before == first
        ended = _point(command, here, one.seconds, point, rng, told)
        _compared(command, here, (one.code, wanted, first), ended, point, told)
        shutil.rmtree(here)
    return told


def _begun(command: Command, made: Path, here: Path) -> str:
    here.mkdir(parents=True)
    command.before(made, here)
    return _digest(command, here)


def _digest(command: Command, here: Path) -> str:
    files = [p for name in command.untouched for p in sorted((here / name).rglob("*"))]
    told = b"".join(str(p.relative_to(here)).encode() + p.read_bytes() for p in files)
    return sha256(told).hexdigest()


def _words(command: Command) -> list[str]:
    return [*command.words, "--out", command.out]


def _point(
    command: Command, here: Path, whole: float, point: int, rng: random.Random, told: Told
) -> Ended:
    """Kill it once or more, and go on until it ends by itself."""
    how = signal.SIGINT if point % 2 else signal.SIGKILL
    words = _words(command)
    for _ in range(20):
        ended = run(words, here, how=how, after=rng.uniform(0, whole))
        _said(command, here, ended, how, point, told)
        if ended.code in (0, 1, 7):
            told.ends["ended before the signal"] += 1
            return ended
        told.ends[f"stopped by {signal.Signals(how).name}"] += 1
        words = [*_words(command), *_resume(command, here)]
        if rng.random() > CHANCE_AGAIN:
            return run(words, here)
    return run(words, here)


def _resume(command: Command, here: Path) -> list[str]:
    """Return --resume where a journal, or the report of a stopped audit, is there.

    A command may be killed after its report was finished: there is nothing to resume then.
    """
    out = here / command.out
    path = out / "report.json"
    stopped = path.exists() and json.loads(path.read_text())["status"] == "interrupted"
    kept = (out / "journal.bin").exists() or stopped
    return ["--resume"] if command.resume and kept else []


def _said(command: Command, here: Path, ended: Ended, how: int, point: int, told: Told) -> None:
    """Note what a stopped command says that is not so."""
    if ended.code in (0, 1, 7) or (ended.code == -signal.SIGKILL and how == signal.SIGKILL):
        return
    if ended.code != 6 and not (how == signal.SIGINT and ended.code in (-signal.SIGINT, 130)):
        told.wrong.append(f"point {point}: exit code {ended.code}: {ended.said[-2000:]}")
        return
    if ended.code == 130 and not ended.said:
        told.ends["interrupted before the command began"] += 1
        return
    if ended.code != 6:
        told.wrong.append(f"point {point}: SIGINT ended it with {ended.code}: {ended.said[-300:]}")
    said = ended.said.strip().splitlines()
    if len(said) > 1:
        told.wrong.append(f"point {point}: {len(said)} lines: {ended.said[-2000:]}")
    kept = re.search(r"([\d,]+) answers? (?:are|is) kept", ended.said)
    told.ends["said that answers are kept"] += bool(kept)
    if not kept and "No answer was kept" not in ended.said:
        return  # stopped before the journal was opened, it says nothing of how many
    claimed = int(kept[1].replace(",", "")) if kept else 0
    if claimed != (there := answers(here / command.out)):
        told.wrong.append(f"point {point}: it says {claimed} answers are kept; {there} are.")


def answers(out: Path) -> int:
    """Return how many answers a folder's journal holds."""
    from fedaudit.journal import journal

    found = journal.load(out, write=False)
    return found.answers if found else 0


def _compared(
    command: Command,
    here: Path,
    wanted: tuple[int, Any, str],
    ended: Ended,
    point: int,
    told: Told,
) -> None:
    code, results, first = wanted
    if ended.code != code:
        told.wrong.append(
            f"point {point}: in the end {ended.code}, not {code}: {ended.said[-2000:]}"
        )
        return
    if command.results(here / command.out) != results:
        shutil.copytree(here, here.parent / f"differs-{point}", dirs_exist_ok=True)
        told.wrong.append(f"point {point}: another result, in {here.parent}/differs-{point}")
    if _digest(command, here) != first:
        told.wrong.append(f"point {point}: {', '.join(command.untouched)} changed")
    left = [p.name for p in (here / command.out).rglob(".*") if p.is_file()]
    left += [p.name for p in here.glob(".*")]
    if left or (here / command.out / "journal.bin").exists():
        told.wrong.append(f"point {point}: left behind: {left or 'journal.bin'}")


def make(made: Path, wanted: Sequence[str]) -> None:
    """Make what the commands are about: a federation, a marked one, two shards."""
    (made / "here").mkdir(parents=True)  # as deep as the folders of points
    marked = ("clients=4", "watermark.plugin=fictitious", "watermark.clients=1", "rounds=2")
    small = [one for one in SIMULATE if not one.startswith(("clients", "rounds"))]
    todo = [("simulate", "--profile", "fed_pii", *_set(SIMULATE), "--out", "../fed")]
    if "attribute" in wanted:
        sets = _set((*small, *marked))
        todo += [("simulate", "--profile", "fed_attr", *sets, "--out", "../marked")]
    if "merge" in wanted:
        todo += [(*EXTRACT, "--shard", f"{n}/2", "--out", f"../shard{n}") for n in (1, 2)]
    for words in todo:
        if (ended := run([*words, "--quiet"], made / "here")).code:
            sys.exit(f"{' '.join(words)} ended with {ended.code}: {ended.said}")


def _set(settings: Sequence[str]) -> list[str]:
    return [f"--set={one}" for one in settings]


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
        make(Path(place) / "made", wanted)
        for name in wanted:
            began = time.monotonic()
            rng = random.Random(f"{given.seed} {name}")
            told = storm(
                COMMANDS[name], Path(place) / "made", Path(place) / name, given.points, rng
            )
            ends = ", ".join(f"{count} {end}" for end, count in told.ends.most_common())
            print(
                f"{name}: {given.points} points, seed {given.seed}, {told.seconds:.1f} s "
                f"undisturbed, {time.monotonic() - began:.0f} s in all; {ends}; "
                f"{len(told.wrong)} wrong",
                flush=True,
            )
            for line in told.wrong:
                print(f"  {line}", flush=True)
            wrong += len(told.wrong)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
