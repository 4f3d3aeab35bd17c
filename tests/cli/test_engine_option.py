"""--engine: what is refused before anything is read, and what it is not part of."""

from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest

from fedaudit.audit import fingerprint
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import ExtractionRequest
from fedaudit.audit.resolve import resolve
from fedaudit.cli.simulate import given_settings
from fedaudit.engine.parallel import ray_cluster
from fedaudit.simulation.config import Simulation

COMMANDS = [
    ("extract", "--target", "fedaudit-nano", "--prefixes", "a.jsonl"),
    ("infer", "--target", "fedaudit-nano", "--data", "a.jsonl"),
    ("memorize", "--target", "fedaudit-nano", "--clients", "a.jsonl"),
    ("simulate", "--profile", "fed_pii"),
]


@pytest.fixture(autouse=True)
def records(empty_folder):
    (empty_folder / "a.jsonl").write_text('{"text": "Ann Lee of Leeds."}\n')


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_without_ray_every_command_says_what_to_install(run, monkeypatch, words, tmp_path):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(ray_cluster, "version", missing)
    run.refused(2, *words, "--engine", "ray", says="pip install 'fedaudit[ray]'")
    run.refused(2, *words, "--engine", "rey", says="Did you mean 'ray'?")
    run.refused(2, *words, "--engine", "local:0", says="No engine named 'local:0'")
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_several_local_engines_are_rays(run, words):
    run.refused(2, *words, "--engine", "local:4", says="--engine ray:4 does this")


def test_an_audit_goes_on_with_another_engine(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    request = ExtractionRequest(
        prefixes=tmp_path / "a.jsonl", target="fedaudit-nano", detector="names"
    )
    inputs = resolve(request, InputReader())
    found = [
        fingerprint.compute_fingerprint(replace(inputs, request=replace(request, engine=engine)))
        for engine in ("local", "ray:2")
    ]
    assert found[0].facts == found[1].facts
    assert len({one.run for one in found}) == 1


def test_a_federation_is_the_same_wherever_it_was_trained():
    assert Simulation(engine="ray").sha256() == Simulation().sha256()


def test_the_option_is_a_setting_of_a_simulation():
    assert given_settings(["engine=ray"], None, "auto", "auto") == {"engine": "ray"}
    assert given_settings(["engine=ray"], None, "auto", "auto", "ray:2") == {"engine": "ray:2"}
    assert given_settings([], None, "auto", "auto") == {}
