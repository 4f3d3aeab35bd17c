"""A recorded run is a federation's folder after every round, and is taken up again or refused."""

import json
from dataclasses import replace

import pytest
import torch
from flower_run import LORA, A, arrays, initial

from fedaudit.api.errors import InputError
from fedaudit.federation import manifest
from fedaudit.federation.folder import check_consecutive, open_federation, recording_caveats
from fedaudit.flower.run_folder import ClientUpdate, RecordedRun, RunMetadata
from fedaudit.simulation.initialization import plain_config

FACTS = RunMetadata(
    base=manifest.BaseModel(name="fedaudit-nano", sha256="ab"),
    lora=plain_config(LORA),
    aggregation={"name": "fedavg", "options": {}},
    template=manifest.Template(name="t", with_input="{input}", without_input="{instruction}"),
    recorded={"framework": "flower", "version": "1", "strategy": "FedAvg", "notes": ["as said"]},
)


def moved(by):
    return {name: tensor + by for name, tensor in initial().items()}


def reply(name, examples, by, loss=None):
    return ClientUpdate(
        name=name, arrays=arrays(moved(by)), examples=examples, weight=examples, loss=loss
    )


def started(place, facts=FACTS):
    run = RecordedRun(place, facts)
    run.open()
    run.begin(arrays(initial()))
    return run


def add(run, number, replies, by, notes=(), privacy=None):
    run.check_start(number, arrays(run.global_arrays()))
    kept = run.replies(number, replies)
    run.add(number, kept, None if by is None else arrays(moved(by)), list(notes), privacy)


def test_rounds_become_a_federation(tmp_path):
    run = started(tmp_path / "run")
    assert open_federation(tmp_path / "run").manifest.rounds[0].adapter == "rounds/000/global"
    add(run, 1, [reply("c10", 6, 1.0, 0.5), reply("c2", 2, 2.0)], 1.25)
    found = open_federation(tmp_path / "run")
    assert found.manifest.status == "running"
    assert [(c.id, c.examples, c.weight) for c in found.manifest.clients] == [
        ("c2", 2, 0.25),
        ("c10", 6, 0.75),
    ]
    first = found.manifest.rounds[1]
    assert first.participants == ("c10", "c2")
    assert first.loss == {"c10": 0.5}
    run.finish()
    found = open_federation(tmp_path / "run")
    check_consecutive(found)
    assert found.adapter()[0] == 1
    from fedaudit.federation import adapters

    sent = adapters.read(found.path / first.clients["c2"])
    assert torch.equal(sent[A], initial()[A] + 2.0)
    assert torch.equal(adapters.read(found.path / first.adapter)[A], initial()[A] + 1.25)
    named = {name for name in found.manifest.files if not name.startswith("rounds/000")}
    assert named == {
        f"rounds/001/{where}/{file}"
        for where in ("global", "clients/c2", "clients/c10")
        for file in ("adapter_config.json", "adapter_model.safetensors")
    }


def test_a_run_goes_on_after_its_last_round(tmp_path):
    add(started(tmp_path), 1, [reply("c0", 1, 1.0)], 1.0)
    again = started(tmp_path)
    assert again.last == 1
    add(again, 2, [reply("c1", 3, 2.0)], 2.0)
    found = open_federation(tmp_path).manifest
    assert [one.round for one in found.rounds] == [0, 1, 2]
    assert [(one.id, one.weight) for one in found.clients] == [("c0", 0.25), ("c1", 0.75)]


def test_a_round_that_was_not_finished_is_written_again(tmp_path):
    run = started(tmp_path)
    stale = tmp_path / "rounds/001/clients/c0"
    stale.mkdir(parents=True)
    (stale / "adapter_model.safetensors").write_bytes(b"half")
    add(run, 1, [reply("c0", 1, 1.0)], 1.0)
    open_federation(tmp_path)


def test_a_round_without_an_aggregate_keeps_the_adapter_and_says_so(tmp_path):
    run = started(tmp_path)
    add(run, 1, [reply("c0", 1, 1.0)], 1.0)
    add(run, 2, [reply("c0", 1, 5.0)], None, ["Round 2: 1 of 2 clients failed."])
    found = open_federation(tmp_path).manifest
    assert found.rounds[2].participants == ()
    assert found.rounds[2].clients == {}
    assert torch.equal(run.global_arrays()[A], initial()[A] + 1.0)
    told = recording_caveats(found)
    assert "Round 2 gave no aggregate: the adapter stayed as it was." in told
    assert "Round 2: 1 of 2 clients failed." in told


def test_weights_are_the_metrics_where_nobody_counts_examples(tmp_path):
    run = started(tmp_path)
    replies = [
        ClientUpdate(name="c0", arrays=arrays(moved(1.0)), weight=0.5),
        ClientUpdate(name="c1", arrays=arrays(moved(2.0)), weight=1.5),
    ]
    add(run, 1, replies, 1.75)
    found = open_federation(tmp_path).manifest
    assert [(c.examples, c.weight) for c in found.clients] == [(0, 0.25), (0, 0.75)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"base": manifest.BaseModel(name="other", sha256="")}, "the base"),
        ({"lora": {**FACTS.lora, "lora_alpha": 8}}, "the LoRA configuration"),
        ({"recorded": {**FACTS.recorded, "strategy": "FedAdam"}}, "the strategy"),
        ({"aggregation": {"name": "fedprox", "options": {}}}, "the aggregation"),
    ],
)
def test_another_run_is_refused(tmp_path, change, told):
    started(tmp_path)
    with pytest.raises(InputError, match=f"holds another run .it differs in {told}"):
        RecordedRun(tmp_path, replace(FACTS, **change)).open()


def test_another_beginning_a_finished_run_and_foreign_files_are_refused(tmp_path):
    started(tmp_path / "a").finish()
    with pytest.raises(InputError, match="complete"):
        RecordedRun(tmp_path / "a", FACTS).open()
    started(tmp_path / "b")
    run = RecordedRun(tmp_path / "b", FACTS)
    run.open()
    with pytest.raises(InputError, match="it began with another adapter"):
        run.begin(arrays(moved(0.5)))
    (tmp_path / "c").mkdir()
    (tmp_path / "c/letter.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no federation"):
        RecordedRun(tmp_path / "c", FACTS).open()
    with pytest.raises(InputError, match="is a file"):
        RecordedRun(tmp_path / "c/letter.txt", FACTS).open()


def test_a_simulated_federation_is_another_run(tmp_path):
    started(tmp_path)
    table = json.loads((tmp_path / "federation.json").read_text())
    del table["recorded"]
    (tmp_path / "federation.json").write_text(json.dumps(table))
    with pytest.raises(InputError, match="was not recorded from Flower"):
        RecordedRun(tmp_path, FACTS).open()


def test_a_gap_a_changed_adapter_and_bad_names_are_one_line(tmp_path):
    run = started(tmp_path)
    with pytest.raises(InputError, match="round 3 follows round 0; record every round"):
        run.check_start(3, arrays(initial()))
    with pytest.raises(InputError, match="the outermost strategy"):
        run.check_start(1, arrays(moved(0.1)))
    with pytest.raises(InputError, match="two clients call themselves 'c0'"):
        run.replies(1, [reply("c0", 1, 1.0), reply("c0", 1, 2.0)])
    with pytest.raises(InputError, match="cannot name a file"):
        run.replies(1, [reply("../c0", 1, 1.0)])
    with pytest.raises(InputError, match="Round 1, the adapter of c0 lacks"):
        run.replies(1, [ClientUpdate(name="c0", arrays=arrays({A: initial()[A]}))])
    with pytest.raises(InputError, match="NaN"):
        add(run, 1, [reply("c0", 1, float("nan"))], 1.0)
    assert [one.round for one in open_federation(tmp_path).manifest.rounds] == [0]


def test_what_a_strategy_says_of_its_noise_is_among_the_limits(tmp_path):
    run = started(tmp_path)
    said = {"mechanism": "Fixed", "noise_multiplier": 1.5, "clipping_norm": 0.2}
    add(run, 1, [reply("c0", 1, 1.0)], 1.0, privacy=said)
    told = recording_caveats(open_federation(tmp_path).manifest)
    assert told[1] == "Fixed: noise multiplier 1.5, clipping norm 0.2; nothing counted its epsilon."
    assert "as said" in told
    counted = {**said, "epsilon": 3.0, "delta": 1e-5, "releases": 2}
    add(run, 2, [reply("c0", 1, 2.0)], 2.0, privacy=counted)
    assert "claims epsilon 3.0 at delta 1e-05 after 2 releases, of whole clients" in "".join(
        recording_caveats(open_federation(tmp_path).manifest)
    )
