"""Green lists against those of the public programs, and the fast ways to them against slow ones."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from fedaudit_plugins.watermarks.kgw import schemes, textseal
from fedaudit_plugins.watermarks.kgw.schemes import SCHEMES, WRAP, green_mask, is_green
from hypothesis import given
from hypothesis import strategies as st

ORACLE = json.loads(Path(__file__).with_name("kgw.json").read_text())
KEY = 15485863


def seed(name, context, key, width=0):
    """Return the seed of the list behind a context."""
    rule = SCHEMES[name]
    return rule.seeds(np.array([context[-(width or rule.width) :]]), key)[0]


def green_list(name, context, vocabulary, gamma, key, width=0):
    """Return the green tokens in the order of the permutation; of their ids for textseal."""
    if SCHEMES[name].uses_vocabulary_size:
        order = schemes._permutation(seed(name, context, key, width) % WRAP, vocabulary)
        return order[: int(vocabulary * gamma)]
    window, tokens = context[-(width or SCHEMES[name].width) :], np.arange(vocabulary)
    return np.flatnonzero([slow_textseal(window, t, key) < 8191 * gamma for t in tokens.tolist()])


def same(found, case):
    assert found[:12].tolist() == case["green_head"]
    assert found.sum() == case["green_sum"]


@pytest.mark.parametrize("case", ORACLE["lefthash"])
def test_lefthash_is_that_of_both_programs(case):
    found = green_list(
        "lefthash", [case["prev_token"]], case["vocab_size"], case["gamma"], case["hash_key"]
    )
    assert len(found) == case["green_size"]
    same(found, case)


@pytest.mark.parametrize("case", ORACLE["other_schemes"])
def test_the_other_schemes_are_those_of_their_programs(case):
    name = ("hf-" if case["library"] == "transformers" else "") + case["scheme"]
    width = case["context_width"]
    same(green_list(name, case["context"], case["vocab_size"], case["gamma"], KEY, width), case)
    if "prf_seed" in case:
        assert seed(name, case["context"], KEY, width) == case["prf_seed"]


def test_the_tables_begin_as_theirs():
    fixed = ORACLE["lm_watermarking_fixed_table_head"]
    assert (schemes._hash(np.arange(10), 2971215073) - 1).tolist() == fixed
    keyed = ORACLE["transformers_fixed_table_head_key_15485863"]
    assert (schemes._hash(np.arange(10), KEY) - 1).tolist() == keyed


@pytest.mark.parametrize("case", ORACLE["textseal_prf"])
def test_textseal_hashes_as_its_program(case):
    window, token = np.array([case["window"]]), np.array([case["token"]])
    key = case["secret_key"]
    assert textseal.hash_tokens(window, token, key).tolist() == [case["hash"]]
    assert np.float32(case["hash"]) / np.float32(8191) == case["uniform"]
    for gamma, wanted in ((0.25, "green_gamma_0_25"), (0.5, "green_gamma_0_5")):
        found = is_green("textseal", window, token, vocabulary=0, gamma=gamma, key=key)
        assert found.tolist() == [bool(case[wanted])]


def slow_permutation(seeded, size):
    """Shuffle as torch does on a CPU, with NumPy's mt19937 alone."""
    generator = np.random.MT19937()
    generator._legacy_seeding(seeded & 0xFFFFFFFF)
    order = list(range(size))
    for i, number in enumerate(generator.random_raw(size - 1).tolist()):
        other = i + number % (size - i)
        order[i], order[other] = order[other], order[i]
    return order


@pytest.mark.parametrize("seeded", [0, 1, KEY, 2**40 + 12345, schemes.WRAP - 1])
def test_the_permutation_is_mt19937s(seeded):
    assert schemes._permutation(seeded, 1000).tolist() == slow_permutation(seeded, 1000)


def slow_textseal(window, token, key):
    """Hash with Python's integers, wrapped at every step as C's are."""

    def wrapped(n):
        return (n + 2**63) % 2**64 - 2**63

    total = sum(p * w for p, w in zip(textseal.PRIMES, window, strict=False))
    h = wrapped((total + 100000007 * token + 500001713 * key) * 15485863)
    h = wrapped(h * 40499)
    return (h ^ (h >> 13)) % 8191


@given(
    windows=st.integers(1, 10).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 300_000), min_size=n, max_size=n), min_size=1, max_size=4
        )
    ),
    tokens=st.lists(st.integers(0, 300_000), min_size=1, max_size=4),
    key=st.integers(0, 2**32),
)
def test_textseal_in_numpy_and_in_torch_is_the_slow_one(windows, tokens, key):
    wanted = [[slow_textseal(w, t, key) for t in tokens] for w in windows]
    assert (
        textseal.hash_tokens(np.array(windows)[:, None], np.array(tokens), key).tolist() == wanted
    )
    in_torch = textseal.hash_tokens(torch.tensor(windows)[:, None], torch.tensor(tokens), key)
    assert in_torch.tolist() == wanted


@pytest.mark.parametrize("gamma", [0.1, 0.25, 0.5, 1 / 3, 2048 / 8191])
def test_the_limit_is_what_u_below_gamma_says(gamma):
    u = torch.arange(8191) / 8191
    assert (torch.arange(8191) < textseal.limit(gamma)).equal(u < gamma)


@pytest.mark.parametrize("name", SCHEMES)
def test_looking_a_token_up_is_looking_for_it_in_its_list(name):
    rule, rng = SCHEMES[name], np.random.default_rng(0)
    rows = rng.integers(0, 50, (200, rule.before(rule.width) + 1))
    found = is_green(name, rows[:, :-1], rows[:, -1], vocabulary=50, gamma=0.3, key=12345677)
    for row, green in zip(rows.tolist(), found.tolist(), strict=True):
        context = row if rule.self_seeded else row[:-1]
        assert green == (row[-1] in green_list(name, context, 50, 0.3, 12345677))
    assert 0 < found.sum() < 200


@pytest.mark.parametrize("name", SCHEMES)
def test_windows_and_tokens_are_broadcast(name):
    rule, rng = SCHEMES[name], np.random.default_rng(1)
    windows = rng.integers(0, 60, (5, rule.before(rule.width)))
    given_ = {"vocabulary": 60, "gamma": 0.25, "key": 7}
    table = is_green(name, windows[:, None], np.arange(60), **given_)
    assert table.shape == (5, 60)
    for row, window in enumerate(windows):
        for token in (0, 31, 59):
            assert table[row, token] == is_green(name, window, token, **given_)
    if rule.self_seeded:
        with pytest.raises(ValueError, match="a list of its own"):
            green_mask(name, windows, **given_)
    else:
        assert (green_mask(name, windows, **given_) == table).all()
    outside = is_green(name, windows[:1], np.array([60]), **given_)
    assert not outside[0] or name == "textseal"


def test_a_key_beyond_64_bits_in_the_product_wraps_as_in_torch():
    key, context = 2**61 + 3, [9, 8, 7, 6]
    table = schemes._table(2971215073)
    h = torch.tensor([int(table[token]) + 1 for token in context])
    wanted = (key * h * h[-1]).min().item()
    assert wanted < 0
    assert seed("selfhash", context, key) == wanted
    generator = torch.Generator().manual_seed(wanted % (2**64 - 1))
    order = torch.randperm(100, generator=generator)[:25].tolist()
    assert green_list("selfhash", context, 100, 0.25, key).tolist() == order


def test_what_a_scheme_cannot_do_is_said():
    with pytest.raises(ValueError, match="seeds no lists"):
        schemes.lists("textseal", np.array([[1, 2]]), KEY)
