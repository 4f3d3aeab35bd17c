"""A stranger's plugin package, installed as a stranger would, and the page that teaches it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import fork
import pytest

from fedaudit.api import hooks
from fedaudit.config import registry

ROOT = Path(__file__).parents[1]
PACKAGES = [ROOT / "tests/third_party", ROOT / "examples/plugins"]
PAGE = ROOT / "docs" / "writing-a-plugin.md"
TEXT = PAGE.read_text("utf-8")


def ran(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a folder with both packages installed by pip, built from copies, without network."""
    place = tmp_path_factory.mktemp("canary")
    # setuptools leaves build/ and an egg-info in the folder it builds.
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    sources = [shutil.copytree(one, place / one.name, ignore=ignored) for one in PACKAGES]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    pip = ["-m", "pip", "install", "--quiet", "--no-compile", *offline]
    ran(*pip, "--target", place / "site", *sources)
    return place / "site"


@pytest.fixture
def fedaudit(installed, tmp_path, monkeypatch):
    """Return a function that runs fedaudit beside the installed package."""
    monkeypatch.chdir(tmp_path)

    def running(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {"PYTHONPATH": str(installed), **environment}
        done = fork.fedaudit(*words, site=installed, env=env)
        assert done.returncode == 0, done.stderr
        return done

    return running


def test_it_is_listed_beside_ours(installed):
    listed = ran("-m", "fedaudit", "plugins", PYTHONPATH=str(installed)).stdout
    names = {tuple(line.split()[:2]) for line in listed.splitlines()}
    assert {("attack", "opening"), ("attack", "pairs"), ("aggregation", "median")} <= names
    assert {("attack", "contextual"), ("aggregation", "fedavg")} <= names


def test_its_options_paper_and_package_are_shown(fedaudit):
    shown = fedaudit("plugins", "opening").stdout
    assert "attack opening: Continue the first tokens" in shown
    assert "arXiv:2012.07805" in shown
    assert "package: fedaudit-canary 1.0" in shown
    assert "\n  tokens = 20\n" in shown


def test_it_can_be_left_out(fedaudit):
    listed = fedaudit("plugins", FEDAUDIT_DISABLE_PLUGINS="canary").stdout
    assert "opening" not in listed
    assert "contextual" in listed


def test_it_is_not_there_without_its_package():
    listed = fork.fedaudit("plugins").stdout
    assert "contextual" in listed
    assert "opening" not in listed


def test_a_report_with_its_kind_is_judged_by_it(fedaudit, installed):
    code = """
from example_report import example
from fedaudit.api import Measurement
from fedaudit.report.document import write
from pathlib import Path
names = {"kind": "order", "plugin": "pairs", "metric": "order_rate", "scope": {"source": "tuned"}}
row = Measurement.rate(38, 40, **names)
write(example(measurements=[row], findings=[], claims=[]), Path("report.json"))
"""
    helpers = Path(__file__).parent / "helpers"
    ran("-c", code, PYTHONPATH=os.pathsep.join(map(str, (installed, helpers))))
    shown = fedaudit("report", "report.json").stdout
    assert "Order of records: pairs" in shown
    assert "Verdict: fail" in shown
    assert "knows in which order records stand" in " ".join(shown.split())


SMALL = """clients=2 rounds=1 central=false evaluated=2 records.cases=3 partition.method=iid
training.steps=2 training.batch_size=2 training.max_length=48 training.rank=2 workers=1
records.tasks=record aggregation=median"""


def test_a_federation_is_averaged_by_it_in_its_worker_processes(fedaudit):
    settings = [f"--set={setting}" for setting in SMALL.split()]
    fedaudit("simulate", "--profile", "fed_pii", "--out", "run", "--quiet", *settings)
    manifest = json.loads(Path("run/federation.json").read_text("utf-8"))
    assert manifest["aggregation"] == {"name": "median", "options": {}}
    assert [round_["round"] for round_ in manifest["rounds"]] == [0, 1]


def test_the_page_shows_the_package_as_it_is():
    paths = [path for one in PACKAGES for path in one.glob("*.py")]
    paths += [ROOT / "tests/third_party/pyproject.toml", ROOT / "tests/test_examples.py"]
    files = {path.name: path.read_text("utf-8") for path in paths}
    blocks = re.findall(
        r"(?ms)(This is|From)\s`([\w.]+)`[^`:]*(?:`\w+`[^`:]*)*:\n\n```\w+\n(.*?)^```$", TEXT
    )
    assert TEXT.count("```") == 2 * len(blocks) == 2 * 5
    for how, name, block in blocks:
        assert block == files[name] if how == "This is" else f"\n{block}" in files[name]


@pytest.mark.parametrize("hook", [name for name in vars(hooks) if name.startswith("fedaudit_")])
def test_the_page_has_every_hook_with_what_it_returns(hook):
    function = getattr(hooks, hook)
    (row,) = [line for line in TEXT.splitlines() if line.startswith(f"| `{hook}` |")]
    returned = re.fullmatch(r"list\[type\[(\w+)\]\]", function.__annotations__["return"])[1]
    assert f"`{returned}`" in row
    (kind,) = [kind for kind, name in registry.KINDS.items() if name == hook]
    assert f"| {kind} |" in row


def test_the_page_has_no_hook_that_does_not_exist():
    named = set(re.findall(r"`(fedaudit_(?!canary)\w+)`", TEXT))
    assert named == set(registry.KINDS.values())


def test_what_the_page_lets_plugins_import_loads_no_torch():
    (light,) = re.findall(r"(?m)^(`fedaudit[^.]*(?:\.\w[^.]*)*) import no torch", TEXT)
    modules = re.findall(r"`(fedaudit\.[\w.]+)`", light)
    assert len(modules) == 4
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    ran("-c", code)
