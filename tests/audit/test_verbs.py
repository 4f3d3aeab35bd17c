"""The verbs at the top of the package, as their page shows them."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import example_report
import handmade
import pytest

import fedaudit
from fedaudit import audit, extract
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.policy import Policy
from fedaudit.attribution.owner.worker_pool import WorkerOptions
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.audit.prepare import prepare
from fedaudit.audit.session import AuditSession
from fedaudit.report.document import validate
from fedaudit.report.renderers.html import render
from fedaudit.simulation import runner, session

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
FILES = {"adapter": "lora", "prefixes": "own.jsonl", "victim": "victim.jsonl", "device": "cpu"}
SMALL = {"contextual": {"context": 4}, "ranking": {"candidates": (3,)},
         "untargeted": {"samples": 8, "new_tokens": 9},
         "benign": {"answers": 24, "new_tokens": 9}}  # fmt: skip


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


def test_the_package_alone_is_light_and_names_its_verbs():
    code = "import sys, fedaudit; dir(fedaudit); print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    verbs = {"audit", "extract", "infer", "memorize", "simulate", "attribute", "Report"}
    assert verbs < set(dir(fedaudit))
    stub = Path(fedaudit.__file__).with_suffix(".pyi").read_text()
    assert set(re.findall(r" as (\w+)", stub)) == verbs
    with pytest.raises(AttributeError, match="nothing"):
        fedaudit.nothing  # noqa: B018


def test_the_package_of_audits_is_the_verb(here):
    import fedaudit.audit.session

    with pytest.raises(UsageError, match="No policy named"):
        fedaudit.audit("fedaudit-nano", **FILES, policy="laxest")


def test_a_notebook_shows_the_page_in_a_frame_without_scripts():
    report = example_report.example()
    frame = report._repr_html_()
    page = re.fullmatch(
        r'<iframe srcdoc="([^"]*)" sandbox width="100%" height="640"></iframe>', frame
    )
    assert page
    assert html.unescape(page[1]) == render(report.to_json())


def test_a_federation_is_simulated_into_its_folder(tmp_path, monkeypatch):
    folder, trained = tmp_path / "run", []
    monkeypatch.setattr(runner, "complete", lambda run, *_, **__: trained.append(run))
    monkeypatch.setattr(session, "_report", lambda *_: example_report.example())
    settings = {"rounds": 1, "central": False, "training": {"steps": 1}}
    assert fedaudit.simulate("fed_pii", out=folder, settings=settings) == folder
    assert [(run.config.rounds, run.out) for run in trained] == [(1, folder)]
    validate(json.loads((folder / "report.json").read_text()))
    with pytest.raises(UsageError, match="no run in"):
        fedaudit.simulate("fed_pii", out=tmp_path / "new", resume=True)


@pytest.mark.usefixtures("few_federations")
def test_clients_are_named_whose_updates_carry_a_mark(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fed = handmade.marked(tmp_path / "fed", monkeypatch)
    protocol = ProtocolConfig(others=3, pairs=4, threshold=3)
    workers = WorkerOptions(device="cpu", workers=1)
    report = fedaudit.attribute(fed.path, protocol=protocol, workers=workers, out="out")
    assert json.loads(Path("out/report.json").read_text())["verdict"]["status"] == "fail"
    assert [finding.label for finding in report.findings]


def test_texts_are_searched_for_among_the_clients_that_are_named(tmp_path, monkeypatch):
    asked = []
    done = SimpleNamespace(report="report")
    monkeypatch.setattr(AuditSession, "run", lambda self, watching: asked.append(self) or done)
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"text": "one"}\n')
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    returned = fedaudit.memorize("fedaudit-nano", clients=files, out=tmp_path / "o", device="cpu")
    assert returned == "report"
    [made] = asked
    assert [client.name for client in made.request.clients] == ["a", "b"]
    assert made.request.shorter
