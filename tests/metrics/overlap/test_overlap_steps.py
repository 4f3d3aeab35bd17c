"""Every step by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from overlap_texts import steps_of
from pan_reference import clusters as slow_clusters

from fedaudit.metrics.overlap import DEFAULT, ORIGINAL, prepare_text
from fedaudit.metrics.overlap.classifier import _drop_overlaps
from fedaudit.metrics.overlap.passages import seed_clusters
from fedaudit.metrics.overlap.seeds import Pair
from fedaudit.metrics.overlap.tokenization import term_code


def test_units_are_counted_stems_and_short_sentences_are_joined():
    # "No." has no word of three characters and vanishes; "He shouted." has one, which is too few.
    text = "No. He shouted. The drivers drove and the driver drives."
    prepared = prepare_text(text, ORIGINAL)
    assert prepared.starts.tolist() == [4]
    assert prepared.ends.tolist() == [len(text) - 1]  # The gap is not added.
    counts = dict(zip(prepared.terms.tolist(), prepared.counts.tolist(), strict=True))
    stems = {"shout": 1, "the": 2, "driver": 2, "drove": 1, "and": 1, "drive": 1}
    assert counts == {term_code(stem): count for stem, count in stems.items()}


def test_cosine_and_dice_by_hand():
    a = prepare_text("Alpha beta gamma. Delta epsilon zeta.", ORIGINAL)
    b = prepare_text("Alpha beta theta. Iota kappa lambda.", ORIGINAL)
    pair = Pair(a, b)
    # N = 4; alpha and beta are in two units, the others in one.
    two, four = math.log(2), math.log(4)
    cosine = 2 * two**2 / (2 * two**2 + four**2)
    assert pair.cosines == pytest.approx(np.array([[cosine, 0], [0, 0]]))
    assert pair.dice == pytest.approx(np.array([[4 / 6, 0], [0, 0]]))
    assert pair.seeds() == [(0, 0)]  # 1 / 3 and 2 / 3
    assert steps_of(a, b)[1] == []  # 17 characters are too few.


def test_the_default_weights_never_vanish():
    text = "The applicant was detained for eleven months."
    original, default = (
        Pair(prepare_text(text, s), prepare_text(text, s)) for s in (ORIGINAL, DEFAULT)
    )
    assert original.cosines == pytest.approx(np.zeros((1, 1)))  # ln(2 / 2) = 0
    assert default.cosines == pytest.approx(np.ones((1, 1)))  # ln(3 / 2) > 0
    assert default.weights[0] == pytest.approx(np.full(7, math.log(1.5)))


SEEDS = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), unique=True).map(sorted)


@given(SEEDS, st.integers(0, 5))
def test_clusters_are_the_references_and_hold_every_seed_once(seeds, gap):
    found = list(seed_clusters(seeds, gap))
    assert found == slow_clusters(seeds, gap)
    assert sorted(seed for part in found for seed in part) == seeds


def test_clusters_by_hand():
    # Units 0 and 6 have five others between them: cut at gap 4, not at gap 5.
    seeds = [(0, 0), (6, 1), (7, 9)]
    assert list(seed_clusters(seeds, 4)) == [[(0, 0)], [(6, 1)], [(7, 9)]]
    assert list(seed_clusters(seeds, 5)) == [[(0, 0), (6, 1)], [(7, 9)]]
    assert list(seed_clusters(seeds, 7)) == [seeds]


class Scored:
    """Stands in for a pair: cosines, and whether it is the original."""

    def __init__(self, cosines, compat=True):
        self.cosines = np.array(cosines)
        self.a = replace(prepare_text(""), settings=ORIGINAL if compat else DEFAULT)


def test_of_overlapping_passages_the_better_matched_one_stays():
    # Units of a: 0 and 1; passage x has both and b's unit 0, passage y has unit 1 and b's unit 1.
    x, y, far = (0, 1, 0, 0), (1, 1, 1, 1), (5, 5, 2, 2)
    scores = np.zeros((6, 3))
    scores[:2, 0], scores[1, 1], scores[5, 2] = (0.5, 0.6), 0.7, 0.9
    # x: shared 0.6, the rest 0.5: 0.6 + 0.4 * 0.5 = 0.8; y: 0.7.
    assert _drop_overlaps(Scored(scores), [x, y, far]) == [x, far]
    scores[1, 1] = 0.81
    assert _drop_overlaps(Scored(scores), [x, y, far]) == [y, far]


def test_of_two_near_copies_the_longer_one_stays():
    short, long = (0, 0, 0, 0), (0, 1, 1, 2)
    scores = np.array([[1.0, 0.995, 0.2], [0.3, 0.1, 0.995]])
    assert _drop_overlaps(Scored(scores), [short, long]) == [long]
    assert _drop_overlaps(Scored(scores), [long, short]) == [long]


def test_the_default_remembers_the_score_of_the_passage_it_began_with():
    """What the original's unreachable branch was meant to do."""
    # p beats its first rival by 0.9 to 0.3. Against the second, its unit 2 is scored alone first:
    # p has 0.5 + 0.5 * 0.5 = 0.75, the rival 0.8.
    p, first, second = (0, 2, 0, 0), (0, 0, 1, 1), (2, 2, 2, 2)
    scores = np.zeros((3, 3))
    scores[:, 0] = (0.8, 0.5, 0.5)
    scores[0, 1], scores[2, 2] = 0.3, 0.85
    # p against first: 0.8 + 0.2 * 0.5 = 0.9; p against second: 0.5 + 0.5 * 0.65 = 0.825.
    assert _drop_overlaps(Scored(scores), [p, first, second]) == [second]
    assert _drop_overlaps(Scored(scores, compat=False), [p, first, second]) == [p]
