"""Engines in processes of this machine: they answer as one does, and are replaced when they die."""

import gc
import os

import pytest
from errands import dies, dies_once, square, stays
from processes import wait_until

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import InputError, Interrupted, UsageError
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.parallel import engine
from fedaudit.engine.parallel.engine import ProcessBackend
from fedaudit.engine.parallel.protocol import EngineConfig
from fedaudit.engine.parallel.worker_pool import WorkerPool
from fedaudit.system import processes


@pytest.fixture
def pool():
    backend = ProcessBackend()
    yield WorkerPool(backend, 2)
    backend.close()


def test_questions_are_answered_and_mistakes_come_back(pool):
    found = dict(pool.answers([(square, number) for number in (5, 6, 7)]))
    assert found == {0: 25, 1: 36, 2: 49}
    with pytest.raises(InputError, match="-3 is negative"):
        list(pool.answers([(square, -3)]))
    assert dict(pool.answers([(square, 9)])) == {0: 81}


def test_an_error_that_does_not_travel_is_told(pool):
    with pytest.raises(RuntimeError, match="StaysError: cannot travel"):
        list(pool.answers([(stays, None)]))


def test_a_process_that_dies_is_replaced(pool, tmp_path):
    questions = [(square, 4), (dies_once, str(tmp_path / "seen")), (square, 5)]
    assert dict(pool.answers(questions)) == {0: 16, 1: "alive", 2: 25}


def test_a_process_that_dies_with_nothing_to_do_is_replaced(pool):
    assert dict(pool.answers([(square, 2)])) == {0: 4}
    [executor] = pool.backend._pools.values()
    [process] = executor._processes.values()
    process.kill()
    process.join()
    assert dict(pool.answers([(square, 3)])) == {0: 9}


def test_work_that_kills_whoever_does_it_ends(pool):
    with pytest.raises(Interrupted, match=r"of its own died 3 times .* --engine local"):
        list(pool.answers([(dies, None)]))


def test_two_processes_answer_as_one_engine(adapter, monkeypatch):
    made = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})  # tests keep to one core
    monkeypatch.setattr(
        processes, "fresh_pool", lambda count, real=processes.fresh_pool: kept(real(count))
    )

    def kept(pool):
        made.append(pool)
        return pool

    config = EngineConfig(
        base="fedaudit-nano", device="cpu", dtype="auto", template=None, batch_size=0
    )
    several, known = engine.make_engine(config, "local:2")
    local, told = engine.make_engine(config, "local")
    assert known == told
    assert (several.device, several.local.base.model.device.type) == ("cpu", "cpu")
    ids = [tokens.ids for tokens in local.tokenize(["Ann Lee of Leeds", "The bank", "paid the"])]
    requests = [GenerationRequest(prompt=one, samples=3, max_new_tokens=6) for one in ids]
    for target in (Target(name="base"), Target(name="tuned", adapter=str(adapter))):
        asked = {"seed": 4, "decoding": SamplingParams(top_k=30)}
        assert several.generate(target, GenerationBatch(requests, **asked)) == local.generate(
            target, GenerationBatch(requests, **asked)
        )
    running = [process for pool in made for process in pool._processes.values()]
    assert len(running) == 2
    del several
    gc.collect()
    # Not join: the pool's own thread waits for them too, and who comes second sees them alive.
    wait_until(lambda: not any(process.is_alive() for process in running))


def test_more_processes_than_cores_are_refused():
    config = EngineConfig(base="none", device="cpu", dtype="auto", template=None, batch_size=0)
    with pytest.raises(UsageError, match=r"local:9999 needs as many cores"):
        engine.make_engine(config, "local:9999")
