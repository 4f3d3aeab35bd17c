"""Clients that train in Flower's simulation: what surrounds it, and where it is installed, it."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.engine.parallel import flower_pool, flower_worker
from fedaudit.simulation import preparation
from fedaudit.simulation.runner import simulate


def upper(job):
    return job.text.upper()


def number(job):
    return int(job.text)


def test_how_many_clients_train_at_once():
    assert flower_worker.backend(3)["init_args"]["num_cpus"] == 3
    assert flower_worker.backend(0)["init_args"]["num_cpus"] >= 1


def test_without_flower_or_on_a_gpu_there_is_one_line(monkeypatch, federation, tmp_path):
    settings = replace(federation.config, engine="flower")
    monkeypatch.setattr(flower_pool, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'fedaudit\[flower\]'"):
        preparation.prepare(settings, tmp_path)
    with pytest.raises(UsageError, match="trains on CPUs"):
        preparation.prepare(replace(settings, device="cuda"), tmp_path)
    monkeypatch.setattr(flower_pool, "find_spec", lambda name: name)
    monkeypatch.setattr(flower_pool, "version", lambda name: "1.9.0")
    with pytest.raises(UsageError, match=r"needs Flower 1\.41 or newer, not 1\.9\.0"):
        preparation.prepare(settings, tmp_path)
    monkeypatch.setattr(flower_pool, "version", lambda name: "1.41.0")
    preparation.prepare(settings, tmp_path)


def test_the_engine_is_no_part_of_the_result(federation):
    assert replace(federation.config, engine="flower").sha256() == federation.config.sha256()


@pytest.fixture
def sent():
    """A simulation that keeps what it is sent: (node, work) of each message."""
    made = flower_pool.FlowerSimulation.__new__(flower_pool.FlowerSimulation)
    kept = []
    made.nodes, made._numbers, made._waiting, made._tickets = 3, {}, {}, 0
    made._send = lambda ticket, node, work: kept.append((node, work))
    return made, kept


def test_a_client_keeps_its_node(sent):
    pool, kept = sent
    for who in ("central", "c0", "c1", "c0/secret", "c1", "c2"):
        pool.submit(upper, SimpleNamespace(model_name=who, text="a"))
    assert [node for node, _ in kept] == [0, 1, 2, 1, 2, 0]
    with pytest.raises(TypeError):
        pool.submit(upper)


class Grid:
    """Nodes that answer a message after as many failures as they are told."""

    def __init__(self, failures=0):
        self.failures, self.messages = failures, {}

    def get_node_ids(self):
        return [20, 10]

    def send(self, one, node):
        name = f"m{len(self.messages)}"
        self.messages[name] = (node, one)
        return name

    def reply(self, name):
        failed, self.failures = self.failures > 0, self.failures - 1
        return SimpleNamespace(
            has_error=lambda: failed,
            metadata=SimpleNamespace(reply_to_message_id=name),
            error=SimpleNamespace(reason="killed"),
            content={"fedaudit": {"work": b"done"}},
        )


@pytest.mark.parametrize(
    ("failures", "told"),
    [(0, ("answer", b"done")), (2, ("answer", b"done")), (3, ("lost", "killed"))],
)
def test_a_training_whose_process_dies_is_sent_again(monkeypatch, failures, told):
    grid, heard = Grid(failures), []
    connection = SimpleNamespace(send=heard.append)
    relay = flower_worker.FlowerRelay(grid, connection)

    def send(one):
        relay._sent[grid.send(one, relay._nodes[one.node])] = one

    monkeypatch.setattr(flower_worker.FlowerRelay, "_send", lambda self, one: send(one))
    send(flower_worker.PendingMessage(7, 1, b"work"))
    while relay._sent:
        [name] = relay._sent
        relay._tell(relay._sent.pop(name), grid.reply(name))
    assert heard == [(2, 0), (7, *told)]
    assert {node for node, _ in grid.messages.values()} == {20}


@pytest.fixture(scope="module")
def simulation():
    pytest.importorskip("flwr", reason="Flower is not installed: fedaudit[flower]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))  # its workers import this file
        made = flower_pool.FlowerSimulation(2, 3)
    yield made
    made.close()
    assert not made._folder.exists()


def test_work_and_its_errors_come_back(simulation):
    jobs = [SimpleNamespace(model_name=f"c{k}", text=f"text {k}") for k in range(5)]
    answers = [simulation.submit(upper, job).result() for job in jobs]
    assert answers == [f"TEXT {k}" for k in range(5)]
    with pytest.raises(ValueError, match="Featherstonehaugh"):
        simulation.submit(
            number, SimpleNamespace(model_name="c0", text="Featherstonehaugh")
        ).result()


def test_the_federation_is_the_same_byte_for_byte(simulation, federation, monkeypatch, tmp_path):
    simulation.close = lambda own=simulation.close: None  # one simulation serves both tests
    monkeypatch.setattr(flower_pool, "FlowerSimulation", lambda slots, nodes: simulation)
    settings = replace(federation.config, engine="flower", workers=0)
    simulate(settings, tmp_path / "run", listener=lambda event: None)
    del simulation.close
    names = [p.relative_to(federation.path) for p in federation.path.rglob("*.safetensors")]
    assert names
    for name in names:
        assert (tmp_path / "run" / name).read_bytes() == (federation.path / name).read_bytes(), name


def test_nothing_is_left_when_it_is_given_back():
    pytest.importorskip("flwr", reason="Flower is not installed: fedaudit[flower]")
    made = flower_pool.FlowerSimulation(1, 1)
    child, folder = made._child, Path(made._folder)
    made.close()
    time.sleep(0.2)
    assert child.poll() is not None
    assert not folder.exists()
