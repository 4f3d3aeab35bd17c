"""What only one feature needs is an extra: without it that feature says how to install it."""

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Document
from fedaudit.api.templates import PromptTemplate
from fedaudit.config import registry
from fedaudit.report import attestation
from fedaudit.simulation.evaluation import answers

ROOT = Path(__file__).parents[1]
TEMPLATE = PromptTemplate("plain", "{instruction} {input} ", "{instruction} ")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.fixture
def without(monkeypatch):
    """Return a function after which a package counts as not installed."""
    real = importlib.util.find_spec

    def hide(package: str, *modules: object) -> None:
        for module in modules:
            found = lambda name, *rest: None if name == package else real(name, *rest)  # noqa: E731
            monkeypatch.setattr(module, "find_spec", found)

    return hide


def test_a_defence_without_its_package_is_refused_before_anything_is_trained(without):
    made = registry.create("defense", "dp", {})
    made.check(TEMPLATE)
    without("opacus", importlib.import_module("fedaudit_plugins.defenses.dp"))
    with pytest.raises(UsageError, match=r"pip install 'fedaudit\[dp\]'\.$"):
        made.check(TEMPLATE)
    assert any("opacus" in one for one in EXTRAS["dp"])


def test_a_report_is_not_signed_without_the_library(without, tmp_path):
    without("securesystemslib", attestation)
    for action in (
        lambda: attestation.sign({}, None),
        lambda: attestation.open_attestation(tmp_path, None),
    ):
        with pytest.raises(UsageError, match=r"pip install 'fedaudit\[attest\]'\.$"):
            action()


def test_bleu_is_null_with_the_reason_where_sacrebleu_is_not_installed(without):
    task = Document(id="a", text="q a", instruction="q", output="a b", task="summary")
    said = [[answers.HeldOutAnswer(task, "a b")]]
    rows = {row.metric: row for row in answers.by_task(said, [task], {}, seed=0)}
    assert (rows["bleu"].value, rows["rouge_l"].value) == (100.0, 1.0)
    without("sacrebleu", answers)
    rows = {row.metric: row for row in answers.by_task(said, [task], {}, seed=0)}
    assert (rows["bleu"].value, rows["rouge_l"].value) == (None, 1.0)
    assert "fedaudit[bleu]" in rows["bleu"].reason


def test_a_message_names_an_extra_that_there_is():
    named = set()
    for folder in ("fedaudit", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            named |= set(re.findall(r"fedaudit\[([\w-]+)\]", path.read_text("utf-8")))
    assert named <= set(EXTRAS)
    assert {"attest", "bleu", "dp", "joint"} <= named
    assert json.dumps(EXTRAS["dev"]).count("fedaudit[attest,bleu,dp,joint]") == 1
