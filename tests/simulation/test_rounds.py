import json
import multiprocessing
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import fork
import pytest
import torch
from processes import is_running, wait_until

from fedaudit.api.errors import InputError, Interrupted, UsageError
from fedaudit.api.templates import template
from fedaudit.config.options import build
from fedaudit.data import corpus
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import open_federation
from fedaudit.simulation import rounds
from fedaudit.simulation.client import training_pool
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data import datasets
from fedaudit.simulation.data.settings import Partition
from fedaudit.simulation.initialization import documents
from fedaudit.simulation.runner import differing_settings, evaluate, existing_manifest, simulate

LAST = "rounds/002/global/adapter_model.safetensors"


def silent(event):
    pass


def files(folder):
    """Return what a federation consists of: its files' bytes by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def copied(federation, folder, *, rounds):
    """Return a copy of the federation as it was after `rounds` rounds."""
    shutil.copytree(federation.path, folder)
    found = manifest.read(folder)
    for number in range(rounds + 1, len(found.rounds)):
        shutil.rmtree(folder / f"rounds/{number:03d}")
    kept = {
        name: value
        for name, value in found.files.items()
        if not name.startswith("rounds/") or int(name.split("/")[1]) <= rounds
    }
    manifest.write(
        replace(found, rounds=found.rounds[: rounds + 1], files=kept, status="running"), folder
    )
    return folder


def test_private_records_are_their_owners_alone(federation):
    data = federation.path / "data"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in data.iterdir()}
    assert modes == {"c0.jsonl": 0o600, "c1.jsonl": 0o600, "held_out.jsonl": 0o600}


def test_a_federation_is_what_its_manifest_says(federation):
    found = open_federation(federation.path).manifest
    assert found == federation.result.manifest
    assert found.status == "complete"
    assert [r.round for r in found.rounds] == [0, 1, 2]
    assert [r.participants for r in found.rounds] == [(), ("c0", "c1"), ("c0", "c1")]
    assert set(found.files) | {manifest.NAME} == set(files(federation.path))
    assert sum(client.weight for client in found.clients) == pytest.approx(1)
    form = template(federation.config.template)
    for client in found.clients:
        own = list(corpus.read(federation.path / client.data, form))
        assert len(own) == client.examples
        assert client.weight == pytest.approx(client.examples / 18)
    assert federation.result.resumed_from is None
    rows = federation.result.measurements
    assert {row.scope["source"] for row in rows if row.kind == "utility"} == {"base", "tuned"}
    assert {row.metric for row in rows if row.kind == "cost"} == {
        "parameters",
        "bytes_sent",
        "flops",
    }


def test_the_initial_adapter_changes_nothing(federation, fresh_base, base):
    from fedaudit.api.records import Target
    from fedaudit.engine.local import LocalEngine

    start = federation.path / "rounds/000/global"
    tensors = adapters.read(start)
    assert all((t == 0).all() == (".lora_B." in name) for name, t in tensors.items())
    rows = [list(range(5, 25))]
    found = LocalEngine(fresh_base).score(Target(name="t", adapter=str(start)), rows)
    assert found == LocalEngine(base).score(Target(name="b"), rows)


def test_a_global_adapter_is_the_weighted_mean_of_the_clients(federation):
    found = federation.result.manifest
    examples = {client.id: client.examples for client in found.clients}
    for finished in found.rounds[1:]:
        own = {who: adapters.read(federation.path / f) for who, f in finished.clients.items()}
        total = sum(examples[who] for who in own)
        for name, tensor in adapters.read(federation.path / finished.adapter).items():
            wanted = sum(own[who][name].double() * examples[who] / total for who in own)
            torch.testing.assert_close(tensor.double(), wanted, rtol=1e-6, atol=1e-8)


def config(**changes):
    return Simulation(**{"clients": 10, "rounds": 5, **changes})


def test_everybody_takes_part_unless_a_share_is_set():
    assert rounds.participants(config(), 3) == [f"c{i}" for i in range(10)]
    assert len(rounds.participants(config(participation=0.3), 1)) == 3
    assert len(rounds.participants(config(participation=0.01), 1)) == 1


def test_participants_are_drawn_by_seed_and_round():
    half = config(participation=0.5)
    drawn = [rounds.participants(half, number) for number in range(1, 200)]
    assert drawn == [rounds.participants(half, number) for number in range(1, 200)]
    assert rounds.participants(replace(half, seed=1), 1) != drawn[0] != drawn[1]
    assert all(len(set(chosen)) == 5 for chosen in drawn)
    assert all(chosen == sorted(chosen) for chosen in drawn)
    counts = Counter(who for chosen in drawn for who in chosen)
    # 199 draws at one half: five standard deviations are 35.
    assert all(64 < counts[f"c{i}"] < 135 for i in range(10))


def test_some_take_part_and_a_central_model_is_trained_beside_them(small, tmp_path):
    wanted = replace(small, clients=3, participation=0.67, central=True, rounds=1, seed=2)
    events = []
    result = simulate(wanted, tmp_path / "run", listener=events.append)
    [_, first] = result.manifest.rounds
    assert list(first.participants) == rounds.participants(wanted, 1)
    assert set(first.clients) == set(first.loss) == set(first.participants)
    assert sorted(event.model_name for event in events) == sorted([*first.participants, "central"])
    assert [(event.done, event.total) for event in events] == [(1, 3), (2, 3), (3, 3)]
    rows = [row for row in result.measurements if row.kind == "utility"]
    assert {row.scope["source"] for row in rows} == {"base", "tuned", "central"}
    assert (tmp_path / "run/central/001/adapter_model.safetensors").is_file()


class Stop(Exception):
    pass


def test_a_run_stopped_in_any_round_goes_on_to_the_same_end(federation, tmp_path):
    out = tmp_path / "run"

    def stop_in(number):
        def listener(event):
            if event.round == number:
                raise Stop

        return listener

    for number in (1, 2):
        with pytest.raises(Stop):
            simulate(federation.config, out, listener=stop_in(number))
        found = manifest.read(out)
        assert (len(found.rounds), found.status) == (number, "running")
    events = []
    result = simulate(federation.config, out, listener=events.append)
    assert result.resumed_from == 1
    assert {event.round for event in events} == {2}
    assert [(event.done, event.total) for event in events] == [(3, 4), (4, 4)]
    assert files(out) == files(federation.path)
    assert result.measurements == federation.result.measurements


def test_a_finished_run_is_not_run_again(federation, tmp_path):
    out = shutil.copytree(federation.path, tmp_path / "run")
    events = []
    again = simulate(federation.config, out, listener=events.append)
    assert events == []
    assert again.resumed_from == 2
    assert again.manifest == federation.result.manifest
    assert again.measurements == federation.result.measurements
    assert files(out) == files(federation.path)


KILLED = """
import json, multiprocessing, os, signal
from pathlib import Path
from fedaudit.config.options import build
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.runner import simulate

def kill(event):
    if event.round == 2:
        print(json.dumps([child.pid for child in multiprocessing.active_children()]), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    if {forked}:
        context = multiprocessing.get_context("fork")
        multiprocessing.get_context = lambda kind: context
    simulate(build(Simulation, json.loads({settings!r}), "test"), Path({out!r}), listener=kill)
"""


@pytest.mark.parametrize("forked", [True, pytest.param(False, marks=pytest.mark.oracle)])
def test_a_killed_run_leaves_no_worker_and_goes_on_to_the_same_end(federation, tmp_path, forked):
    """Two workers are killed with their parent; one worker, here, finishes what they began."""
    out, script = tmp_path / "run", tmp_path / "killed.py"
    settings = json.dumps(replace(federation.config, workers=2).table())
    script.write_text(KILLED.format(forked=forked, settings=settings, out=str(out)))
    if forked:
        done = fork.program(script.read_text(), real=True)
    else:
        command = [sys.executable, script]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pids = json.loads(done.stdout)
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_running, pids)))
    assert len(manifest.read(out).rounds) == 2
    (out / "rounds/001/global/.adapter_model.safetensors.6pkw8dpg").write_text("cut off")
    result = simulate(federation.config, out, listener=silent)
    assert result.resumed_from == 1
    whole, found = files(federation.path), files(out)
    told = json.loads(found.pop(manifest.NAME)), json.loads(whole.pop(manifest.NAME))
    assert found == whole
    for table in told:
        table["config"].pop("workers")
    assert told[0] == told[1]


def test_workers_end_at_once_when_the_run_fails():
    pids = []

    def fail():
        with training_pool.workers(config(workers=2, device="cpu")) as pool:
            asleep = [pool.submit(time.sleep, 600) for _ in range(2)]
            wait_until(lambda: all(future.running() for future in asleep))
            pids.extend(child.pid for child in multiprocessing.active_children())
            raise Stop

    with pytest.raises(Stop):
        fail()
    assert len(pids) >= 2
    wait_until(lambda: not any(map(is_running, pids)))


def test_a_worker_that_dies_is_an_interruption_not_a_bug():
    wanted = config(workers=2, device="cpu")
    with (
        pytest.raises(Interrupted, match="workers=1") as error,
        training_pool.workers(wanted) as pool,
    ):
        pool.submit(os._exit, 1).result()
    assert error.value.exit_code == 6


@pytest.fixture
def records(small, tmp_path):
    """Return settings that read their documents from a file, and those documents."""
    found = documents(small)
    corpus.write(tmp_path / "in.jsonl", found)
    training = replace(small.training, steps=2)
    return replace(small, data=str(tmp_path / "in.jsonl"), rounds=1, training=training), found


def test_the_order_of_the_input_changes_nothing(records, tmp_path):
    wanted, found = records
    wanted = replace(wanted, partition=Partition(method="cluster", clusters=3))
    one = simulate(wanted, tmp_path / "one", listener=silent)
    random.Random(3).shuffle(found)
    corpus.write(Path(wanted.data), found)
    two = simulate(wanted, tmp_path / "two", listener=silent)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert one.measurements == two.measurements


def test_prompts_are_no_training_data(records, tmp_path):
    wanted, _ = records
    Path(wanted.data).write_text('{"prefix": "My name is"}\n' * 5)
    with pytest.raises(InputError, match="holds prompts"):
        simulate(wanted, tmp_path / "out", listener=silent)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]


def test_texts_are_cut_to_what_the_model_can_take(records, base, tmp_path):
    tokenizer = base.tokenizer
    [long, short] = datasets.text_sequences(tokenizer, ["word " * 100, "one"], 20)
    assert len(long) == 20
    assert short == [1, *tokenizer("one", add_special_tokens=False)["input_ids"], 2]
    wanted, _ = records
    wanted = replace(wanted, training=replace(wanted.training, max_length=10**6))
    Path(wanted.data).write_text(json.dumps({"text": "word " * 5000}) + "\n" + '{"text": "b"}\n')
    client = manifest.ManifestClient(id="c0", examples=2, weight=1.0, data="in.jsonl")
    found = datasets.client_documents(wanted, tmp_path, [client], [])
    [own] = datasets.tokenize_clients(wanted, base, found).shared.values()
    assert len(own[0]) == base.context_length


def test_too_few_documents_leave_nothing_behind(small, tmp_path):
    out = tmp_path / "below" / "run"
    with pytest.raises(InputError, match="too few to train 40 clients") as error:
        simulate(replace(small, clients=40), out, listener=silent)
    assert error.value.exit_code == 3
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_writing_leaves_nothing_behind(small, tmp_path, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedaudit.simulation.initialization.initial_adapter", fail)
    with pytest.raises(OSError, match="No space"):
        simulate(small, tmp_path / "run", listener=silent)
    assert list(tmp_path.iterdir()) == []


def test_adapters_that_do_not_fit_the_base_leave_nothing_behind(small, tmp_path):
    wanted = replace(small, training=replace(small.training, targets=("query",)))
    with pytest.raises(InputError, match="query"):
        simulate(wanted, tmp_path / "run", listener=silent)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        simulate(small, tmp_path / "file" / "run", listener=silent)
    with pytest.raises(InputError, match="is not empty and holds no federation"):
        simulate(small, tmp_path / "file", listener=silent)


def test_only_an_empty_place_or_the_same_run_will_do(federation, tmp_path):
    wanted = federation.config
    assert existing_manifest(wanted, tmp_path / "nowhere") is None
    assert existing_manifest(wanted, tmp_path) is None
    assert existing_manifest(wanted, federation.path) == federation.result.manifest
    assert (
        existing_manifest(replace(wanted, workers=7), federation.path) == federation.result.manifest
    )
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty and holds no federation") as error:
        simulate(wanted, tmp_path, listener=silent)
    assert error.value.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_another_runs_place_is_refused_and_the_difference_named(federation):
    before = files(federation.path)
    other = replace(federation.config, seed=9, training=replace(federation.config.training, rank=2))
    with pytest.raises(InputError, match=r"differs in seed, training\)"):
        simulate(other, federation.path, listener=silent)
    assert files(federation.path) == before
    assert (
        differing_settings(federation.result.manifest, federation.config) == "what is in its data"
    )


def test_what_was_changed_since_is_not_built_upon(federation, tmp_path):
    out = copied(federation, tmp_path / "run", rounds=1)
    for name in ("data/c0.jsonl", "rounds/001/global/adapter_model.safetensors"):
        content = (out / name).read_bytes()
        (out / name).write_bytes(content.replace(b"a", b"b", 1))
        with pytest.raises(InputError, match="is not the file that"):
            simulate(federation.config, out, listener=silent)
        (out / name).write_bytes(content)
    simulate(federation.config, out, listener=silent)
    assert files(out) == files(federation.path)


def test_another_base_is_not_built_upon(federation, tmp_path):
    out = copied(federation, tmp_path / "run", rounds=1)
    found = manifest.read(out)
    manifest.write(replace(found, base=replace(found.base, sha256="00")), out)
    with pytest.raises(InputError, match=r"is not the one that .* was begun with"):
        simulate(federation.config, out, listener=silent)


def test_the_seed_changes_the_federation(small, federation, tmp_path):
    simulate(replace(small, seed=1, rounds=1), tmp_path / "run", listener=silent)
    other, same = files(tmp_path / "run"), files(federation.path)
    assert all(other[n] != same[n] for n in other if n.endswith((".jsonl", ".safetensors")))


def test_without_held_out_documents_utility_is_unknown_and_says_why(federation, tmp_path):
    out = shutil.copytree(federation.path, tmp_path / "run")
    none = replace(federation.config, evaluated=0)
    rows = [evaluate(none, out, federation.result.manifest.rounds[-1], None, lambda a, b: None)]
    (out / "data/held_out.jsonl").unlink()
    rows.append(
        evaluate(
            federation.config, out, federation.result.manifest.rounds[-1], None, lambda a, b: None
        )
    )
    for found in rows:
        assert {(row.metric, row.value) for row in found} == {("loss", None), ("perplexity", None)}
        assert {row.reason for row in found} == {"nothing was held out"}


def test_unknown_plugins_and_templates_are_refused_before_any_work(small, tmp_path):
    for wrong in ({"aggregation": "fedavgg"}, {"template": "fedpii"}):
        with pytest.raises(UsageError, match="Did you mean"):
            simulate(replace(small, **wrong), tmp_path / "run", listener=silent)
    assert list(tmp_path.iterdir()) == []


def test_other_content_under_the_same_name_is_another_run(records, tmp_path):
    wanted, found = records
    simulate(wanted, tmp_path / "out", listener=silent)
    corpus.write(Path(wanted.data), found[1:])
    with pytest.raises(InputError, match="differs in what is in its data"):
        simulate(wanted, tmp_path / "out", listener=silent)


def test_a_week_and_a_half_of_trainings_is_the_most():
    build(Simulation, {"clients": 1_000, "rounds": 1_000}, "settings")
    with pytest.raises(UsageError, match="at most"):
        build(Simulation, {"clients": 1_001, "rounds": 1_000}, "settings")
    half = {"clients": 1_001, "rounds": 1_000, "participation": 0.5}
    build(Simulation, half, "settings")
    with pytest.raises(UsageError, match="1,000,000 trainings at most"):
        build(Simulation, {"clients": 2, "rounds": 10**400}, "settings")
