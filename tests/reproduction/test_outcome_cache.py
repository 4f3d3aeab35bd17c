"""What a variant came to is kept, and taken again as long as nothing that it depends on changes."""

import json
import stat
from dataclasses import replace
from datetime import date

import pytest

from fedaudit.api.records import Finding, Measurement
from fedaudit.config.profile import Variant
from fedaudit.report.redaction import Redactor
from fedaudit.reproduction import outcome_cache
from fedaudit.reproduction import variant as variant_module
from fedaudit.reproduction.outcome_cache import (
    VariantOutcome,
    outcome_path,
    read_outcome,
    write_outcome,
)
from fedaudit.reproduction.variant import VariantTask, run_variant
from fedaudit.simulation.config import Simulation

OUTCOME = VariantOutcome(
    measurements=(
        Measurement(
            kind="extraction", plugin="contextual", metric="coverage", value=0.1 + 0.2, low=0.0,
            high=1.0, n=3, hits=1, scope={"source": "tuned", "round": 3, "passed": 0.5},
        ),
        Measurement(kind="cost", plugin="simulation", metric="flops", value=None, reason="why"),
    ),
    findings=(
        Finding(id="a-1", severity="high", label="PERSON", measurement="coverage",
                evidence={"text": {"label": "PERSON", "length": 6, "hmac": "ab"}}, safe=("where",)),
    ),
    data=({"path": "data/c0.jsonl", "records": 3},),
    limits=("a limit",),
)  # fmt: skip


@pytest.fixture
def task(tmp_path):
    return VariantTask(
        variant=Variant(name="v", attacks=("contextual",)),
        config=Simulation(rounds=2),
        folder=tmp_path / "federations/abc",
        verdicts=tmp_path / "verdicts",
        redactor=Redactor(b"k" * 32),
    )


def path_of(task):
    return outcome_path(task.variant, task.config, task.folder, task.redactor)


def test_a_file_that_an_option_names_is_part_of_what_it_depends_on(task, tmp_path):
    wordlist = tmp_path / "words.txt"
    options = {"contextual": {"lists": [str(wordlist)], "prompt": "x" * 5000}}
    named = replace(task, variant=replace(task.variant, options=options))
    without = path_of(named)
    wordlist.write_text("one")
    first = path_of(named)
    wordlist.write_text("other")
    assert len({without, first, path_of(named)}) == 3
    wordlist.write_text("one")
    assert path_of(named) == first


@pytest.mark.parametrize("name", ["{}", "spacy:{}", "de=spacy:{}", "de={}"])
@pytest.mark.parametrize(("top", "weights"), [("config.json", "model.safetensors"),
                                              ("meta.json", "ner/model")])  # fmt: skip
def test_so_is_a_model_whose_loader_or_language_is_named_too(task, tmp_path, name, top, weights):
    folder = tmp_path / "model"
    (folder / weights).parent.mkdir(parents=True)
    (folder / top).write_text("{}")
    (folder / weights).write_bytes(b"one")
    options = {"presidio": {"ner": name.format(folder)}}
    named = replace(task, variant=replace(task.variant, options=options))
    first = path_of(named)
    (folder / weights).write_bytes(b"other")
    assert path_of(named) != first


def test_what_is_kept_is_read_to_the_last_bit_and_for_its_owner_alone(tmp_path):
    path = tmp_path / "outcomes/x.json"
    write_outcome(OUTCOME, path)
    assert read_outcome(path) == OUTCOME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["", "{}", '{"measurements": 3}', "[]", '{"measurements": [{}]}'])
def test_what_cannot_be_read_is_measured_anew(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    assert read_outcome(tmp_path / "x.json") is None
    assert read_outcome(tmp_path / "nothing.json") is None


def test_all_that_it_depends_on_is_in_its_name(task, monkeypatch):
    paths = {
        path_of(one)
        for one in (
            task,
            replace(task, variant=Variant(name="v", attacks=("verbatim",))),
            replace(task, config=Simulation(rounds=3)),
            replace(task, config=Simulation(rounds=2, dtype="bfloat16")),
            replace(task, redactor=Redactor(b"l" * 32)),
        )
    }
    assert len(paths) == 5
    assert path_of(replace(task, config=Simulation(rounds=2, workers=3))) in paths
    task.folder.mkdir(parents=True)
    (task.folder / "federation.json").write_text("{}")
    assert path_of(task) not in paths  # of a federation that stands as it does
    dated = Variant(name="v", options={"contextual": {"samples": date(2020, 1, 1)}})
    assert path_of(replace(task, variant=dated))  # is refused by what reads options, not here
    monkeypatch.setattr(outcome_cache, "code_sha256", lambda: "other code")
    assert path_of(task) not in paths


def test_a_variant_is_measured_once(task, monkeypatch):
    asked = []

    def measured(one, watch):
        asked.append(one)
        return OUTCOME

    monkeypatch.setattr(variant_module, "_run_task", measured)
    run_variant(task, watch=None)
    assert run_variant(task, watch=None) == OUTCOME
    assert len(asked) == 2  # there is no federation, so nothing is taken for its outcome
    task.folder.mkdir(parents=True)
    (task.folder / "federation.json").write_text("{}")
    asked.clear()
    assert run_variant(task, watch=None) == run_variant(task, watch=None) == OUTCOME
    assert asked == [task]
    path_of(task).write_text(json.dumps({}))
    assert run_variant(task, watch=None) == OUTCOME
    assert len(asked) == 2


def test_the_code_is_that_of_plugins_too():
    files = [str(path) for path in outcome_cache._code()]
    assert any(name.endswith("fedaudit/reproduction/variant.py") for name in files)
    assert any(name.endswith("defenses/scrub.py") for name in files)
    assert any(name.endswith("nano/templates.toml") for name in files)
    assert not any("__pycache__" in name for name in files)
