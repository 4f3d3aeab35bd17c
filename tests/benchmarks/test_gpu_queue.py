"""The queue for a GPU starts its runs in order, stops in time, and continues what it began."""

import json
import os
import runpy
import sys
import time
from pathlib import Path

import pytest

made = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/gpu_queue.py"))
Job, work = made["Job"], made["work"]


def script(name, text, most=4):
    return Job(name, most, lambda jobs: [sys.executable, "-c", text, str(jobs)])


def run_all(jobs, out, *, seconds=20.0, idle=16.0):
    def idle_cores():
        time.sleep(0.01)
        return idle

    end = time.monotonic() + seconds
    return work(jobs, out, end, cores=16, idle_cores=idle_cores, loading=0.0)


def state(out):
    return json.loads((out / "queue.json").read_text())


NOTE = "import pathlib, sys; open(r'{}', 'a').write('{} ' + sys.argv[1] + '\\n')"


def test_runs_start_in_order_with_the_processes_that_they_can_use(tmp_path):
    notes = tmp_path / "notes"
    jobs = [
        script("a", NOTE.format(notes, "a"), 14),
        script("b", NOTE.format(notes, "b") + "; sys.exit(1)", 99),
    ]
    assert run_all(jobs, tmp_path, idle=0.0) == 0  # a study whose claim does not hold is finished
    assert notes.read_text() == "a 14\nb 16\n"
    assert [state(tmp_path)[name]["exit"] for name in "ab"] == [0, 1]
    assert run_all(jobs, tmp_path) == 0
    assert notes.read_text() == "a 14\nb 16\n", "finished runs were run again"


def test_the_next_run_starts_beside_one_that_leaves_cores_idle(tmp_path):
    notes = tmp_path / "notes"
    wait = f"import os, time\nwhile not os.path.exists(r'{notes}'): time.sleep(0.01)"
    jobs = [script("waits", wait), script("b", NOTE.format(notes, "b"), 9)]
    assert run_all(jobs, tmp_path, idle=7.9) == 0
    assert notes.read_text() == "b 7\n"


def test_a_run_without_time_is_interrupted_and_continued(tmp_path):
    begun = tmp_path / "begun"
    text = (
        "import os, sys, time\n"
        f"if os.path.exists(r'{begun}'): sys.exit(0)\n"
        "try:\n"
        f"    open(r'{begun}', 'w').close(); time.sleep(60)\n"
        "except KeyboardInterrupt: sys.exit(6)"
    )
    assert run_all([script("long", text)], tmp_path, seconds=1.0) == 6
    first = state(tmp_path)["long"]
    assert first["exit"] == 6
    assert run_all([script("long", text)], tmp_path) == 0
    assert state(tmp_path)["long"]["seconds"] >= first["seconds"]


def test_a_run_that_fails_is_told_and_does_not_stop_the_others(tmp_path):
    jobs = [script("bad", "raise SystemExit(3)"), script("good", "pass")]
    assert run_all(jobs, tmp_path) == 1
    assert state(tmp_path)["good"]["exit"] == 0


def test_mps_is_started_and_stopped(tmp_path, monkeypatch):
    log, control = tmp_path / "log", tmp_path / "nvidia-cuda-mps-control"
    control.write_text(f'#!/bin/sh\n[ "$1" = -d ] && echo start >> {log} || cat >> {log}\n')
    control.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with made["shared_card"](5) as shares:
        assert shares
        assert os.environ["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=5G"
        assert log.read_text() == "start\n"
    assert log.read_text() == "start\nquit\n"
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


@pytest.mark.parametrize("run", made["QUEUE"], ids=lambda run: run.name)
def test_each_queued_study_exists_at_this_scale_and_its_page_takes_tables(run, tmp_path):
    variants, federations = run.size()
    assert variants >= federations > 0
    job = made["reproduce_job"](run, tmp_path, ["--device", "cpu"])
    command = job.command(3)
    assert command[2:4] == ["fedaudit", "reproduce"]
    assert command[command.index("--jobs") + 1] == "3"
    if run.page:
        text = (Path(__file__).parents[2] / run.page).read_text()
        assert any(mark in text for mark in (made_tables["TRADEOFFS"][0], made_tables["CLAIMS"][0]))


made_tables = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/study_tables.py"))
