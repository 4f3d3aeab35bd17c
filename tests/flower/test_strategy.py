"""A recorded strategy does what the strategy does, and leaves a federation of it behind."""

import errno
import os
from types import SimpleNamespace

import pytest
import torch
from flower_run import LORA, A, Grid, initial, needs_flower, record_of

from fedaudit.api.errors import InputError, UsageError
from fedaudit.federation import adapters
from fedaudit.federation.folder import check_consecutive, open_federation, recording_caveats
from fedaudit.flower import record, strategy
from fedaudit.flower.mods import node_name, reply_name
from fedaudit.flower.strategy import lora_table


def run(place, grid, *, rounds=2, made=None, wrap=lambda one: one, seed=0, **options):
    from flwr.serverapp.strategy import FedAvg

    chosen = made or FedAvg(fraction_evaluate=0.0)
    recorded = record(wrap(chosen), place, lora=LORA, template="fed_pii", **options)
    return recorded.start(grid, record_of(initial(seed)), num_rounds=rounds)


def weight(place, name):
    return adapters.read(place / name)[A]


def test_without_flower_there_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(strategy, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'fedaudit\[flower\]'"):
        record(object(), tmp_path, lora=LORA)


def test_a_node_is_called_by_its_configuration():
    assert node_name({"client-name": "bank", "partition-id": 3}) == "bank"
    assert node_name({"partition-id": 0}) == "c0"
    assert node_name({}) == ""
    silent = SimpleNamespace(
        content=SimpleNamespace(config_records={}), metadata=SimpleNamespace(src_node_id=7)
    )
    assert reply_name(silent) == "node-7"


def test_lora_is_a_configuration_a_model_or_a_file(tmp_path):
    from peft import LoraConfig

    config = LoraConfig(r=2, lora_alpha=4, target_modules=["v_proj", "q_proj"])
    adapters.write(initial(), LORA, tmp_path)
    model = SimpleNamespace(peft_config={"default": config}, active_adapter="default")
    for one in (config, model):
        table = lora_table(one)
        assert (table["peft_type"], table["target_modules"]) == ("LORA", ["q_proj", "v_proj"])
    assert lora_table(tmp_path) == lora_table(tmp_path / "adapter_config.json") == lora_table(LORA)
    with pytest.raises(InputError, match="audits LoRA"):
        lora_table({"peft_type": "IA3"})
    with pytest.raises(UsageError, match="not int"):
        lora_table(3)


def test_the_rounds_of_a_run_are_a_federation(tmp_path):
    needs_flower()
    place, grid = tmp_path / "run", Grid()
    result = run(place, grid)
    found = open_federation(place)
    check_consecutive(found)
    assert found.manifest.status == "complete"
    assert found.manifest.aggregation == {"name": "fedavg", "options": {}}
    told = [(one.id, one.examples, one.weight) for one in found.manifest.clients]
    assert told == [("c0", 1, 0.125), ("c1", 3, 0.375), ("c2", 4, 0.5)]
    # Client k adds k + 1: a round adds 1 * 1/8 + 2 * 3/8 + 3 * 4/8 = 19/8.
    for number in (1, 2):
        before = weight(place, f"rounds/{number - 1:03d}/global")
        assert torch.allclose(weight(place, f"rounds/{number:03d}/global"), before + 19 / 8)
        assert torch.equal(weight(place, f"rounds/{number:03d}/clients/c2"), before + 3)
        assert found.manifest.rounds[number].loss == {"c0": 1.5, "c1": 2.5, "c2": 3.5}
    last = torch.from_numpy(result.arrays[A].numpy().copy())
    assert torch.equal(last, weight(place, "rounds/002/global"))
    assert found.manifest.recorded["strategy"] == "FedAvg"
    assert grid.rounds == [1, 1, 1, 2, 2, 2]


def test_it_is_what_our_own_rule_makes_of_the_same_updates(tmp_path):
    needs_flower()
    from fedaudit.config import registry

    run(tmp_path, Grid(examples=(3, 5, 7)), rounds=1)
    start = adapters.read(tmp_path / "rounds/000/global")
    sent = [adapters.read(tmp_path / f"rounds/001/clients/c{k}") for k in range(3)]
    ours, _ = registry.create("aggregation", "fedavg", {}).step(start, sent, [3, 5, 7], {})
    theirs = adapters.read(tmp_path / "rounds/001/global")
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6) for name in ours)


def test_a_run_that_was_stopped_goes_on_and_counts_on(tmp_path):
    needs_flower()
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(whole, Grid(), rounds=3)
    with pytest.raises(ZeroDivisionError):
        run(parts, Grid(fails=lambda number, node: 1 / (2 - number) < 0), rounds=3)
    assert open_federation(parts).manifest.status == "running"
    grid, seen = Grid(), []
    from flwr.serverapp.strategy import FedAvg

    recorded = record(FedAvg(fraction_evaluate=0.0), parts, lora=LORA, template="fed_pii")
    result = recorded.start(
        grid, record_of(initial()), num_rounds=3, evaluate_fn=lambda n, a: seen.append(n)
    )
    assert sorted(set(grid.rounds)) == sorted(set(result.train_metrics_clientapp)) == [2, 3]
    assert seen == [1, 2, 3]
    for number in (0, 1, 2, 3):  # Flower adds clients up in another order each time
        name = f"rounds/{number:03d}/global"
        assert torch.allclose(weight(parts, name), weight(whole, name), atol=1e-5)
    assert open_federation(parts).manifest.status == "complete"


def test_failed_clients_and_a_failed_round_are_told(tmp_path):
    needs_flower()
    run(tmp_path, Grid(fails=lambda number, node: number == 2 or node == 0))
    found = open_federation(tmp_path).manifest
    assert [one.participants for one in found.rounds] == [(), ("c1", "c2"), ()]
    told = recording_caveats(found)
    assert "Round 1: 1 of 3 clients failed." in told
    assert "Round 2 gave no aggregate: the adapter stayed as it was." in told
    assert torch.equal(weight(tmp_path, "rounds/002/global"), weight(tmp_path, "rounds/001/global"))


def test_nodes_without_a_name_are_called_by_their_number(tmp_path):
    needs_flower()
    run(tmp_path, Grid(named=False), rounds=1)
    ids = [one.id for one in open_federation(tmp_path).manifest.clients]
    assert ids == ["node-1000", "node-1001", "node-1002"]


def test_noise_and_clipping_are_told_and_updates_kept_as_they_were_sent(tmp_path):
    needs_flower()
    from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping as Fixed

    run(tmp_path, Grid(examples=(2, 2, 2)), rounds=1, wrap=lambda one: Fixed(one, 0.5, 0.25, 3))
    found = open_federation(tmp_path).manifest
    assert found.recorded["privacy"] == {
        "mechanism": "DifferentialPrivacyServerSideFixedClipping",
        "unit": "client",
        "noise_multiplier": 0.5,
        "clipping_norm": 0.25,
        "sampled_clients": 3,
    }
    start = weight(tmp_path, "rounds/000/global")
    assert torch.equal(weight(tmp_path, "rounds/001/clients/c2"), start + 3)
    # Clipped to a norm of 0.25 over 640 numbers, and noise of 0.5 * 0.25 / 3 in each.
    change = weight(tmp_path, "rounds/001/global") - start
    assert 0.02 < change.std() < 0.07


def test_an_accountants_epsilon_is_written():
    spent = SimpleNamespace(epsilon=2.5, delta=1e-5, num_releases=4, accounting_method="rdp")
    config = SimpleNamespace(
        population_size=10,
        neighboring_relation=SimpleNamespace(value="add-or-remove-one"),
        sampling_method=SimpleNamespace(value="no-amplification"),
        max_epsilon=None,
    )
    wrapper = SimpleNamespace(
        strategy=SimpleNamespace(),
        noise_multiplier=1.0,
        clipping_norm=2.0,
        num_sampled_clients=5,
        privacy_spent=lambda: spent,
        accountant=SimpleNamespace(config=config),
    )
    told = strategy.privacy(wrapper)
    assert (told["epsilon"], told["delta"], told["releases"]) == (2.5, 1e-5, 4)
    assert told["neighboring_relation"] == "add-or-remove-one"
    assert strategy.privacy(SimpleNamespace()) is None


def test_rules_of_flower_are_ours_by_name_and_options(tmp_path):
    needs_flower()
    from flwr.serverapp.strategy import FedAdam, FedMedian, FedProx

    from fedaudit.config import registry

    class Renamed(FedProx):
        pass

    adam = strategy.aggregation(FedAdam(eta=0.5, beta_1=0.8, beta_2=0.9, tau=0.01))
    assert adam == {
        "name": "fedadam",
        "options": {"rate": 0.5, "beta1": 0.8, "beta2": 0.9, "tau": 0.01},
    }
    assert strategy.aggregation(Renamed(proximal_mu=0.3)) == {
        "name": "fedprox",
        "options": {"mu": 0.3},
    }
    assert strategy.known_class(FedMedian()) == ""
    for made in (FedAdam(), FedProx(), FedMedian()):
        said = strategy.aggregation(made)
        registry.create("aggregation", said["name"], said["options"])


def test_what_cannot_be_recorded_is_refused_in_one_line(tmp_path):
    needs_flower()
    from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping as Fixed
    from flwr.serverapp.strategy import FedAvg

    class Own(FedAvg):
        def start(self, *args, **options):
            return None

    recorded = record(FedAvg(), tmp_path / "a", lora=LORA)
    for made, told in [
        (object(), "object is not a strategy"),
        (Own(), "start.. of its own"),
        (recorded, "recorded already"),
        (Fixed(recorded, 1.0, 1.0, 3), "record the outermost one"),
    ]:
        with pytest.raises(UsageError, match=told):
            record(made, tmp_path / "b", lora=LORA)
    with pytest.raises(InputError, match="Another run is recorded into"):
        record(FedAvg(), tmp_path / "a", lora=LORA)
    with pytest.raises(UsageError, match="names no base"):
        record(FedAvg(), tmp_path / "b", lora={"peft_type": "LORA"})
    with pytest.raises(InputError, match="bias is set"):
        record(FedAvg(), tmp_path / "b", lora={**LORA, "bias": "all"}).start(
            Grid(), record_of(initial())
        )


def test_noise_that_a_wrapper_adds_behind_the_recorder_is_noticed(tmp_path):
    needs_flower()
    from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping as Fixed
    from flwr.serverapp.strategy import FedAvg

    inner = record(FedAvg(fraction_evaluate=0.0), tmp_path, lora=LORA)
    with pytest.raises(InputError, match="outermost strategy"):
        Fixed(inner, 1.0, 1.0, 3).start(Grid(), record_of(initial()), num_rounds=2)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("after", [0, 1, 2, 5, 7])
def test_a_disk_that_fails_ends_the_recording_and_no_training(
    tmp_path, monkeypatch, caplog, number, after
):
    """Fails at the n-th file and from there on: the model is the same, the folder stays valid."""
    from fedaudit.system import files

    needs_flower()
    expected = run(tmp_path / "whole", Grid())
    written = 0

    def stage(folder):
        nonlocal written
        written += 1
        if written > after:
            raise OSError(number, os.strerror(number), str(folder))
        return real(folder)

    real = files.staging.stage
    monkeypatch.setattr(files.staging, "stage", stage)
    with caplog.at_level("WARNING", "flwr"):
        result = run(tmp_path / "cut", Grid())
    for name, array in expected.arrays.items():  # Flower sums in the order in which nodes answer
        assert result.arrays[name].numpy() == pytest.approx(array.numpy(), rel=1e-5)
    assert sum("training goes on" in line for line in caplog.messages) == 1
    monkeypatch.undo()
    if (tmp_path / "cut/federation.json").exists():
        assert open_federation(tmp_path / "cut").manifest.status != "complete"
