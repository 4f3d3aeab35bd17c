"""A finished federation where a study would keep it."""

import shutil

import pytest


@pytest.fixture
def place(federation, tmp_path):
    """Return a copy of the finished federation."""
    shutil.copytree(federation.path, tmp_path / "federations/abc")
    return tmp_path / "federations/abc"
