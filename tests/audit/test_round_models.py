"""Which rounds' global models an audit asks."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

from command import Command

from fedaudit.audit import other_models
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import ExtractionRequest
from fedaudit.audit.target import resolve
from fedaudit.report.document import validate


def asked_with(federation, *attacks, prefixes="data/c0.jsonl", victim=None):
    victim = federation.path / victim if victim else None
    return ExtractionRequest(
        prefixes=federation.path / prefixes, victim=victim, attacks=("contextual", *attacks)
    )


def found(federation, *attacks, number=None, target=None):
    request = asked_with(federation, *attacks)
    return other_models.find_rounds(request, resolve(target or str(federation.path), None, number))


def test_rounds_before_the_audited_one_for_who_asks(federation):
    assert found(federation) == {}
    asked = found(federation, "membership")
    assert asked == {1: federation.path / "rounds/001/global"}
    assert found(federation, "membership", number=1) == {}
    assert found(federation, "membership", target="fedaudit-nano") == {}
    facts = other_models.round_facts(asked, InputReader())
    assert facts["rounds' SHA-256"].keys() == {"1"}


def test_the_rounds_in_which_the_client_of_the_tried_records_trained(federation, tmp_path):
    path = tmp_path / "fed"
    shutil.copytree(federation.path, path)
    manifest = json.loads((path / "federation.json").read_text())
    manifest["rounds"][1]["participants"].remove("c1")
    manifest["rounds"][1]["clients"].pop("c1")
    manifest["rounds"][1]["loss"].pop("c1", None)
    (path / "federation.json").write_text(json.dumps(manifest))
    audited = resolve(str(path), None, None)

    def took_part(earlier=(1,), **files):
        request = asked_with(SimpleNamespace(path=path), "membership", **files)
        return other_models.find_participation(request, audited, earlier)

    assert took_part() == {}
    assert took_part(victim="data/c1.jsonl") == {1: False, 2: True}
    assert took_part(prefixes="data/c1.jsonl") == {1: False, 2: True}
    shutil.copy(path / "data/c1.jsonl", tmp_path / "c1.jsonl")
    assert took_part(victim=tmp_path / "c1.jsonl") == {1: False, 2: True}
    shutil.copy(path / "data/c1.jsonl", tmp_path / "theirs.jsonl")
    assert took_part(victim=tmp_path / "theirs.jsonl") == {}
    assert took_part(earlier=(), victim="data/c1.jsonl") == {}
    imported = replace(audited.federation.manifest, imported={"framework": "openfedllm"})
    audited = replace(audited, federation=replace(audited.federation, manifest=imported))
    assert took_part(victim="data/c1.jsonl") == {}  # rounds may be missing
    manifest["rounds"][1] |= {"participants": [], "clients": {}, "loss": {}}
    (path / "federation.json").write_text(json.dumps(manifest))
    audited = resolve(str(path), None, None)
    assert took_part(victim="data/c1.jsonl") == {}


def test_the_whole_audit_says_that_it_cannot_tell(federation, tmp_path, monkeypatch, capfd):
    held = tmp_path / "held.jsonl"
    texts = [f"Note {n}: the parties of case {n} met on a rainy day in York." for n in range(9)]
    held.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    run = Command(monkeypatch, capfd)
    words = ("extract", "--target", federation.path, "--attack", "membership", "--prefixes",
             federation.path / "data/c0.jsonl", "--held-out", held, "--out", tmp_path / "out",
             "--set", "membership.organisation=true")  # fmt: skip
    shown = run(*words)
    assert shown.code in (0, 1, 7), shown
    assert "Did the organisation take part" in shown.out
    report = json.loads((tmp_path / "out/report.json").read_text())
    validate(report)
    [row] = [r for r in report["measurements"] if r["scope"].get("unit") == "organisation"]
    assert (row["metric"], row["value"], row["scope"]["rounds"]) == ("p_value", None, 2)
    assert any("whether it took part cannot be told" in limit for limit in report["limits"])
