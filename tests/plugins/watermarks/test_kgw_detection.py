"""Counting green tokens: the public detectors' verdicts, and z by hand."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from fedaudit_plugins.watermarks.kgw.detection import (
    Count,
    Detector,
    first_of_each,
    upper_tail,
    z_score,
)
from fedaudit_plugins.watermarks.kgw.schemes import SCHEMES, is_green, lists
from hypothesis import given
from hypothesis import strategies as st

ORACLE = json.loads(Path(__file__).with_name("kgw.json").read_text())
TEXTS = st.lists(st.lists(st.integers(0, 12), max_size=30), max_size=6)


@pytest.mark.parametrize("case", ORACLE["z_scores"])
def test_it_counts_as_lm_watermarking(case):
    detector = Detector(
        scheme=case["scheme"],
        key=case["hash_key"],
        gamma=case["gamma"],
        vocabulary=case["vocab_size"],
    )
    rows = detector.windows([case["token_ids"]])
    found = detector.count_green(np.unique(rows, axis=0))
    assert found == Count(case["num_tokens_scored"], case["num_green_tokens"])
    z = z_score(found, case["gamma"])
    assert z == pytest.approx(case["z_score"], rel=1e-12)
    assert upper_tail(z) == pytest.approx(case["p_value"], rel=1e-9)


@pytest.mark.parametrize("case", ORACLE["textseal_detector"])
def test_it_counts_as_textseal(case):
    detector = Detector(
        scheme="textseal",
        key=case["secret_key"],
        gamma=case["gamma"],
        width=case["ngram"],
    )
    rows = detector.windows([case["token_ids"]])[1:]  # its program skips one token
    if (once := case["scoring_method"]) != "none":
        rows = rows[first_of_each(rows[:, :-1] if once == "v1" else rows)]
    found = detector.count_green(rows)
    assert found == Count(case["scored"], case["green"])
    assert z_score(found, case["gamma"]) == pytest.approx(case["z_score"], rel=1e-12)


def test_z_and_p_by_hand():
    # 40 of 100 at a quarter: (40 - 25) / sqrt(100 * 3/16) = 15 / 4.330127.
    assert z_score(Count(100, 40), 0.25) == pytest.approx(3.4641016, abs=1e-7)
    assert z_score(Count(100, 25), 0.25) == 0.0
    assert z_score(Count(0, 0), 0.25) == 0.0
    assert upper_tail(0.0) == 0.5
    assert upper_tail(1.959963984540054) == pytest.approx(0.025, rel=1e-12)
    # In the far tail p is about phi(z) / z * (1 - 1/z^2 + 3/z^4); 1 - Phi(30) would be 0.
    asymptotic = math.exp(-450) / math.sqrt(2 * math.pi) / 30 * (1 - 1 / 900 + 3 / 810000)
    assert upper_tail(30.0) == pytest.approx(asymptotic, rel=1e-7)


def test_which_ngrams_count_by_hand():
    texts = [[1, 5, 6, 5, 6, 7], [5, 6, 5, 8]]

    def rows(**changes):
        return Detector(scheme="textseal", key=1, **changes).ngrams(texts).tolist()

    assert Detector(scheme="textseal", key=1).windows(texts).tolist() == [
        *([1, 5], [5, 6], [6, 5], [5, 6], [6, 7]),
        *([5, 6], [6, 5], [5, 8]),
    ]
    assert rows() == [[1, 5], [5, 6], [6, 5], [6, 7], [5, 8]]
    assert rows(bos=1) == [[5, 6], [6, 5], [6, 7], [5, 8]]
    assert rows(width=9) == []
    assert rows(width=4) == [[1, 5, 6, 5, 6], [5, 6, 5, 6, 7]]


def counted(detector, texts):
    return detector.count_green(detector.ngrams(texts))


def slow_count(detector, texts):
    """Count one n-gram after the other, with a set."""
    rule = SCHEMES[detector.scheme]
    size = rule.before(detector.width or rule.width) + 1
    seen, greens = set(), []
    for text in texts:
        for end in range(size, len(text) + 1):
            ngram = tuple(text[end - size : end])
            what = ngram
            if rule.uses_vocabulary_size:
                what = (int(lists(detector.scheme, np.array([ngram]), detector.key)[0]), ngram[-1])
            if what in seen:
                continue
            seen.add(what)
            given_ = {
                "vocabulary": detector.vocabulary,
                "gamma": detector.gamma,
                "key": detector.key,
            }
            greens.append(is_green(detector.scheme, ngram[:-1], ngram[-1], **given_))
    return Count(len(greens), int(sum(greens)))


@given(texts=TEXTS, scheme=st.sampled_from(sorted(SCHEMES)))
def test_counting_at_once_is_counting_one_by_one(texts, scheme):
    detector = Detector(scheme=scheme, key=99, vocabulary=13)
    assert counted(detector, texts) == slow_count(detector, texts)


@given(texts=TEXTS, order=st.randoms(use_true_random=False), twice=st.integers(0, 5))
def test_order_and_duplicates_change_nothing(texts, order, twice):
    detector = Detector(scheme="textseal", key=99)
    more = [*texts, *texts[:twice]]
    order.shuffle(more)
    assert counted(detector, more) == counted(detector, texts)


@given(rows=st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=40))
def test_the_first_of_each_is_what_a_dictionary_keeps(rows):
    firsts = {row: index for index, row in reversed(list(enumerate(rows)))}
    found = first_of_each(np.array(rows, dtype=np.int64).reshape(-1, 2))
    assert found.tolist() == sorted(firsts.values())


def test_repetition_is_no_evidence():
    # A green pair said a hundred times: z is that of one choice, not of a hundred.
    detector = Detector(scheme="textseal", key=3)
    tokens = np.arange(1000)
    green = int(
        np.flatnonzero(is_green("textseal", [5], tokens, vocabulary=0, gamma=0.25, key=3))[0]
    )
    once = counted(detector, [[5, green]])
    assert once == Count(1, 1)
    assert counted(detector, [[5, green]] * 100) == once
    assert z_score(once, 0.25) == pytest.approx(math.sqrt(3))


def test_ngrams_that_share_a_list_make_no_z_of_their_own():
    # Random texts of few tokens, 40 keys: by n-gram, z of selfhash spreads far beyond 1.
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 40, 400).tolist() for _ in range(3)]

    detectors = [Detector(scheme="selfhash", key=key, vocabulary=40) for key in range(1, 81, 2)]
    by_ngram = np.unique(detectors[0].windows(texts), axis=0)
    assert np.std([z_score(counted(one, texts), 0.25) for one in detectors]) < 1.4
    assert np.std([z_score(one.count_green(by_ngram), 0.25) for one in detectors]) > 1.6


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scheme": "md5"}, "scheme must be one of textseal"),
        ({"gamma": 1.0}, "gamma must lie between"),
        ({"gamma": 0.0002}, "gamma must lie between"),
        ({"width": -1}, "must not be negative"),
        ({"scheme": "lefthash"}, "needs the size of the vocabulary"),
    ],
)
def test_a_detector_that_cannot_be_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        Detector(**{"scheme": "textseal", "key": 1, **changes})
