"""What clients remember: into the gradient, into the federation's folder, and back after a stop."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file

from fedaudit.api.defense import Defense
from fedaudit.api.errors import UsageError
from fedaudit.config import registry
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import open_federation
from fedaudit.simulation import rounds
from fedaudit.simulation.client import trainer
from fedaudit.simulation.client.trainer import ClientTraining, train
from fedaudit.simulation.data.datasets import ClientSequences
from fedaudit.simulation.runner import simulate
from fedaudit.simulation.server import state as memory


def silent(event):
    pass


def files(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


@pytest.fixture(scope="module")
def settings(small):
    return replace(
        small,
        clients=3,
        rounds=3,
        participation=0.67,
        aggregation="scaffold",
        seed=3,
        evaluated=0,
        training=replace(small.training, steps=2),
    )


@pytest.fixture(scope="module")
def drifting(settings, tmp_path_factory):
    """Return the folder of a federation under SCAFFOLD in which two of three take part."""
    path = tmp_path_factory.mktemp("drifting") / "run"
    simulate(settings, path, listener=silent)
    return path


@pytest.fixture
def job(federation, base, tmp_path):
    texts = ["The claimant Ann Lee lives in Leeds.", "Paid 5 pounds by order of the court."]
    return ClientTraining(
        model_name="c0",
        base="fedaudit-nano",
        start=federation.path / "rounds/001/global",
        out=tmp_path / "out",
        sequences=[base.tokenizer(text)["input_ids"] for text in texts],
        training=replace(
            federation.config.training, steps=1, batch_size=2, clip=0.05, decay="none"
        ),
        round=1,
        rounds=1,
        seed=5,
        aggregator=registry.create("aggregation", "scaffold"),
        device="cpu",
        dtype="auto",
        threads=1,
    )


def gradient(job, base):
    """Return the clipped gradient where the job begins, from a model of its own."""
    from peft import PeftConfig

    from fedaudit.engine.loading.loader import fit, with_adapter

    table = {**adapters.check(job.start), "inference_mode": False}
    model = with_adapter(base.model, PeftConfig.from_peft_type(**table), "own", trainable=True)
    fit(model, adapters.read(job.start), "own", str(job.start))
    model(**trainer.pad_batch(job.sequences, "cpu")).loss.backward()
    found = {
        name.replace(".own.", "."): parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    norm = torch.stack([g.square().sum() for g in found.values()]).sum().sqrt()
    assert norm > job.training.clip
    return {name: g * job.training.clip / norm for name, g in found.items()}


def test_one_step_by_hand(job, fresh_base, tmp_path):
    """AdamW's first step of h is rate * h / (|h| + 1e-8), with h = g - c_i + c."""
    start = adapters.read(job.start)
    draw = torch.Generator().manual_seed(1)
    c, own = (
        {name: torch.randn(t.shape, generator=draw).double() / 500 for name, t in start.items()}
        for _ in range(2)
    )
    here = tmp_path / "c.safetensors", tmp_path / "own.safetensors"
    for state, path in zip((c, own), here, strict=True):
        adapters.write_state({"variate": state}, path)
    train(replace(job, state_files=here))
    g = gradient(job, fresh_base)
    kept = adapters.read_state(job.out / memory.STATE)["variate"]
    end = adapters.read(job.out)
    assert kept.keys() == end.keys() == g.keys()
    for name, tensor in end.items():
        torch.testing.assert_close(kept[name], g[name], rtol=1e-4, atol=1e-7)
        h = kept[name] - own[name] + c[name]
        wanted = start[name] - job.training.learning_rate * h / (h.abs() + 1e-8)
        torch.testing.assert_close(tensor, wanted.float(), rtol=1e-4, atol=1e-6)


def test_what_is_remembered_is_the_mean_over_the_steps(job, tmp_path):
    """A rate of nearly nothing leaves the weights, so that each step has a batch's gradient."""
    still = replace(job.training, learning_rate=1e-12, batch_size=1, clip=1e9)
    none = tmp_path / "none", tmp_path / "nothing"

    def kept(name, sequences, steps):
        done = replace(
            job,
            out=tmp_path / name,
            sequences=sequences,
            training=replace(still, steps=steps),
            state_files=none,
        )
        train(done)
        return adapters.read_state(done.out / memory.STATE)["variate"]

    together = kept("both", job.sequences, 4)  # each of the two twice
    one, two = (kept(f"{i}", [sequence], 1) for i, sequence in enumerate(job.sequences))
    for name, tensor in together.items():
        torch.testing.assert_close(tensor, (one[name] + two[name]) / 2, rtol=1e-4, atol=1e-6)


def test_without_memory_nothing_is_written(job):
    train(job)
    assert sorted(path.name for path in job.out.iterdir()) == [adapters.CONFIG, adapters.WEIGHTS]


def test_the_first_round_is_fedavgs_to_the_byte_and_the_second_is_not(federation, tmp_path):
    wanted = replace(federation.config, aggregation="scaffold")
    simulate(wanted, tmp_path / "run", listener=silent)
    plain, found = files(federation.path), files(tmp_path / "run")
    adapter = {name for name in plain if name.endswith(adapters.WEIGHTS)}
    first = {name for name in adapter if name.startswith(("rounds/000", "rounds/001"))}
    assert len(first) == 4
    assert all(plain[name] == found[name] for name in first)
    assert all(plain[name] != found[name] for name in adapter - first)


def test_the_servers_variate_is_the_mean_of_what_clients_remember(drifting, settings):
    found = manifest.read(drifting)
    examples = {one.id: one.examples for one in found.clients}
    absent = 0
    for number in range(1, settings.rounds + 1):
        chosen = rounds.participants(settings, number)
        written = {
            who for who in examples if memory.client_state_path(drifting, number, who).is_file()
        }
        assert written == set(chosen)
        absent += any(
            memory.initial_client_state_path(drifting, number + 1, who).is_file()
            for who in examples.keys() - written
        )
        own = {
            who: load_file(path)
            for who in examples
            if (path := memory.initial_client_state_path(drifting, number + 1, who)).is_file()
        }
        server = load_file(memory.server_state_path(drifting, number))
        for name, c in server.items():
            total = sum(own[who][name].double() * examples[who] for who in own)
            torch.testing.assert_close(c, total / sum(examples.values()), rtol=1e-9, atol=1e-12)
            assert c.any()
    assert absent  # some round passed over a client that already remembered something


def test_the_manifest_names_what_is_remembered(drifting):
    named = open_federation(drifting).manifest.files
    states = {name for name in files(drifting) if name.endswith(memory.STATE)}
    assert len(states) == 3 + 3 * 2
    assert states <= named.keys()


class Stop(Exception):
    pass


def test_a_stopped_run_goes_on_to_the_same_bytes_with_any_number_of_workers(
    drifting, settings, tmp_path
):
    def stop(event):
        if event.round == 2:
            raise Stop

    out = tmp_path / "run"
    with pytest.raises(Stop):
        simulate(replace(settings, workers=2), out, listener=stop)
    assert len(manifest.read(out).rounds) == 2
    assert simulate(settings, out, listener=silent).resumed_from == 1
    found, whole = files(out), files(drifting)
    told = [json.loads(own.pop(manifest.NAME)) for own in (found, whole)]
    assert found == whole
    for table in told:
        table["config"].pop("workers")
    assert told[0] == told[1]


def test_only_the_shared_adapter_is_corrected(settings, tmp_path):
    ends = []
    for rule in ("scaffold", "fedavg"):
        wanted = replace(settings, rounds=2, participation=0.34, central=True, aggregation=rule)
        simulate(wanted, tmp_path / rule, listener=silent)
        ends.append(files(tmp_path / rule / "central"))
    assert ends[0] == ends[1]
    assert set(ends[0]) == {
        f"00{n}/{f}" for n in (1, 2) for f in (adapters.CONFIG, adapters.WEIGHTS)
    }


def test_the_last_memory_before_a_round_is_found(tmp_path):
    for number in (1, 3):
        path = memory.client_state_path(tmp_path, number, "c1")
        path.parent.mkdir(parents=True)
        path.touch()
    assert [
        memory.initial_client_state_path(tmp_path, n, "c1").parts[-4] for n in (2, 3, 4, 9)
    ] == [
        "001",
        "001",
        "003",
        "003",
    ]
    assert not memory.initial_client_state_path(tmp_path, 1, "c1").exists()
    assert not memory.initial_client_state_path(tmp_path, 9, "c2").exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"secure_aggregation": "ideal"}, "second message"),
        ({"defenses": ("dp",)}, "corrects the clients' gradients.*dp"),
    ],
    ids=["secure aggregation", "dp"],
)
def test_what_knows_nothing_of_the_second_message_is_refused(settings, changes, told, tmp_path):
    many = replace(settings, clients=8, participation=1.0, **changes)
    with pytest.raises(UsageError, match=told):
        simulate(many, tmp_path / "run", listener=silent)
    assert not (tmp_path / "run").exists()


@dataclass(frozen=True)
class Clipped(Defense):
    """Sends half of what was trained."""

    name: ClassVar[str] = "half"

    def upload(self, start, trained, private):
        return {name: (trained[name] + start[name]) / 2 for name in trained}


def test_a_defence_that_changes_the_upload_is_refused(settings, tmp_path):
    def run(aggregation):
        return rounds.Run(
            config=settings,
            out=tmp_path,
            aggregator=registry.create("aggregation", aggregation),
            defenses=[Clipped()],
            tokens=ClientSequences(shared={}, private={}),
        )

    with pytest.raises(UsageError, match="mean gradient too, which the defence half"):
        run("scaffold")
    assert run("fedprox").aggregator.name == "fedprox"
