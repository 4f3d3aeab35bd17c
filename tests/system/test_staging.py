"""What killed writes left goes; everything that users may have put beside it stays."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedaudit import cli
from fedaudit.system.files import atomic, atomic_folder
from fedaudit.system.staging import MARK, remove_stale_stages

KILLED = """
import os, signal, sys
from pathlib import Path

from fedaudit.system.files import atomic, atomic_folder

with (atomic_folder if sys.argv[2] == "folder" else atomic)(Path(sys.argv[1])) as draft:
    (draft / "data" if draft.is_dir() else draft).write_text("half")
    (draft.parent / ".tmpljVey7").write_text("of safetensors, which renames a file of its own")
    os.kill(os.getpid(), signal.SIGKILL)
"""
USERS = (
    *(".env.template", ".secrets.original", ".tmpabcdef", ".run.original/x", ".run.abcdefgh/x"),
    *(".fedaudit-notes/x", f".fedaudit-1-{'0' * 16}/x", ".fedaudit.toml", ".fedaudit-1-0", "a/.b"),
)
"""Files whose names look like those of unfinished files, as far as users can know them."""


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_only_the_stages_of_killed_processes_are_removed(tmp_path, kind):
    for name in USERS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("precious")
    for parent in (tmp_path, tmp_path / "a"):
        child = [sys.executable, "-c", KILLED, str(parent / "run"), kind]
        assert subprocess.run(child, check=False).returncode == -9
    left = [name for name in names(tmp_path) if name not in USERS]
    assert len(left) == 6  # in each folder a mark, half a file, and one of safetensors
    remove_stale_stages(tmp_path)
    assert len([name for name in names(tmp_path) if name not in USERS]) == 3
    remove_stale_stages(tmp_path, below=True)
    assert names(tmp_path) == sorted(USERS)


@pytest.mark.parametrize("writer", [atomic, atomic_folder])
def test_a_stage_whose_removal_is_interrupted_goes_before_the_process_ends(
    tmp_path, monkeypatch, writer
):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path / "place")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt), writer(Path("run")):
            pass
    monkeypatch.chdir(tmp_path)
    assert names(tmp_path / "place/")
    monkeypatch.setattr(sys, "argv", ["fedaudit", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    assert [path.name for path in (tmp_path / "place").iterdir()] == ["run"]


@pytest.mark.parametrize("other", ["link", "x/../place"])
def test_what_is_being_written_stays_under_another_name_of_its_folder(tmp_path, other):
    for name in ("place", "x"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("place")
    with atomic(tmp_path / "place/run") as draft:
        draft.write_text("whole")
        remove_stale_stages(tmp_path / other)
    assert (tmp_path / "place/run").read_text() == "whole"


@pytest.mark.parametrize("writer", [atomic, atomic_folder])
def test_what_is_being_written_stays(tmp_path, writer):
    with writer(tmp_path / "run") as draft:
        (draft / "x" if draft.is_dir() else draft).write_text("half")
        remove_stale_stages(tmp_path)
        other = subprocess.run(
            [sys.executable, "-c", "import sys, pathlib; "
             "from fedaudit.system.staging import remove_stale_stages; "
             "remove_stale_stages(pathlib.Path(sys.argv[1]))", str(tmp_path)],
            check=True,
        )  # fmt: skip
        assert other.returncode == 0
        assert draft.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_stage_whose_mark_is_not_its_name_or_a_link_stays(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "here").mkdir()
    name = f".fedaudit-{2**22 + 1}-{'0' * 16}"  # above the largest process id
    (outside / MARK).write_text(name)
    (tmp_path / "here" / name).symlink_to(outside)
    renamed = tmp_path / "here" / name.replace("00", "11")
    renamed.mkdir()
    (renamed / MARK).write_text(name)
    empty = tmp_path / "here" / name.replace("00", "22")
    empty.mkdir()
    remove_stale_stages(tmp_path / "here")
    assert sorted(os.listdir(tmp_path / "here")) == sorted([name, renamed.name])
    assert (outside / MARK).exists()
