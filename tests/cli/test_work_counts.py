"""What a command reads before it asks a model: each federation and each file once."""

import sys
from collections import Counter

import fake_audit
import handmade
import pytest
from command import Command

from fedaudit.audit import records
from fedaudit.audit.all_steps import AssessmentPipeline
from fedaudit.audit.plan import kind_of_step
from fedaudit.audit.prepare import prepare
from fedaudit.engine.loading import loader
from fedaudit.engine.lora import adapter as lora
from fedaudit.federation import folder as folders
from fedaudit.simulation import preparation, runner

_opened: Counter[str] | None = None


def _count(event, arguments):
    if event == "open" and _opened is not None and isinstance(arguments[0], str):
        _opened[arguments[0]] += 1


sys.addaudithook(_count)  # it cannot be removed, so it counts only where a test asks for it


@pytest.fixture
def opened(monkeypatch):
    """Return how often each file is opened while the test runs."""
    counts = Counter[str]()
    monkeypatch.setattr(sys.modules[__name__], "_opened", counts)
    return counts


def test_an_audit_of_many_clients_reads_each_file_once(tmp_path, opened, monkeypatch):
    run = handmade.write(tmp_path / "run", clients=8, rounds=10).path
    fake_audit.keep_documents(run)
    opened.clear()
    federations = []
    check = folders._check_files
    monkeypatch.setattr(
        folders, "_check_files", lambda root, *rest: (federations.append(root), check(root, *rest))
    )
    prepared = prepare(run, detector="names")
    kinds = [kind_of_step(name) for name in prepared.plan.steps]
    once = {"pairs": 1, "memorization": 1}
    assert Counter(kinds) == {"extraction": 8, "inference": 8, **once}
    prepared.session(tmp_path / "out")
    assert federations == [run]
    counts = {name: n for name, n in opened.items() if name.startswith(str(run))}
    assert len(counts) > 8 * 10  # the manifest, the documents, every client's adapters
    assert set(counts.values()) == {1}
    read = []
    annotate = records.annotate
    monkeypatch.setattr(
        records, "annotate", lambda *words: (read.append(words[0][0].id), annotate(*words))[1]
    )
    AssessmentPipeline(inputs=prepared.inputs, fingerprint=None, redactor=None).annotate_files()
    assert len(read) == 8  # the detector reads every client's records once, in all 18 steps


def test_loading_an_adapter_reads_its_configuration_once(federation, opened):
    folder = federation.path / "rounds/001/global"
    lora.read(folder)
    assert opened[str(folder / "adapter_config.json")] == 1


def test_a_simulation_is_prepared_once_and_loads_its_base_once(tmp_path, monkeypatch, capfd):
    done = []

    def counted(module, name):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, **k: (done.append(name), function(*a, **k))[1])

    counted(preparation, "prepare")
    counted(loader, "load_base")
    counted(folders, "open_federation")
    counted(runner, "open_federation")
    run = Command(monkeypatch, capfd)
    settings = ["workers=1", "rounds=1", "training.steps=1", "central=false", "evaluated=2",
                "clients=2", "records.cases=3", "records.documents_per_case=4"]  # fmt: skip
    options = [part for setting in settings for part in ("--set", setting)]
    words = ("simulate", "--profile", "fed_pii", "--device", "cpu", "--out", tmp_path / "run")
    assert not run(*words, *options).code
    assert done == ["prepare", "load_base"]
    done.clear()
    assert not run(*words, *options).code
    assert done == ["prepare", "open_federation"]  # it is complete
