"""Folders that are made for some work go again where it leaves nothing in them."""

import os

import pytest

from fedaudit.api.errors import InputError
from fedaudit.system.new_folders import new_folder


def test_empty_ones_go_and_those_with_something_in_them_stay(tmp_path):
    with new_folder(tmp_path / "new/newer") as folder:
        assert folder.is_dir()
    assert not list(tmp_path.iterdir())
    with new_folder(tmp_path / "new/newer") as folder:
        (folder.parent / "result").write_text("stays")
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "new", tmp_path / "new/result"]


def test_those_above_one_that_cannot_be_made_go_as_well(tmp_path):
    too_long = "x" * (os.pathconf(tmp_path, "PC_NAME_MAX") + 1)
    with pytest.raises(InputError), new_folder(tmp_path / "new" / too_long):
        pass
    assert not list(tmp_path.iterdir())
