"""Sharing questions out among workers that die."""

from collections import Counter
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, Interrupted, TargetError
from fedaudit.engine.parallel.worker_pool import ATTEMPTS, WorkerDied, WorkerPool, portable_error


class FakeBackend:
    """Workers that answer at once with the square; `fate` tells what becomes of an asking."""

    def __init__(self, fate=lambda asked, question: None, *, stillborn=0, places=99):
        self.fate, self.stillborn, self.places = fate, stillborn, places
        self.started, self.stopped, self.asked = 0, [], []
        self.open = {}

    def start(self):
        self.started += 1
        there = Future()
        if self.started <= self.stillborn:
            there.set_exception(WorkerDied("ActorDiedError"))
        elif self.started <= self.places:
            there.set_result(None)
        return self.started, there

    def ask(self, worker, question):
        assert worker not in self.stopped
        self.asked.append((worker, question))
        future, fate = Future(), self.fate(len(self.asked), question)
        if fate == "never":
            self.open[worker] = future
        elif fate:
            future.set_exception(fate)
        else:
            future.set_result(question**2)
        return future

    def stop(self, worker):
        self.stopped.append(worker)


def test_every_question_has_its_answer_once():
    backend = FakeBackend()
    found = list(WorkerPool(backend, 3).answers([5, 6, 7, 8, 9]))
    assert sorted(found) == [(0, 25), (1, 36), (2, 49), (3, 64), (4, 81)]
    assert backend.started == 3
    assert backend.stopped == []


def test_who_was_asked_first_is_heard_first():
    for _ in range(20):  # the addresses of the futures differ each time
        assert [place for place, _ in WorkerPool(FakeBackend(), 4).answers(range(9))] == list(
            range(9)
        )


def test_no_more_start_than_there_is_to_do_and_they_stay():
    backend = FakeBackend()
    pool = WorkerPool(backend, 8)
    assert list(pool.answers([])) == []
    assert backend.started == 0
    assert sorted(pool.answers([1, 2])) == [(0, 1), (1, 4)]
    assert sorted(pool.answers([3])) == [(0, 9)]
    assert backend.started == 2


@given(deaths=st.sets(st.integers(1, 12), max_size=6), size=st.integers(1, 5))
def test_whoever_dies_another_answers(deaths, size):
    tries = Counter()

    def fate(asked, question):
        tries[question] += 1
        dies = asked in deaths and tries[question] < ATTEMPTS
        return WorkerDied("killed") if dies else None

    backend = FakeBackend(fate)
    found = sorted(WorkerPool(backend, size).answers(range(10)))
    assert found == [(i, i * i) for i in range(10)]
    died = len(backend.asked) - 10
    assert len(backend.stopped) == len(set(backend.stopped)) == died
    assert backend.started - died <= size


def test_a_question_at_which_all_die_is_given_up():
    backend = FakeBackend(
        lambda asked, question: WorkerDied("OutOfMemoryError") if question == 7 else None
    )
    with pytest.raises(Interrupted, match=r"died 3 times .* \(OutOfMemoryError;.*ray:1") as error:
        list(WorkerPool(backend, 2).answers([1, 7, 2, 3]))
    assert Counter(question for _, question in backend.asked)[7] == ATTEMPTS == 3
    assert error.value.exit_code == 6


def test_deaths_at_different_questions_do_not_add_up():
    tries = Counter()

    def fate(asked, question):
        tries[question] += 1
        return WorkerDied("killed") if tries[question] < ATTEMPTS else None

    assert sorted(WorkerPool(FakeBackend(fate), 2).answers(range(20))) == [
        (i, i * i) for i in range(20)
    ]


@pytest.mark.parametrize("stillborn", [2, 3])
def test_starting_is_tried_three_times(stillborn):
    backend = FakeBackend(stillborn=stillborn)
    if stillborn < ATTEMPTS:
        assert list(WorkerPool(backend, 1).answers([4])) == [(0, 16)]
    else:
        with pytest.raises(Interrupted, match="died 3 times"):
            list(WorkerPool(backend, 1).answers([4]))
    assert backend.stopped == list(range(1, stillborn + 1))


def test_without_a_place_it_does_not_wait_for_ever():
    with pytest.raises(TargetError, match=r"No engine found a place .* within 0 seconds"):
        list(WorkerPool(FakeBackend(places=0), 2, patience=0.05).answers([1]))


def test_one_place_is_enough():
    # The second worker never finds a place; the first does everything.
    backend = FakeBackend(places=1)
    assert sorted(WorkerPool(backend, 2, patience=0.05).answers([1, 2, 3])) == [
        (0, 1),
        (1, 4),
        (2, 9),
    ]
    assert {worker for worker, _ in backend.asked} == {1}


def test_an_error_comes_through_and_the_workers_stay():
    backend = FakeBackend(lambda asked, question: InputError("too long") if question == 2 else None)
    pool = WorkerPool(backend, 1)
    with pytest.raises(InputError, match="too long"):
        list(pool.answers([1, 2, 3]))
    assert list(pool.answers([5])) == [(0, 25)]
    assert backend.started == 1


def test_what_is_left_over_from_before_is_nobodys_answer():
    backend = FakeBackend(lambda asked, question: "never" if question == 6 else None)
    pool = WorkerPool(backend, 2)
    answers = pool.answers([6, 3, 4])
    assert next(answers) in {(1, 9), (2, 16)}
    answers.close()
    [(worker, late)] = backend.open.items()
    late.set_result(-1)
    assert sorted(pool.answers([5, 7, 8])) == [(0, 25), (1, 49), (2, 64)]
    assert backend.started == 2
    assert worker in {1, 2}


class StaysError(Exception):
    """An error that cannot be made again from its arguments."""

    def __init__(self, *, why):
        super().__init__(why)


def test_an_error_that_does_not_travel_is_told():
    travels = InputError("-3 is negative.")
    assert portable_error(travels) is travels
    try:
        raise StaysError(why="cannot travel")
    except StaysError as error:
        told = portable_error(error)
    assert isinstance(told, RuntimeError)
    assert "StaysError: cannot travel" in str(told)
