"""Variants at a time: which is next, how many, and what goes wrong in one of them."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.config.profile import Variant
from fedaudit.report.redaction import Redactor
from fedaudit.reproduction import runner
from fedaudit.reproduction.runner import _next, _workers, default_jobs, run_tasks
from fedaudit.reproduction.variant import VariantTask, Watch
from fedaudit.simulation.config import Simulation


def task(place, **changes):
    return VariantTask(
        variant=Variant(name=f"on {place.name}"),
        config=replace(Simulation(device="cpu"), **changes),
        folder=place,
        verdicts=place / "verdicts",
        redactor=Redactor(bytes(32)),
    )


@given(
    places=st.lists(st.sampled_from("abcd"), max_size=12),
    jobs=st.integers(1, 4),
    chance=st.randoms(use_true_random=False),
)
def test_each_task_is_taken_once_and_no_federation_by_two(places, jobs, chance):
    waiting = {}
    for number, place in enumerate(places):
        waiting.setdefault(Path(place), []).append(number)
    busy, taken = [], []
    while len(taken) < len(places) or busy:
        number = _next(waiting, {Path(places[one]) for one in busy}) if len(busy) < jobs else None
        if number is None:
            left = {place for number, place in enumerate(places) if number not in taken}
            assert len(busy) == jobs or left <= {places[one] for one in busy}
            busy.pop(chance.randrange(len(busy)))
            continue
        assert places[number] not in {places[one] for one in busy}
        busy.append(number)
        taken.append(number)
    assert sorted(taken) == list(range(len(places)))
    for place in set(places):
        own = [number for number in taken if places[number] == place]
        assert own == sorted(own)


def test_the_federation_with_most_to_do_is_next():
    waiting = {Path("a"): [0], Path("b"): [1, 2], Path("c"): [3]}
    assert _next(waiting, set()) == 1
    assert _next(waiting, {Path("b")}) == 0
    assert _next(waiting, {Path("b")}) == 3
    assert _next(waiting, {Path("b")}) is None
    assert _next(waiting, set()) == 2
    assert _next(waiting, set()) is None


def test_the_last_federation_has_a_second_worker_and_few_share_the_cores():
    assert [_workers(2, busy, others) for busy, others in ((0, 8), (1, 7), (1, 1))] == [1, 1, 1]
    assert _workers(2, 1, 0) == _workers(2, 0, 0) == _workers(16, 15, 0) == 2
    assert [_workers(16, busy, 2 - busy) for busy in range(3)] == [5, 5, 5]


def test_as_many_as_cores_for_small_models_on_cpu():
    cores = len(os.sched_getaffinity(0))
    assert default_jobs("nano", [task(Path("a"))]) == cores
    assert default_jobs("paper", [task(Path("a"))]) == 1
    for engine in ("ray:2", "flower"):
        assert default_jobs("nano", [task(Path("a")), task(Path("b"), engine=engine)]) == 1


def test_what_is_wrong_in_one_is_told_as_it_is(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "note").write_text("not a federation")
    watch = Watch(
        variant=lambda *_: None, training=lambda event: None, bar=lambda title: lambda *at: None
    )
    tasks = [task(tmp_path / "a"), task(tmp_path / "b", base=str(tmp_path / "none"))]
    with pytest.raises(InputError, match=r"holds no federation|none"):
        run_tasks(tasks, 2, watch)


def test_what_is_wrong_in_one_does_not_end_the_others(tmp_path, monkeypatch):
    done = []

    def run(task):
        if task.folder.name == "a":
            raise InputError("a is wrong")
        done.append(task.folder.name)

    @contextmanager
    def threads(count, broken):
        with ThreadPoolExecutor(count) as pool:
            yield pool

    monkeypatch.setattr(runner, "processes", threads)
    monkeypatch.setattr(runner, "_quietly", run)
    watch = Watch(
        variant=lambda *_: None, training=lambda event: None, bar=lambda title: lambda *at: None
    )
    with pytest.raises(InputError, match="a is wrong"):
        run_tasks([task(tmp_path / name) for name in "abcd"], 2, watch)
    assert sorted(done) == ["b", "c", "d"]
