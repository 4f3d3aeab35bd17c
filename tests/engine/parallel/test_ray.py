"""Ray itself, where it is installed: one cluster of this machine with room for four."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray")

from fedaudit.api.engine import GenerationBatch, PrefixProbabilityRequest
from fedaudit.api.records import GenerationRequest, Target
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.parallel import ray_cluster
from fedaudit.engine.parallel.engine import ParallelEngine
from fedaudit.engine.parallel.protocol import EngineConfig
from fedaudit.engine.parallel.ray_cluster import RayCluster
from fedaudit.engine.parallel.worker_pool import WorkerPool
from fedaudit.simulation.runner import simulate

NAMES = ("Ann", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal")
TEXTS = [f"Claimant: {name} of Leeds sued the bank, which" for name in NAMES]
ORDER = EngineConfig(
    base="fedaudit-nano", device="cpu", dtype="auto", template=None, batch_size=0, threads=1
)


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        made = RayCluster(4)
    yield made
    made.close()
    assert not made._folder.exists()


@pytest.fixture(scope="module")
def several(cluster):
    return ParallelEngine(WorkerPool(cluster, 2), ORDER)


@pytest.fixture(scope="module")
def local(base):
    return LocalEngine(base)


@pytest.fixture(scope="module")
def requests(local):
    return [
        GenerationRequest(prompt=(1, *one.ids), samples=2, max_new_tokens=4)
        for one in local.tokenize(TEXTS)
    ]


def test_two_actors_answer_as_one_engine(several, local, requests, capfd):
    target = Target(name="base")
    rows = [request.prompt for request in requests]
    heard = []
    found = several.generate(
        target, GenerationBatch(requests, seed=1), progress=lambda *at: heard.append(at)
    )
    assert found == local.generate(target, GenerationBatch(requests, seed=1))
    assert heard == [(2 * n, 16) for n in range(1, 9)]
    assert several.tokenize(TEXTS) == local.tokenize(TEXTS)
    for one, other in zip(several.score(target, rows), local.score(target, rows), strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    pairs = [rows[:2], rows[2:5]]
    for own, others in zip(
        several.score_groups(target, pairs), local.score_groups(target, pairs), strict=True
    ):
        for one, other in zip(own, others, strict=True):
            assert one == pytest.approx(other, abs=1e-5)
    asked = {"max_new_tokens": 3, "threshold": 0.01, "trials": range(8), "seed": 2}
    for one, other in zip(
        several.prefix_probabilities(
            target, PrefixProbabilityRequest(rows, ["paid", "the"], **asked)
        ),
        local.prefix_probabilities(
            target, PrefixProbabilityRequest(rows, ["paid", "the"], **asked)
        ),
        strict=True,
    ):
        np.testing.assert_allclose(one.least, other.least, atol=1e-6)
        assert one.drawn.tolist() == other.drawn.tolist()
    assert capfd.readouterr() == ("", "")


def test_an_actor_that_dies_changes_nothing(several, local, cluster, requests, adapter, capfd):
    workers = several.pool._idle
    assert len(workers) == 2
    pids = [cluster.ask(worker, (os.getpid,)).result() for worker in workers]
    killed = []

    def kill(done, total):
        if not killed:  # one piece is answered, and whoever dies has another
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    target = Target(name="tuned", adapter=str(adapter))
    found = several.generate(target, GenerationBatch(requests, seed=2), progress=kill)
    assert found == local.generate(target, GenerationBatch(requests, seed=2))
    assert killed
    idle = {cluster.ask(worker, (os.getpid,)).result() for worker in several.pool._idle}
    assert idle
    assert pids[0] not in idle
    assert capfd.readouterr() == ("", "")


def test_clients_train_there_to_the_same_bytes(cluster, federation, monkeypatch, tmp_path):
    monkeypatch.setattr(ray_cluster, "RayCluster", lambda count: cluster)
    monkeypatch.setattr(cluster, "close", lambda: None)
    settings = replace(federation.config, engine="ray:2", workers=0)
    assert settings.sha256() == federation.config.sha256()
    simulate(settings, tmp_path / "run", listener=lambda event: None)
    for path in sorted(federation.path.rglob("*.safetensors")):
        name = path.relative_to(federation.path)
        assert (tmp_path / "run" / name).read_bytes() == path.read_bytes(), name


def test_what_is_asked_does_not_stand_in_rays_logs(cluster):
    process, _ = cluster.start()
    secret = "Wilhelmina Featherstonehaugh"
    assert cluster.ask(process, (str.upper, secret)).result() == secret.upper()
    with pytest.raises(ValueError, match=secret):
        cluster.ask(process, (int, secret)).result()
    cluster.stop(process)
    logs = [path for path in Path(cluster._folder).rglob("*") if path.is_file()]
    assert any("log" in path.suffix or "log" in path.name for path in logs)
    for path in logs:
        assert secret.encode() not in path.read_bytes(), path
        assert secret.upper().encode() not in path.read_bytes(), path
