from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fedaudit.metrics.privacy import epsilon_bounds
from fedaudit.metrics.privacy.epsilon_bounds import (
    Guesses,
    f_dp_test,
    largest_refuted,
    one_run_test,
)


def guesses(m, r, v):
    return Guesses(canaries=m, guessed=r, correct=v)


def one_run(guessed, delta, level=0.05):
    return largest_refuted(partial(one_run_test, guessed, delta=delta, level=level))


def one_run_f_dp(guessed, delta, level=0.05):
    return largest_refuted(partial(f_dp_test, guessed, delta=delta, level=level))


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "expected"),
    [
        (1000, 1000, 1000, 0, 5.809068),
        (1000, 100, 100, 1e-5, 3.465376),
        (1000, 100, 90, 1e-5, 1.626143),
        (100, 50, 50, 1e-5, 2.781889),
        (500, 50, 48, 1e-3, 0.733025),
        (10_000, 1000, 900, 1e-5, 2.015194),
    ],
)
def test_one_run_has_values_worked_out_elsewhere(m, r, v, delta, expected):
    assert one_run(guesses(m, r, v), delta) == pytest.approx(expected, abs=1e-6)


def test_all_right_without_delta_is_a_formula():
    # q^m = 0.05, and epsilon is the logit of q.
    q = 0.05 ** (1 / 40)
    bound = one_run(guesses(40, 40, 40), 0)
    assert bound == pytest.approx(np.log(q / (1 - q)), abs=1e-9)


def test_p_values():
    first = epsilon_bounds.one_run_p_value(guesses(100, 10, 10), 0.5, 1e-3)
    assert first == pytest.approx(0.0431361562, abs=1e-10)
    second = epsilon_bounds.one_run_p_value(guesses(1000, 100, 99), 0.5, 1e-6)
    assert second == pytest.approx(4.289874e-5, rel=1e-6)


@pytest.mark.parametrize(
    ("m", "r", "v", "expected"),
    [
        (1000, 100, 90, 2.45640),
        (1000, 100, 100, 5.54903),
        (100, 50, 50, 5.83997),
        (200, 40, 38, 3.00294),
    ],
)
def test_the_f_dp_form(m, r, v, expected):
    bound = one_run_f_dp(guesses(m, r, v), 1e-5)
    assert bound == pytest.approx(expected, abs=1e-5)


def test_the_f_dp_form_over_thresholds():
    one = guesses(20_000, 406, 379)
    bound = one_run_f_dp(one, 1e-6, 0.05 / 386)
    assert bound == pytest.approx(2.164749, abs=1e-6)


def test_an_exact_gaussian_mechanism():
    mu = epsilon_bounds.gaussian_mu(1.0, 1e-5)
    # Balle and Wang, theorem 8, put the other way round.
    delta = norm.cdf(mu / 2 - 1 / mu) - np.e * norm.cdf(-mu / 2 - 1 / mu)
    assert delta == pytest.approx(1e-5, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-10, 1e-12])
def test_a_gaussian_mechanism_at_epsilon_0_and_a_tiny_delta(delta):
    # At epsilon 0 delta is 2 Phi(mu / 2) - 1, for a tiny mu its density at 0 times mu.
    mu = epsilon_bounds.gaussian_mu(0.0, delta)
    assert mu == pytest.approx(delta * np.sqrt(2 * np.pi), rel=1e-2)


def test_a_claim_at_a_tiny_delta_can_be_refuted():
    found = [one_run_f_dp(guesses(100, 90, 90), d) for d in (1e-9, 1e-10, 1e-300)]
    assert found == sorted(found)
    assert found[0] > 1


def test_no_gaussian_mechanism_has_a_delta_of_0():
    with pytest.raises(ValueError, match="0 is not a delta"):
        epsilon_bounds.gaussian_mu(1.0, 0.0)


@given(st.integers(1, 60), st.data())
def test_a_bound_rises_with_right_guesses_and_falls_with_delta(r, data):
    v = data.draw(st.integers(0, r - 1))
    few, more = guesses(100, r, v), guesses(100, r, v + 1)
    assert one_run(few, 1e-5) <= one_run(more, 1e-5) + 1e-9
    assert one_run(more, 1e-3) <= one_run(more, 1e-5) + 1e-9


@pytest.mark.parametrize(("m", "r", "v"), [(0, 0, 0), (10, 11, 3), (10, 3, 4), (10, 3, -1)])
def test_no_guesses(m, r, v):
    with pytest.raises(ValueError, match="are not guesses"):
        guesses(m, r, v)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0), (1, 1), (1, -0.1), (float("nan"), 0)])
def test_no_claim(epsilon, delta):
    with pytest.raises(ValueError, match="not a claim"):
        epsilon_bounds.one_run_p_value(guesses(10, 3, 3), epsilon, delta)


def test_the_f_dp_form_needs_a_delta():
    with pytest.raises(ValueError, match="not a delta"):
        one_run_f_dp(guesses(10, 3, 3), 0)
    assert one_run_f_dp(guesses(10, 3, 0), 1e-5) == 0
