"""The most valuable runs for a GPU that is free for some minutes, in order.

    python benchmarks/gpu_queue.py --out DIR [--base FOLDER] [--minutes 9] [--only NAME ...]
    python benchmarks/gpu_queue.py --list

Each run is a study at `--scale small` with seeds that nothing was tuned on, in DIR/NAME. The next
run starts when cores are idle. Where CUDA's MPS is installed, the processes share the card through
it instead of taking turns; each may then allocate --gigabytes. When the time is up, the runs are
interrupted as by Ctrl-C, and the same command continues them: finished variants are kept. So the
minutes are less than those of the card. DIR/queue.json has each run's seconds and exit code. Exit
codes: 0 all finished, 1 a run failed, 6 call again.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.config import profile as profiles
from fedaudit.reproduction.runner import study_variants, variant_config
from fedaudit.system.files import atomic_text

SCALE = "small"
FINISHED = (0, 1)
"""Exit codes of a study with a report; 1 says that a claim of the paper does not hold."""
INTERRUPTED = 6
STOP_SECONDS = 25
"""How long interrupted runs may take to end before they are killed."""
LOADING_SECONDS = 45
"""How long a run takes to load before its processes keep cores busy."""
IDLE_CORES = 5
"""The next run starts when more cores than these are idle."""
MPS_CONTROL = "nvidia-cuda-mps-control"


@dataclass(frozen=True)
class QueuedRun:
    """A study to run, as the arguments of `fedaudit reproduce`."""

    name: str
    arguments: tuple[str, ...]
    cost: str
    """Its measured cost."""
    page: str = ""
    """The page that `study_tables.py` writes its tables into."""

    def size(self) -> tuple[int, int]:
        """Return the number of variants and of federations, over all seeds."""
        profile = profiles.load(self.arguments[0])
        variants = study_variants(profile, SCALE, "--quick" in self.arguments, own_seeds=False)
        configs = {variant_config(profile, SCALE, one, {}).sha256() for one in variants}
        seeds = int(self.arguments[self.arguments.index("--seeds") + 1])
        return seeds * len(variants), seeds * len(configs)


QUEUE = (
    QueuedRun(
        "cross",
        ("cross", "--quick", "--seeds", "1", "--seed", "1"),
        "13 of 14 variants in 10 minutes of one H200 through MPS, the first after 5.8",
        "docs/real-models.md",
    ),
    QueuedRun("fed_pii", ("fed_pii", "--quick", "--seeds", "3", "--seed", "1"), "not measured"),
    QueuedRun(
        "memorization", ("memorization", "--quick", "--seeds", "3", "--seed", "1"), "not measured"
    ),
    QueuedRun("leak_curves", ("leak_curves", "--seeds", "3", "--seed", "1"), "not measured"),
    QueuedRun(
        "secure_gate", ("secure_gate", "--quick", "--seeds", "1", "--seed", "1"), "not measured"
    ),
    QueuedRun(
        "few_fed_pit", ("few_fed_pit", "--quick", "--seeds", "1", "--seed", "1"), "not measured"
    ),
    QueuedRun("fed_attr", ("fed_attr", "--quick", "--seeds", "3", "--seed", "3"), "not measured"),
)


@dataclass(frozen=True)
class Job:
    """A command of the queue, made for a number of processes."""

    name: str
    most: int
    """The most processes that it can use."""
    command: Callable[[int], Sequence[str]]


def reproduce_job(run: QueuedRun, out: Path, options: Sequence[str]) -> Job:
    """Return the job of a queued run with its report in out/NAME."""

    def command(jobs: int) -> Sequence[str]:
        words = [sys.executable, "-m", "fedaudit", "reproduce", *run.arguments, "--scale", SCALE]
        return [*words, "--jobs", str(jobs), "--out", str(out / run.name), *options]

    return Job(run.name, run.size()[1], command)


def work(
    jobs: Sequence[Job],
    out: Path,
    end: float,
    *,
    cores: int,
    idle_cores: Callable[[], float],
    loading: float = LOADING_SECONDS,
) -> int:
    """Run the jobs that are not finished until time.monotonic() is `end`; return the exit code."""
    record = out / "queue.json"
    state: dict[str, dict[str, Any]] = json.loads(record.read_text()) if record.exists() else {}
    waiting = [job for job in jobs if state.get(job.name, {}).get("exit") not in FINISHED]
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    last = -loading

    def note_ended(name: str, code: int) -> None:
        _, began = running.pop(name)
        before = state.get(name, {}).get("seconds", 0.0)
        state[name] = {"seconds": round(before + time.monotonic() - began, 1), "exit": code}
        atomic_text(record, json.dumps(state, indent=1) + "\n")

    try:
        while (waiting or running) and time.monotonic() < end:
            for name, (process, _) in list(running.items()):
                if process.poll() is not None:
                    note_ended(name, process.returncode)
            idle = idle_cores()
            is_loaded = time.monotonic() - last >= loading
            if waiting and (not running or (is_loaded and idle > IDLE_CORES)):
                job = waiting.pop(0)
                count = min(job.most, cores if not running else int(idle))
                running[job.name] = _start(job.command(count), out / f"{job.name}.log")
                last = time.monotonic()
    finally:
        for process, _ in running.values():
            process.send_signal(signal.SIGINT)
        until = time.monotonic() + STOP_SECONDS
        for name, (process, _) in list(running.items()):
            try:
                process.wait(max(until - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            code = process.returncode  # one that was still loading ends by the signal
            note_ended(name, code if code in FINISHED else INTERRUPTED)
    codes = [state.get(job.name, {}).get("exit", INTERRUPTED) for job in jobs]
    if any(code not in (*FINISHED, INTERRUPTED) for code in codes):
        return 1
    return 0 if all(code in FINISHED for code in codes) else INTERRUPTED


def _start(command: Sequence[str], log: Path) -> tuple[subprocess.Popen[bytes], float]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    return process, time.monotonic()


def idle_cores(seconds: float = 4.0) -> float:
    """Return how many cores were idle during the next `seconds`."""
    busy, total = _processor_time()
    time.sleep(seconds)
    busy_later, total_later = _processor_time()
    share = (busy_later - busy) / max(total_later - total, 1)
    return (os.cpu_count() or 1) * (1 - share)


def _processor_time() -> tuple[int, int]:
    """Return the ticks that all cores were busy since the start, and all ticks."""
    first = Path("/proc/stat").read_text().splitlines()[0]
    ticks = [int(word) for word in first.split()[1:9]]
    idle = ticks[3] + ticks[4]  # idle, and waiting for a disk
    return sum(ticks) - idle, sum(ticks)


@contextmanager
def shared_card(gigabytes: int) -> Iterator[bool]:
    """Let processes share the card through MPS where it is installed; give whether they do."""
    control = shutil.which(MPS_CONTROL, path=f"{os.environ['PATH']}:/usr/local/nvidia/bin")
    if control is None:
        yield False
        return
    with tempfile.TemporaryDirectory() as folder:  # a socket's path must be short
        settings = {
            "CUDA_MPS_PIPE_DIRECTORY": folder,
            "CUDA_MPS_LOG_DIRECTORY": folder,
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={gigabytes}G",
        }
        with _environment(settings):
            subprocess.run([control, "-d"], check=True, timeout=60)
            try:
                yield True
            finally:
                subprocess.run([control], input=b"quit\n", check=False, timeout=60)


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def arguments() -> argparse.Namespace:
    """Return the user's choices."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for runs and results")
    parser.add_argument("--base", help="the model's folder, if there is no hub")
    parser.add_argument("--minutes", type=float, default=9.0, help="to be over by then")
    parser.add_argument("--only", nargs="+", choices=[run.name for run in QUEUE], metavar="NAME")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--gigabytes", type=int, default=5, help="card memory of a process (MPS)")
    parser.add_argument("--list", action="store_true", help="show the queue and end")
    given = parser.parse_args()
    if not given.list and given.out is None:
        parser.error("--out is needed")
    return given


def main() -> int:
    """Show the queue, or work through it."""
    began, given = time.monotonic(), arguments()
    chosen = [run for run in QUEUE if not given.only or run.name in given.only]
    if given.list:
        for run in chosen:
            variants, federations = run.size()
            print(f"{run.name}: {variants} variants on {federations} federations; {run.cost}")
        return 0
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    options = ["--device", given.device, *(["--set", f"base={given.base}"] if given.base else [])]
    jobs = [reproduce_job(run, out, options) for run in chosen]
    end = began + 60 * given.minutes - STOP_SECONDS
    one_thread = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with _environment(one_thread), shared_card(given.gigabytes) as shares:
        print("Processes share the card through MPS." if shares else "There is no MPS here.")
        code = work(jobs, out, end, cores=os.cpu_count() or 1, idle_cores=idle_cores)
    for run in chosen:
        report = out / run.name / "report.json"
        if run.page and report.exists():
            print(f"python benchmarks/study_tables.py {report} {run.page}")
    return code


if __name__ == "__main__":
    sys.exit(main())
