"""Which reference federations an audit compares with, and which it refuses."""

import json
import shutil
from dataclasses import replace

import pytest
from command import Command

from fedaudit.api.errors import InputError, UsageError
from fedaudit.audit import other_models
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import ExtractionRequest
from fedaudit.audit.target import resolve
from fedaudit.data import corpus
from fedaudit.federation.folder import open_federation
from fedaudit.report.document import validate
from fedaudit.simulation.runner import simulate


@pytest.fixture(scope="module")
def other(small, tmp_path_factory):
    """Return a federation of another seed and one round, trained in a second."""
    place = tmp_path_factory.mktemp("references") / "other"
    simulate(replace(small, seed=5, rounds=1), place, listener=lambda *_: None)
    return place


def find(federation, *references, target=None, attacks=("membership",)):
    data = federation.path / "data"
    request = ExtractionRequest(
        prefixes=data / "c0.jsonl", attacks=attacks, reference_folders=tuple(references)
    )
    other_models.check_references(request)
    audited = resolve(target or str(federation.path), None, None)
    return other_models.find_references(
        request, audited, open_federation(federation.path).template, InputReader()
    )


def test_what_a_federation_was_trained_on_is_read(federation, other):
    assert find(federation) == ([], {})
    [model], facts = find(federation, other)
    form = open_federation(other).template
    assert model.target.adapter == str(other / "rounds/001/global")
    texts = {d.text for k in (0, 1) for d in corpus.read(other / f"data/c{k}.jsonl", form)}
    assert model.texts == texts
    assert facts["references' SHA-256"].keys() == {str(other)}


def test_what_is_refused(federation, other, tmp_path):
    with pytest.raises(UsageError, match="needs an attack that compares with models: member"):
        find(federation, other, attacks=("contextual",))
    with pytest.raises(UsageError, match="named twice"):
        find(federation, other, other / ".." / other.name)
    with pytest.raises(UsageError, match="needs an adapter"):
        find(federation, other, target="fedaudit-nano")
    with pytest.raises(InputError, match="it says nothing about itself"):
        find(federation, federation.path)
    with pytest.raises(InputError, match="not a federation's folder"):
        find(federation, tmp_path)
    there = shutil.copytree(other, tmp_path / "there")
    table = json.loads((there / "federation.json").read_text())

    def write(**changes):
        (there / "federation.json").write_text(json.dumps({**table, **changes}))

    write(status="running")
    with pytest.raises(InputError, match="is not finished"):
        find(federation, there)
    write(base={**table["base"], "sha256": "0" * 64})
    with pytest.raises(InputError, match="another base"):
        find(federation, there)
    clients = [{**table["clients"][0], "data": ""}, *table["clients"][1:]]
    files = {k: v for k, v in table["files"].items() if k != table["clients"][0]["data"]}
    write(clients=clients, files=files)
    with pytest.raises(InputError, match="does not hold the records of c0"):
        find(federation, there)


def test_the_whole_audit(federation, other, tmp_path, monkeypatch, capfd):
    held = tmp_path / "held.jsonl"
    texts = [f"Note {n}: the parties of case {n} met on a rainy day in York." for n in range(9)]
    held.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    run = Command(monkeypatch, capfd)
    words = ("extract", "--target", federation.path, "--attack", "membership", "--prefixes",
             federation.path / "data/c0.jsonl", "--held-out", held, "--out", tmp_path / "out",
             "--reference", other)  # fmt: skip
    shown = run(*words)
    assert shown.code in (0, 1, 7), shown
    report = json.loads((tmp_path / "out/report.json").read_text())
    validate(report)
    assert any("1 federations were compared with" in limit for limit in report["limits"])
    found = [r for r in report["measurements"] if r["scope"].get("score") == "lira"]
    assert {r["scope"]["estimator"]: r["value"] for r in found} == {"online": None, "offline": None}
    assert report["run"]["config"]["reference_folders"] == [str(other)]
    refused = run("extract", "--matrix", "--target", federation.path, "--reference", other)
    assert refused.code == 2
    assert "--reference" in refused.err
