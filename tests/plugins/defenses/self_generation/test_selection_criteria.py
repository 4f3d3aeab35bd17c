import math
import random

import pytest
from fedaudit_plugins.defenses.self_generation.selection_criteria import (
    Losses,
    instruction_following,
    losses,
    mean_loss,
    perplexity,
    score,
    select_examples,
)
from hypothesis import given
from hypothesis import strategies as st

ANY = {"key": "", "seed": 0}
HALF, QUARTER, EIGHTH = math.log(1 / 2), math.log(1 / 4), math.log(1 / 8)


def test_the_score_by_hand():
    """Behind the prompt the two tokens have 1/2 and 1/4, without it 1/8 and 1/8.

    L(y|x) = (ln 2 + 2 ln 2) / 2 = 1.5 ln 2, L(y) = (3 ln 2 + 3 ln 2) / 2 = 3 ln 2: IFS 1/2.
    """
    found = losses([HALF, QUARTER], [EIGHTH, EIGHTH])
    assert found.conditional == pytest.approx(1.5 * math.log(2))
    assert found.direct == pytest.approx(3 * math.log(2))
    assert instruction_following(found) == pytest.approx(0.5)
    assert perplexity(found) == pytest.approx(2**1.5)
    assert score(found, "ifs", **ANY) == -score(found, "ifd", **ANY) == pytest.approx(0.5)
    assert score(found, "perplexity", **ANY) == pytest.approx(2**1.5)


def test_what_each_method_keeps_by_hand():
    # ratios 0.5, 0.25, 1.5; L(y|x) 1, 2, 3
    found = [Losses(1, 2), Losses(2, 8), Losses(3, 2)]
    keys = ["a", "b", "c"]
    assert select_examples(found, 2, "ifs", keys=keys, seed=0) == [1, 0]
    assert select_examples(found, 2, "perplexity", keys=keys, seed=0) == [0, 1]
    assert select_examples(found, 2, "ifd", keys=keys, seed=0) == [2, 0]
    assert select_examples(found, 9, "ifs", keys=keys, seed=0) == [1, 0, 2]
    assert select_examples(found, 0, "ifs", keys=keys, seed=0) == []


def test_an_answer_without_tokens_has_no_score_and_is_never_kept():
    assert losses([], []) is None
    found = [None, Losses(1, 1), None]
    for method in ("ifs", "perplexity", "ifd", "random"):
        assert select_examples(found, 3, method, keys=["a", "b", "c"], seed=0) == [1]


def test_a_certain_answer_cannot_be_helped():
    assert instruction_following(Losses(0.0, 0.0)) == 1
    assert instruction_following(Losses(0.5, 0.0)) == math.inf
    assert perplexity(Losses(1e4, 1.0)) == math.inf
    assert select_examples([Losses(0.5, 0.0), Losses(3, 2)], 1, "ifs", keys=["a", "b"], seed=0) == [
        1
    ]


def test_chance_follows_from_seed_and_content_and_is_even():
    found, keys = [Losses(1, 1)] * 400, [f"example {n}" for n in range(400)]
    first = select_examples(found, 100, "random", keys=keys, seed=1)
    assert first == select_examples(found, 100, "random", keys=keys, seed=1)
    assert first != select_examples(found, 100, "random", keys=keys, seed=2)
    drawn = [score(found[0], "random", key=key, seed=0) for key in keys]
    assert all(0 <= value < 1 for value in drawn)
    # 400 uniform numbers have a mean of 0.5 with deviation 0.0144: five of them
    assert sum(drawn) / 400 == pytest.approx(0.5, abs=0.072)


LOGS = st.floats(-30, -1e-3)
ROWS = st.lists(st.tuples(LOGS, LOGS), min_size=1, max_size=8)


@given(ROWS, st.floats(0.1, 10), st.randoms(use_true_random=False))
def test_the_score_knows_no_unit_of_the_logarithm_and_no_order_of_tokens(tokens, unit, rng):
    found = losses(*map(list, zip(*tokens, strict=True)))
    assert found.conditional == pytest.approx(sum(-a for a, _ in tokens) / len(tokens))
    scaled = losses([a * unit for a, _ in tokens], [b * unit for _, b in tokens])
    assert instruction_following(scaled) == pytest.approx(instruction_following(found))
    rng.shuffle(tokens)
    assert losses(*map(list, zip(*tokens, strict=True))) == found
    assert mean_loss([-1.0] * len(tokens)) == 1


@given(
    st.lists(st.builds(Losses, st.floats(0, 9), st.floats(0, 9)) | st.none(), max_size=12),
    st.integers(0, 12),
    st.sampled_from(["ifs", "perplexity", "ifd", "random"]),
    st.integers(0, 99),
)
def test_the_order_of_the_examples_does_not_matter(found, count, method, seed):
    keys = [f"{n}" for n in range(len(found))]
    chosen = [keys[i] for i in select_examples(found, count, method, keys=keys, seed=0)]
    assert len(chosen) == min(count, len(found) - found.count(None))
    order = random.Random(seed).sample(range(len(found)), len(found))
    again = select_examples(
        [found[i] for i in order], count, method, keys=[keys[i] for i in order], seed=0
    )
    assert [keys[order[i]] for i in again] == chosen
