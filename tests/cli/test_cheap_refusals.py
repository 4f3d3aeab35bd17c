"""What is cheap to refuse is refused before anything is computed or hashed."""

import json
import os
import struct
import time

import pytest
import typer
from command import Command

from fedaudit import cli
from fedaudit.federation import adapters

UNBOUNDED = {"seed", "round_", "round"}


def _options(command, words=()):
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from _options(child, (*words, name))
    for option in command.params:
        if type(option.type).__name__ in ("IntRange", "IntParamType"):
            yield words, option


def test_every_count_that_can_be_given_has_a_limit():
    found = list(_options(typer.main.get_command(cli.app)))
    assert len(found) > 30
    unbounded = {
        (*words, option.name)
        for words, option in found
        if getattr(option.type, "max", None) is None and option.name not in UNBOUNDED
    }
    assert not unbounded


@pytest.mark.parametrize("number", [999_999_999, 10**30])
def test_candidates_without_end_are_refused_at_once(tmp_path, monkeypatch, capfd, number):
    monkeypatch.chdir(tmp_path)
    started = time.monotonic()
    run = Command(monkeypatch, capfd)
    done = run("infer", "--data", "r.jsonl", "--candidates", str(number))
    assert done.code == 2
    assert "--candidates" in done.err
    assert time.monotonic() - started < 5


HEADERS = {
    "zeros": b"",
    "short": struct.pack("<Q", 2) + b"{}",
    "whole": struct.pack("<Q", 70)
    + json.dumps({"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 10**11]}})
    .encode()
    .ljust(70),
}


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("command", ["extract", "infer"])
def test_a_sparse_adapter_is_refused_by_its_header(tmp_path, monkeypatch, capfd, header, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / adapters.CONFIG).write_text(
        '{"peft_type": "LORA", "r": 2, "lora_alpha": 2}'
    )
    path = tmp_path / "lora" / adapters.WEIGHTS
    path.write_bytes(HEADERS[header])
    os.truncate(path, len(HEADERS[header]) + 10**11)
    (tmp_path / "r.jsonl").write_text('{"text": "Ann Lee of York", "pii": []}\n')
    data = "--prefixes" if command == "extract" else "--data"
    words = ("--target", "fedaudit-nano", "--adapter", "lora", data, "r.jsonl", "--device", "cpu")
    started = time.monotonic()
    Command(monkeypatch, capfd).refused(3, command, *words, "--quiet", says="adapter_model")
    assert time.monotonic() - started < 30
