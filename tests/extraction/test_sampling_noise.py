"""How far runs with other sampling seeds may be apart: by hand, and simulated."""

import numpy as np
import pytest

from fedaudit.extraction.leak_tests import share_estimate
from fedaudit.extraction.sampling_noise import AnswerCounts, with_sampling_noise
from fedaudit.metrics.intervals import Estimate

COUNTS = AnswerCounts(
    {"a": 1, "b": 5, "c": 1, "d": 2, "never": 0}, {"b": 1, "c": 3, "e": 1, "f": 4}
)
STRINGS = ["a", "b", "c", "d", "e", "f", "never"]


@pytest.mark.parametrize(
    ("source", "variance"),
    [
        ("tuned", 3),  # a and c hang on one answer; 1 is added
        ("base", 3),  # b and e
        # a would be lost, and b is one answer of the base away from being found.
        ("tuned-not-base", 3),
        ("base-not-tuned", 3),  # e would be lost; c is one answer of the tuned model away
    ],
)
def test_strings_that_hang_on_one_answer_by_hand(source, variance):
    assert COUNTS.variance(source, STRINGS) == variance


def test_both_sides_are_added_in_quadrature():
    """V = 4 of 100 strings: z sqrt(V) / n = 0.0392; the lower side, 0.01, is at least that long."""
    found = with_sampling_noise(Estimate(0.5, 0.49, 0.58), 100, 4.0)
    noise = 1.959964 * 0.02
    assert found.low == pytest.approx(0.5 - noise * np.sqrt(2))
    assert found.high == pytest.approx(0.5 + np.hypot(0.08, noise))
    assert with_sampling_noise(Estimate(0.5, 0.4, 0.6), 9, 0.0) == Estimate(
        0.5, pytest.approx(0.4), pytest.approx(0.6)
    )


@pytest.mark.parametrize("law", ["each once", "some often"])
def test_another_seed_keeps_to_the_interval(law):
    """At least 93 % of the time, of 54 strings; without the noise 80 % if each comes once."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(150):
        means = np.ones(54) if law == "each once" else rng.lognormal(-2, 2.5, 54)
        first, again = rng.poisson(means), (rng.poisson(means) > 0).mean()
        counts = AnswerCounts({str(i): float(c) for i, c in enumerate(first)}, {})
        found = share_estimate(
            [float(c > 0) for c in first],
            [f"g{i % 14}" for i in range(54)],
            counts.variance("tuned", [str(i) for i in range(54)]),
        )
        held += found.low <= again <= found.high
    assert held >= 0.93 * 150
