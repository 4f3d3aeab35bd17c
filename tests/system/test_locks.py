"""Locks keep other processes out, and leave nothing behind."""

import subprocess
import sys

import pytest

from fedaudit.api.errors import InputError
from fedaudit.system.locks import lock_beside, locked

HOLDER = """
import sys
from pathlib import Path

from fedaudit.system.locks import locked

with locked(Path(sys.argv[1]), "busy", of="f"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_keeps_others_out_and_goes_with_its_process(tmp_path):
    folder = tmp_path / "new"
    for end in ("kill", "close"):
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(InputError, match=r"^busy$"), locked(folder, "busy", of="f"):
                pass
            assert (folder / ".fedaudit-f.lock").exists()
            if end == "kill":
                holder.kill()
    with locked(folder, "busy", of="f"):
        (folder / "result").write_text("stays")
    assert [one.name for one in folder.iterdir()] == ["result"]


def test_a_folder_that_was_made_for_a_lock_goes_with_it(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path / "new", "busy"):
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_a_file_of_a_lock_s_name_with_something_in_it_stays(tmp_path):
    taken = tmp_path / ".fedaudit-run.lock"
    taken.write_text("precious")
    with pytest.raises(InputError, match="is not a lock of fedaudit"):
        lock_beside(tmp_path / "run", "busy").__enter__()
    assert taken.read_text() == "precious"
