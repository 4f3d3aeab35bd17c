"""Which clients' own models an audit asks, and what is said where there are none."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from fedaudit import cli
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import template
from fedaudit.audit import other_models
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import ExtractionRequest
from fedaudit.audit.target import resolve
from fedaudit.data import corpus


def asked(federation, **changes):
    data = federation / "data"
    request = ExtractionRequest(
        **{"prefixes": data / "c0.jsonl", "target": str(federation), "attacks": ("source",)}
        | changes
    )
    audited = resolve(str(federation), None, None)
    return request, audited, template("fed_pii"), InputReader()


def test_clients_with_model_and_records_are_found(federation):
    found, facts = other_models.find_clients(*asked(federation.path))
    assert list(found) == [f"c{n}" for n in range(len(found))]
    assert len(found) == 2
    for client, model in found.items():
        path = federation.path / "data" / f"{client}.jsonl"
        assert model.documents == tuple(corpus.read(path, template("fed_pii")))
        assert Path(model.target.adapter).parent.name == "clients"
    assert facts["clients' adapters' SHA-256"].keys() == found.keys()


def test_nobody_is_looked_at_by_other_attacks(federation):
    assert other_models.find_clients(*asked(federation.path, attacks=("contextual",))) == ({}, {})


def test_files_that_were_named_stand_for_those_that_a_folder_does_not_keep(federation, tmp_path):
    there = shutil.copytree(federation.path, tmp_path / "fed")
    moved = shutil.move(there / "data" / "c1.jsonl", tmp_path / "c1.jsonl")
    manifest = json.loads((there / "federation.json").read_text())
    manifest["clients"][1]["data"] = ""
    del manifest["files"]["data/c1.jsonl"]
    (there / "federation.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="records of 1 of them are at hand"):
        other_models.find_clients(*asked(there))
    path = there / "data" / "c0.jsonl"
    found, _ = other_models.find_clients(*asked(there, victim=tmp_path / "c1.jsonl", prefixes=path))
    assert found["c1"].documents == tuple(corpus.read(moved, template("fed_pii")))


def test_a_model_alone_has_no_clients(federation):
    request, _, form, reader = asked(federation.path)
    with pytest.raises(UsageError, match="source asks the clients' own models"):
        other_models.find_clients(request, resolve("fedaudit-nano", None, None), form, reader)


def test_the_whole_audit(federation, tmp_path, monkeypatch, capsys):
    words = ("extract", "--target", str(federation.path), "--attack", "source", "--device", "cpu")
    own = ("--prefixes", str(federation.path / "data" / "c0.jsonl"))
    monkeypatch.setattr(
        sys, "argv", ["fedaudit", *words, *own, "--quiet", "--out", str(tmp_path / "out")]
    )
    with pytest.raises(SystemExit) as left:
        cli.main()
    said = capsys.readouterr().out
    assert left.value.code == 7, said  # nothing of it is judged
    assert "Source: source" in said
    assert "c0" in said
