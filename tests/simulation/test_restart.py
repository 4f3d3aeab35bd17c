"""A learning rate that begins again in each round makes every round the first."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.defense import Defense
from fedaudit.config import registry
from fedaudit.federation import adapters
from fedaudit.simulation.client.trainer import ClientTraining, rate_at, schedule_span, train
from fedaudit.simulation.config import Training

COSINE = Training(learning_rate=8.0, decay="cosine", restart=True)


def rates(settings, *, steps, number, rounds):
    return [
        rate_at(settings, step, steps, *schedule_span(settings, steps, number, rounds))
        for step in range(steps)
    ]


def test_rates_by_hand():
    # 4 (1 + cos(pi k / 4)) for k = 0, 1, 2, 3, in every round.
    wanted = [8, 4 + 2 * 2**0.5, 4, 4 - 2 * 2**0.5]
    for number in (1, 2, 3):
        assert rates(COSINE, steps=4, number=number, rounds=3) == pytest.approx(wanted)
    linear = replace(COSINE, decay="linear", warmup=2)
    for number in (1, 2):
        assert rates(linear, steps=4, number=number, rounds=2) == [4, 6, 4, 2]
    # Without a restart the rate falls over both rounds.
    through = replace(linear, restart=False, warmup=0)
    assert rates(through, steps=4, number=1, rounds=2) == [8, 7, 6, 5]
    assert rates(through, steps=4, number=2, rounds=2) == [4, 3, 2, 1]


def test_the_span_is_the_rounds_own_or_all_rounds():
    assert schedule_span(COSINE, 6, 3, 5) == (0, 6)
    assert schedule_span(replace(COSINE, restart=False), 6, 3, 5) == (12, 30)
    assert not Training().restart


@given(
    st.sampled_from(["linear", "cosine", "none"]),
    st.integers(0, 9),
    st.integers(1, 30),
    st.integers(1, 20),
    st.data(),
)
def test_every_round_is_like_the_only_one(decay, warmup, steps, rounds, data):
    settings = Training(learning_rate=0.5, decay=decay, warmup=warmup, restart=True)
    number = data.draw(st.integers(1, rounds))
    found = rates(settings, steps=steps, number=number, rounds=rounds)
    alone = rates(replace(settings, restart=False), steps=steps, number=1, rounds=1)
    assert found == alone
    assert all(0 < rate <= 0.5 for rate in found)


@pytest.fixture
def job(federation, base, tmp_path):
    texts = ["The claimant Ann Lee lives in Leeds.", "Paid 5 pounds."] * 2
    return ClientTraining(
        model_name="c0",
        base="fedaudit-nano",
        start=federation.path / "rounds/000/global",
        out=tmp_path / "out",
        sequences=[base.tokenizer(text)["input_ids"] for text in texts],
        training=replace(federation.config.training, steps=2, restart=True),
        round=1,
        rounds=4,
        seed=5,
        aggregator=registry.create("aggregation", "fedit"),
        device="cpu",
        dtype="auto",
        threads=1,
    )


def test_a_training_is_the_same_in_whatever_round_it_comes(job, tmp_path):
    def trained(name, **changes):
        done = replace(job, out=tmp_path / name, **changes)
        train(done)
        return (done.out / adapters.WEIGHTS).read_bytes()

    first = trained("first")
    assert trained("last", round=4) == first
    falling = replace(job.training, restart=False)
    assert trained("through", training=falling) != first
    assert trained("through 4", training=falling, round=4) != first


class Watching(Defense):
    """Trains nothing, and keeps the rates that it would train with."""

    def __init__(self):
        self.rates = []

    def train(self, session):
        self.rates.append([session.rate(step) for step in range(session.steps)])
        return 0.0


def test_a_defence_that_trains_itself_gets_the_same_rates(job):
    watching = Watching()
    for number in (1, 3):
        train(replace(job, round=number, defenses=(watching,)))
    rate = job.training.learning_rate
    assert watching.rates == [pytest.approx([rate, rate / 2])] * 2
