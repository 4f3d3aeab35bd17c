"""What is tried in a process with limits ends there, and only there."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from fedaudit.api.errors import InputError
from fedaudit.system import sandbox


@pytest.fixture(autouse=True, params=[True, False] if sandbox.FORKS else [False])
def importable(request, monkeypatch):
    """Trials of `trials`, in forks of one process as well as in processes of their own."""
    path = str(Path(__file__).parents[1] / "helpers")
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setattr(sandbox, "FORKS", request.param)
    if not request.param:
        code = "from fedaudit.system import sandbox; sandbox.FORKS = False; sandbox.serve()"
        monkeypatch.setattr(sandbox, "_COMMAND", (sys.executable, "-P", "-c", code))


one_way = pytest.mark.parametrize("importable", [sandbox.FORKS], indirect=True)
"""For what is the same however a trial's process began."""


def attempt(name, asked=None, **limits):
    return sandbox.attempt(f"trials.{name}", asked, **{"seconds": 5.0, **limits})


def test_what_ends_well_gives_its_answer_and_nothing_else(capfd):
    assert attempt("squared", 12) == 144
    assert capfd.readouterr() == ("", "")


def test_what_raises_is_left_to_the_caller():
    assert attempt("raising") is None


def test_an_input_that_is_refused_there_is_refused_here():
    with pytest.raises(InputError, match=r"^x\.json is nothing\.$"):
        attempt("refusing", "x.json")


def test_a_module_is_as_if_there_were_none():
    assert attempt("squared", 2, without=["fractions"]) == 4
    assert attempt("without_json", without=["fractions"]) is None


@pytest.mark.parametrize("importable", [False], indirect=True)
def test_what_never_ends_is_ended():
    began = time.monotonic()
    with pytest.raises(sandbox.TrialEnded, match=r"^the clock: it takes over 1 seconds$"):
        attempt("busy", seconds=1.0)
    assert time.monotonic() - began < 30


@one_way
def test_each_trial_begins_as_the_first_did(tmp_path, monkeypatch):
    """Its limits, its time on a processor, its working folder and its memory are its own."""
    first = attempt("begins", seconds=2.0)
    assert first["seen"] == 1
    with pytest.raises(sandbox.TrialEnded, match=r"^the clock: it takes over 1 seconds$"):
        attempt("busy", seconds=1.0)
    assert attempt("begins", seconds=2.0) == first
    monkeypatch.chdir(tmp_path)
    assert attempt("begins", seconds=2.0, memory=2**29) == {
        **first, "folder": str(tmp_path), "memory": 2**29
    }  # fmt: skip


def test_trials_are_forks_of_one_process_as_long_as_it_lives():
    parents = [attempt("parent") for _ in range(2)]
    assert parents[0] == parents[1]
    assert (parents[0] == os.getpid()) != sandbox.FORKS
    if sandbox.FORKS:
        os.kill(parents[0], signal.SIGKILL)
        os.waitid(os.P_PID, parents[0], os.WEXITED | os.WNOWAIT)
        assert attempt("parent") not in (parents[0], os.getpid())


def test_memory_has_a_limit():
    assert attempt("greedy", 2**26) == 2**26
    with pytest.raises(sandbox.TrialEnded, match=r"the memory: it takes over 0\.5 GiB of memory"):
        attempt("greedy", 2**30, memory=2**29)


@pytest.mark.parametrize(("name", "how"), [("aborting", "SIGABRT"), ("leaving", "exit code 0")])
def test_a_process_that_ends_on_its_own_is_told(name, how):
    with pytest.raises(sandbox.TrialEnded, match=how) as ended:
        attempt(name)
    assert ended.value.step == {"aborting": "the end", "leaving": "the exit"}[name]


@pytest.mark.skipif(not sandbox.version(), reason="the kernel has no Landlock")
def test_nothing_is_written_started_or_connected(tmp_path):
    (tmp_path / "old").write_text("as it was")
    done = attempt("forbidden", str(tmp_path))
    assert done == ([] if sandbox.version() >= 4 else ["connected"])
    assert [path.read_text() for path in tmp_path.iterdir()] == ["as it was"]


@one_way
def test_without_landlock_it_goes_on(monkeypatch):
    monkeypatch.setattr(sandbox, "version", lambda: 0)
    assert sandbox.restrict() == 0


def test_a_trial_imports_nothing_from_the_working_directory(monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("open('witness', 'w')")
    monkeypatch.chdir(tmp_path)
    assert attempt("squared", 3) == 9
    assert os.listdir(tmp_path) == ["json.py"]


def receive(asked, places, name="giving", **limits):
    limits = {"seconds": 5.0, "most": 100, **limits}
    return sandbox.receive(f"trials.{name}", asked, places, **limits)


def test_files_that_a_trial_gives_away_are_written_here(tmp_path):
    places = [tmp_path / "a", tmp_path / "below" / "b"]
    assert receive([[1, "two\nlines\n{}"], [0, ""]], places) == 2
    assert [place.read_text() for place in places] == ["", "two\nlines\n{}"]


@one_way
def test_a_file_that_is_too_large_is_not_written(tmp_path):
    with pytest.raises(InputError, match=r"a would have 101 bytes, over 100\.$"):
        receive([[0, "x" * 101]], [tmp_path / "a"])
    assert list(tmp_path.iterdir()) == []


@one_way
def test_a_file_that_is_not_given_is_missed(tmp_path):
    with pytest.raises(sandbox.TrialEnded, match=r"^it gave no b$"):
        receive([[0, "x"]], [tmp_path / "a", tmp_path / "b"])


@one_way
def test_what_ends_while_it_gives_is_told(tmp_path):
    with pytest.raises(sandbox.TrialEnded, match="SIGABRT"):
        receive(None, [tmp_path / "a"], "aborting")


@one_way
@pytest.mark.parametrize("place", [1, -1])
def test_a_file_that_was_not_asked_for_is_refused(tmp_path, place):
    with pytest.raises(sandbox.TrialEnded, match=r"^it named a file that was not asked for$"):
        receive([[place, "x"]], [tmp_path / "a"])
    assert list(tmp_path.iterdir()) == []


@one_way
@pytest.mark.parametrize("size", ["-1", "1.5", '"x"', "null"])
def test_a_file_of_impossible_size_is_refused(tmp_path, size):
    with pytest.raises(sandbox.TrialEnded, match="not asked for"):
        receive(f'{{"place": 0, "bytes": {size}}}\n', [tmp_path / "a"], "shouting")


@one_way
def test_what_is_said_besides_is_not_heard():
    assert attempt("shouting", '5\n[{"answer": 2}]\n{"ans\n') == 1


@one_way
@pytest.mark.parametrize(("code", "how"), [(-40, "signal 40"), (-11, "SIGSEGV"), (3, "code 3")])
def test_every_end_of_a_process_has_a_name(code, how):
    assert how in sandbox._exit_reason(code, 1.0, sandbox.MEMORY)
