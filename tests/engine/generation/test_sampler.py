import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from fedaudit.api.errors import InputError
from fedaudit.api.records import SamplingParams
from fedaudit.engine.generation.sampler import (
    draw,
    draw_to_host,
    probabilities,
    probe_key,
    uniforms,
)

LAST = 1 - 2.0**-53
"""The largest number that `uniforms` can return."""


def logits(seed, rows=3, vocabulary=50):
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * 3


@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20),
    st.integers(0, 2**40),
    st.integers(0, 10_000),
)
def test_a_uniform_is_in_range_and_its_rows_do_not_meet(keys, sample, step):
    samples = [sample + i for i in range(len(keys))]
    found = uniforms(keys, samples, step)
    assert found.dtype == np.float64
    assert ((found >= 0) & (found < 1)).all()
    alone = [uniforms([k], [s], step)[0] for k, s in zip(keys, samples, strict=True)]
    assert found.tolist() == alone


def test_uniforms_differ_by_key_sample_and_step_each():
    # The last three: key, sample and step are not interchangeable.
    places = [(5, 6, 7), (6, 6, 7), (5, 7, 7), (5, 6, 8), (6, 5, 7), (5, 7, 6), (7, 6, 5)]
    found = {uniforms([key], [sample], step)[0] for key, sample, step in places}
    assert len(found) == len(places)


@pytest.mark.parametrize("along", ["keys", "samples", "steps"])
def test_uniforms_are_flat_and_uncorrelated(along):
    n = 20_000
    counter = list(range(n))
    if along == "keys":
        found = uniforms(counter, [0] * n, 0)
    elif along == "samples":
        found = uniforms([1234] * n, counter, 0)
    else:
        found = np.concatenate([uniforms([1234], [0], step) for step in counter])
    # Four standard errors each: 1 / sqrt(12 n) of the mean, 1 / sqrt(n) of a correlation.
    assert abs(found.mean() - 0.5) < 4 / np.sqrt(12 * n)
    for lag in (1, 2, 15):
        assert abs(np.corrcoef(found[:-lag], found[lag:])[0, 1]) < 4 / np.sqrt(n)
    counts = np.histogram(found, bins=20, range=(0, 1))[0]
    # 19 degrees of freedom: the 99.99 % quantile of chi-square is 50.8.
    assert ((counts - n / 20) ** 2 / (n / 20)).sum() < 50.8


def test_neighbouring_samples_of_neighbouring_steps_are_uncorrelated():
    n = 20_000
    first = uniforms([9] * n, list(range(n)), 0)
    for step in (1, 2, 3):
        following = uniforms([9] * n, list(range(n)), step)
        for shift in (0, 1, 5):
            other = np.roll(following, shift)
            assert abs(np.corrcoef(first, other)[0, 1]) < 4 / np.sqrt(n)


def test_a_probe_key_depends_on_seed_and_prompt():
    keys = {probe_key(*a) for a in ((0, (1, 2)), (1, (1, 2)), (0, (12,)), (0, (1, 2, 0)), (0, ()))}
    assert len(keys) == 5
    assert all(0 <= key < 2**64 for key in keys)
    assert probe_key(0, [1, 2]) == probe_key(0, (1, 2))


DECODINGS = [
    SamplingParams(temperature=t, top_k=k, top_p=p)
    for t in (0.5, 1.0, 1.7)
    for k in (0, 1, 7, 500)
    for p in (0.1, 0.9, 1.0)
]


@pytest.mark.parametrize("decoding", DECODINGS, ids=str)
def test_probabilities_are_those_of_transformers_warpers(decoding):
    raw = logits(3).double()
    wanted = TemperatureLogitsWarper(decoding.temperature)(None, raw)
    if decoding.top_k:
        wanted = TopKLogitsWarper(decoding.top_k)(None, wanted)
    if decoding.top_p < 1:
        wanted = TopPLogitsWarper(decoding.top_p)(None, wanted)
    found = probabilities(raw.float(), decoding)
    # The input was rounded to float32: a relative error of about 1e-6.
    torch.testing.assert_close(found, torch.softmax(wanted, dim=-1), rtol=1e-5, atol=1e-8)


@given(
    st.integers(0, 1000),
    st.floats(0.05, 5),
    st.integers(0, 60),
    st.floats(0.001, 1),
)
def test_probabilities_are_a_distribution_within_their_limits(seed, temperature, k, p):
    raw = logits(seed)
    found = probabilities(raw, SamplingParams(temperature=temperature, top_k=k, top_p=p))
    torch.testing.assert_close(found.sum(-1), torch.ones(3).double(), rtol=1e-12, atol=0)
    kept = (found > 0).sum(-1)
    assert (kept >= 1).all()
    assert k == 0 or (kept <= k).all()
    # The likeliest token stays, and what is kept is likelier than what is not.
    assert (found.argmax(-1) == raw.argmax(-1)).all()
    least = torch.where(found > 0, raw, torch.inf).min(-1).values
    most = torch.where(found > 0, -torch.inf, raw).max(-1).values
    assert (least >= most).all()


def test_top_p_keeps_the_smallest_set_that_reaches_p():
    raw = torch.tensor([[0.5, 0.25, 0.15, 0.1]]).log()
    for p, kept in ((0.4, 1), (0.6, 2), (0.8, 3), (0.95, 4)):
        assert (probabilities(raw, SamplingParams(top_p=p)) > 0).sum() == kept


def test_top_p_that_is_reached_exactly_needs_no_further_token():
    quarters = torch.zeros(1, 4)
    for p, kept in ((0.25, 1), (0.5, 2), (0.75, 3)):
        assert (probabilities(quarters, SamplingParams(top_p=p)) > 0).sum() == kept


def test_ties_at_the_last_of_top_k_stay():
    raw = torch.tensor([[1.0, 3.0, 1.0, 0.0]])
    assert (probabilities(raw, SamplingParams(top_k=2)) > 0).tolist() == [[True, True, True, False]]


def test_a_draw_is_the_inverse_of_the_cumulative_distribution():
    raw = torch.tensor([[0.0, 0.0, 0.0, 0.0]]).repeat(8, 1)  # quarters, exactly
    points = np.array([0.0, 0.24, 0.25, 0.49, 0.5, 0.74, 0.75, LAST])
    assert draw(raw, points, SamplingParams()).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_the_extreme_draws_never_choose_an_excluded_token():
    raw = torch.tensor([[-torch.inf, 0.0, 1.0, 2.0, -3.0, -torch.inf]]).repeat(2, 1)
    ends = np.array([0.0, LAST])
    assert draw(raw, ends, SamplingParams()).tolist() == [1, 4]
    assert draw(raw, ends, SamplingParams(top_k=2)).tolist() == [2, 3]
    assert draw(raw, ends, SamplingParams(top_p=0.1)).tolist() == [3, 3]


@given(st.integers(0, 500), st.sampled_from(DECODINGS))
def test_a_draw_has_a_chance(seed, decoding):
    raw = logits(seed)
    chances = probabilities(raw, decoding)
    for uniform in (0.0, 0.3, LAST):
        token = draw(raw, np.full(3, uniform), decoding)
        assert (chances.gather(1, token[:, None]) > 0).all()


def test_temperature_0_is_the_likeliest_token_whatever_the_uniform():
    raw = logits(1)
    for uniform in (0.0, 0.5, LAST):
        token = draw(raw, np.full(3, uniform), SamplingParams(temperature=0, top_k=3, top_p=0.5))
        assert token.tolist() == raw.argmax(-1).tolist()


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.5},
    ],
    ids=str,
)
def test_a_decoding_that_is_no_distribution_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SamplingParams(**wrong)


@pytest.mark.parametrize("decoding", [{}, {"top_p": 0.9}, {"temperature": 0}], ids=str)
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")], ids=str)
def test_logits_that_are_no_numbers_are_refused_where_they_are_drawn_from(wrong, decoding):
    raw, decoding = logits(2, rows=3, vocabulary=200), SamplingParams(**decoding)
    raw[1, 70] = wrong
    uniform = np.array([0.2, 0.9])
    for way in (draw, draw_to_host):
        with pytest.raises(InputError, match="answers are not numbers"):
            way(raw, uniform, decoding, np.array([0, 1]))
        assert len(way(raw, uniform, decoding, np.array([0, 2]))) == 2


@given(st.integers(0, 1000), st.lists(st.integers(0, 2), min_size=1, max_size=9))
def test_the_host_is_told_what_the_device_drew(seed, rows):
    raw, chosen = logits(seed, vocabulary=150), np.array(rows)
    uniform = uniforms(np.full(len(rows), 7), np.arange(len(rows)), 0)
    for decoding in (SamplingParams(), SamplingParams(top_p=0.7), SamplingParams(temperature=0)):
        found = draw_to_host(raw, uniform, decoding, chosen)
        assert isinstance(found, np.ndarray)
        assert found.tolist() == draw(raw, uniform, decoding, chosen).tolist()
