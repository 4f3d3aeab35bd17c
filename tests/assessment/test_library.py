"""The audit from Python, as its page tells it."""

import json
import re
import sys
from pathlib import Path

import fake_audit
import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.policy import Policy
from fedaudit.assessment.library import audit, extract, prepare
from fedaudit.report.document import validate

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
FILES = {"adapter": "lora", "prefixes": "own.jsonl", "victim": "victim.jsonl", "device": "cpu"}
SMALL = {"contextual": {"context": 4}, "ranking": {"candidates": (3,)},
         "untargeted": {"samples": 8, "new_tokens": 9},
         "benign": {"answers": 24, "new_tokens": 9}}  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    fake_audit.written(tmp_path)
    monkeypatch.chdir(tmp_path)
    fake_audit.replace(monkeypatch.setattr, "log", fake_audit.Chances("SIGKILL", sys.maxsize))
    return tmp_path


def test_an_audit_returns_the_report_that_it_writes(here):
    policy = Policy(name="ours", detectable=0.5)
    report = audit("fedaudit-nano", **FILES, options=SMALL, policy=policy, out="out")
    document = report.to_json()
    validate(document)
    written = json.loads(Path("out/report.json").read_text())
    assert written["measurements"] == json.loads(json.dumps(document["measurements"]))
    assert document["verdict"]["policy"]["name"] == "ours"
    assert report.findings


def test_what_will_be_done_is_known_before(here):
    prepared = prepare("fedaudit-nano", **FILES, quick=True)
    assert list(prepared.plan.steps) == ["extraction", "inference"]
    assert prepared.material.victim == Path("victim.jsonl")
    assert not Path("runs").exists()


def test_one_attack_from_python(here):
    report = extract("own.jsonl", victim="victim.jsonl", target="fedaudit-nano", adapter="lora",
                     options={"contextual": {"context": 4}}, out="one", seed=3)  # fmt: skip
    assert {row.plugin for row in report.measurements} == {"contextual"}
    assert report.to_json()["seeds"] == {"extraction": 3}


def test_a_mistake_is_an_error_of_the_api(here):
    with pytest.raises(UsageError, match="No policy named"):
        audit("fedaudit-nano", **FILES, policy="laxest")
    with pytest.raises(InputError, match=r"nobody\.jsonl"):
        extract("nobody.jsonl", target="fedaudit-nano", adapter="lora")


def test_the_page_s_examples_are_programs_of_today(here, monkeypatch):
    """What the page shows under "From Python" runs, with the small model's files in their place."""
    section = PAGE.read_text("utf-8").partition("## From Python")[2]
    lines = re.findall(r"(?m)^    (\S.*)$", section)
    source = "\n".join(lines).replace('"runs/fed_pii/data/c0.jsonl"', '"own.jsonl"')
    source = source.replace('"runs/fed_pii/data/c1.jsonl"', '"victim.jsonl"')
    model = '"fedaudit-nano", adapter="lora", options=SMALL'
    source = source.replace('audit("runs/fed_pii"', f"audit({model}, **REST")
    source = source.replace('target="runs/fed_pii"', f"target={model}")
    rest = {"prefixes": "own.jsonl", "victim": "victim.jsonl"}
    shown = []
    exec(source, {"SMALL": SMALL, "REST": rest, "print": shown.append})
    assert shown[0] in ("pass", "fail", "inconclusive")
    assert shown[1] > 0
