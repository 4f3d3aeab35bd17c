"""Locks keep other processes out, and leave nothing behind."""

import subprocess
import sys

import pytest

from fedaudit.api.errors import InputError
from fedaudit.system.locks import locked

HOLDER = """
import sys
from pathlib import Path

from fedaudit.system.locks import locked

with locked(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_keeps_others_out_and_goes_with_its_process(tmp_path):
    path = tmp_path / "new/.lock"
    for end in ("kill", "close"):
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(InputError, match=r"^busy$"), locked(path, "busy"):
                pass
            assert path.exists()
            if end == "kill":
                holder.kill()
    with locked(path, "busy"):
        (path.parent / "result").write_text("stays")
    assert [one.name for one in path.parent.iterdir()] == ["result"]


def test_a_folder_that_was_made_for_a_lock_goes_with_it(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path / "new/.lock", "busy"):
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_folders_above_it_that_were_made_for_a_lock_go_too(tmp_path):
    (tmp_path / "was/there").mkdir(parents=True)
    with locked(tmp_path / "was/there/new/newer/.lock", "busy"):
        pass
    assert [*(tmp_path / "was").rglob("*")] == [tmp_path / "was/there"]
    with locked(tmp_path / "new/newer/.lock", "busy"):
        (tmp_path / "new/result").write_text("stays")
    assert sorted((tmp_path / "new").rglob("*")) == [tmp_path / "new/result"]
