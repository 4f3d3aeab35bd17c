"""A folder of somebody else's is not a place to import from, wherever fedaudit starts a Python."""

import os
import subprocess
import sys

import pytest

MODULES = (
    *("json", "torch", "typing", "typer", "pathlib", "threading", "pickle", "socket", "logging"),
    *("multiprocessing", "concurrent", "transformers", "fedaudit_plugins", "signal", "tempfile"),
)
MINE = (
    "import sys\nsys.stderr.write('imported ' + __name__)\nopen('witness', 'a').write(__name__)\n"
)
POOL = """
from fedaudit.system.processes import processes

if __name__ == "__main__":
    with processes(1, "gone") as pool:
        print(pool.submit(abs, -7).result())
"""


@pytest.fixture
def foreign(tmp_path):
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(MINE)
    return tmp_path


def ran(*words, cwd, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd, env=clean | env, check=False, capture_output=True, text=True,
    )  # fmt: skip


def test_the_folder_is_a_trap(foreign):
    assert "imported json" in ran("-c", "import json", cwd=foreign).stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [([], ["plugins"]), ([], ["extract", "--target", "x"]), (["-P"], ["--version"])],
    ids=str,
)
def test_the_command_imports_nothing_from_where_it_runs(flags, words, foreign):
    done = ran(*flags, "-m", "fedaudit", *words, cwd=foreign)
    assert "imported" not in done.stderr
    assert not (foreign / "witness").exists()
    assert done.returncode == (2 if "extract" in words else 0), done.stderr


def test_its_processes_import_nothing_from_there_either(foreign, tmp_path_factory):
    beside = tmp_path_factory.mktemp("script") / "pooled.py"
    beside.write_text(POOL)
    done = ran(str(beside), cwd=foreign)
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr
    assert not (foreign / "witness").exists()


RUN = """
import runpy, sys
sys.argv = ["fedaudit", "--version"]
try:
    runpy.run_module("fedaudit.__main__", run_name="__main__")
except SystemExit:
    import mine
"""


@pytest.mark.parametrize("flags", [[], ["-P"]], ids=["", "-P"])
def test_a_path_that_the_user_gives_stays(flags, tmp_path):
    (tmp_path / "mine.py").write_text("print('mine')")
    done = ran(*flags, "-c", RUN, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.stdout.endswith("mine\n"), done.stderr
