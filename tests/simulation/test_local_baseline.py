"""Local tuning without federation: every client's own model, beside the federation's."""

import shutil
from dataclasses import replace

import pytest
import torch

from fedaudit.api.errors import UsageError
from fedaudit.federation import adapters
from fedaudit.simulation import local_baseline, rounds
from fedaudit.simulation.data import datasets
from fedaudit.simulation.data.settings import Records
from fedaudit.simulation.runner import prepare, simulate


@pytest.fixture(scope="module")
def both(small, tmp_path_factory):
    """Return a federation with local models, its settings and what was measured."""
    config = replace(small, local="plain")
    path = tmp_path_factory.mktemp("alone") / "run"
    events = []
    return path, config, simulate(config, path, listener=events.append), events


def test_the_federation_is_the_same_with_and_without(both, federation):
    path, config, _, _ = both
    name = "rounds/002/global/adapter_model.safetensors"
    assert (path / name).read_bytes() == (federation.path / name).read_bytes()
    assert config.sha256() != federation.config.sha256()
    assert not (federation.path / local_baseline.LOCAL).exists()


def test_every_client_has_a_model_of_every_round(both):
    path, _, _, events = both
    found = sorted(
        p.relative_to(path).as_posix() for p in (path / local_baseline.LOCAL).glob("*/*")
    )
    assert found == ["local/c0/001", "local/c0/002", "local/c1/001", "local/c1/002"]
    told = [(event.model_name, event.round, event.done, event.total) for event in events[-4:]]
    assert told == [
        ("c0 alone", 1, 1, 4),
        ("c1 alone", 1, 2, 4),
        ("c0 alone", 2, 3, 4),
        ("c1 alone", 2, 4, 4),
    ]


def test_a_local_model_is_that_of_a_federation_of_one(both, base):
    """The slow way: a federation's own loop over the one client, from the same start and seed."""
    from fedaudit.simulation.client.trainer import train

    path, config, result, _ = both
    run = prepare(config, path)
    tokens = datasets.tokenize_clients(
        config, base, datasets.client_documents(config, path, result.manifest.clients, ())
    )
    [job] = [
        job
        for job in local_baseline._jobs(replace(run, out=path.parent / "again", tokens=tokens), 1)
        if job.model_name == "c1 alone"
    ]
    shutil.copytree(path / "rounds/000", path.parent / "again/rounds/000")
    train(job)
    second = replace(
        job,
        round=2,
        start=job.out,
        out=path.parent / "again/second",
        seed=rounds.seed_of(config.seed, 2, "c1 alone"),
    )
    train(second)
    wanted = adapters.read(second.out)
    for name, tensor in adapters.read(local_baseline.local_adapter(path, "c1", 2)).items():
        torch.testing.assert_close(tensor, wanted[name], rtol=0, atol=0)


def test_only_its_own_documents_count(both, small, base):
    """Another client's documents change nothing of a client's own model."""
    path, config, result, _ = both
    run = prepare(config, path)
    found = datasets.client_documents(config, path, result.manifest.clients, ())
    tokens = datasets.tokenize_clients(config, base, found)
    other = replace(tokens, shared={**tokens.shared, "c0": [[5, 6, 7]]})
    jobs = [
        {
            job.model_name: job
            for job in local_baseline._jobs(replace(run, out=path / "none", tokens=some), 2)
        }
        for some in (tokens, other)
    ]
    assert jobs[0]["c1 alone"] == jobs[1]["c1 alone"]
    assert jobs[0]["c0 alone"] != jobs[1]["c0 alone"]


def test_its_training_is_no_rule_of_aggregation(both, base):
    path, config, result, _ = both
    prox = replace(config, aggregation={"name": "fedprox", "mu": 0.5})
    run = prepare(prox, path)
    tokens = datasets.tokenize_clients(
        config, base, datasets.client_documents(config, path, result.manifest.clients, ())
    )
    jobs = list(local_baseline._jobs(replace(run, out=path / "none", tokens=tokens), 1))
    assert {job.aggregator.name for job in jobs} == {"fedavg"}
    assert run.aggregator.name == "fedprox"


def test_a_stopped_run_goes_on_after_the_last_training(both, tmp_path):
    path, config, _, _ = both
    shutil.copytree(path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/local/c1/002")
    events = []
    simulate(config, tmp_path / "run", listener=events.append)
    assert [(event.model_name, event.round, event.done) for event in events] == [("c1 alone", 2, 4)]
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        where = f"local/c1/002/{name}"
        assert (tmp_path / "run" / where).read_bytes() == (path / where).read_bytes()


def test_utility_is_the_mean_of_the_local_models(both, federation):
    from fedaudit.api.records import Target
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine
    from fedaudit.simulation.evaluation.utility import losses
    from fedaudit.simulation.runner import held_out

    path, config, result, _ = both
    rows = {
        (row.scope["source"], row.metric): row
        for row in result.measurements
        if row.kind == "utility" and "task" not in row.scope
    }
    engine = LocalEngine(load_base("fedaudit-nano", device="cpu"))
    documents = held_out(config, path)
    every = [
        losses(
            engine,
            Target(name=who, adapter=str(local_baseline.local_adapter(path, who, 2))),
            documents,
            config.training.max_length,
        )
        for who in ("c0", "c1")
    ]
    mean = sum(sum(one) / len(one) for one in every) / 2
    assert rows["local", "loss"].value == pytest.approx(mean, rel=1e-5)
    assert rows["local", "loss"].scope == {"source": "local", "clients": 2}
    assert rows["tuned", "loss"].value != pytest.approx(mean, rel=1e-3)
    own = [row for row in federation.result.measurements if row.kind == "utility"]
    assert "local" not in {row.scope["source"] for row in own}
    # What is trained alone sends nothing and is not a cost of the federation.
    costs = [r for r in result.measurements if r.kind == "cost"]
    assert costs == [r for r in federation.result.measurements if r.kind == "cost"]


# Alone, but through a defence's stages: a federation of one


def one(small, **changes):
    return replace(
        small,
        clients=1,
        evaluated=0,
        template="alpaca",
        records=Records(cases=2, documents_per_case=2, tasks=("summary",), languages=("en",)),
        training=replace(small.training, steps=2, max_length=128),
        **changes,
    )


@pytest.mark.parametrize(("local", "defences"), [("plain", ()), ("defended", ("few_fed_weight",))])
def test_who_is_alone_is_a_federation_of_one(small, tmp_path, monkeypatch, local, defences):
    """The federation's own loop does the same, once both draw from the same seeds."""
    monkeypatch.setattr(rounds, "seed_of", lambda seed, number, who: number + 10 * who.count("/"))
    options = tuple({"name": name, "answer_tokens": 8} for name in defences)
    simulate(one(small, local=local, defenses=options), tmp_path / "r", listener=lambda event: None)
    for number in (1, 2):
        found = adapters.read(local_baseline.local_adapter(tmp_path / "r", "c0", number))
        wanted = adapters.read(tmp_path / f"r/rounds/{number:03d}/global")
        for name, tensor in wanted.items():
            torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-7)
    assert (tmp_path / "r/local").stat().st_mode & 0o077 == 0


def test_plain_is_without_the_defence(small, tmp_path):
    options = ({"name": "few_fed_weight", "answer_tokens": 8},)
    run = prepare(one(small, local="plain", defenses=options), tmp_path / "r")
    assert run.defenses
    assert local_baseline.local_defenses(run) == ()
    defended = prepare(one(small, local="defended", defenses=options), tmp_path / "r")
    assert local_baseline.local_defenses(defended) == tuple(defended.defenses)


def test_a_defence_with_private_adapters_is_refused(small, tmp_path):
    gated = replace(small, local="defended", defenses=("secure_gate",))
    with pytest.raises(UsageError, match="private adapters, which a client that is alone"):
        prepare(gated, tmp_path / "r")
    prepare(replace(gated, local="plain"), tmp_path / "r")
