"""The fast detector beside the slow one, on texts that collide in every way."""

import pickle
import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from overlap_texts import WORDS, steps_of, text_pair
from pan_reference import answer, words

from fedaudit.metrics.overlap import (
    DEFAULT,
    ORIGINAL,
    compare,
    compare_prepared,
    prepare_text,
)
from fedaudit.metrics.overlap.word_runs import (
    common_runs,
    matching_positions,
    outermost_runs,
    word_positions,
)

SENTENCES = st.lists(st.sampled_from(WORDS[:8]), min_size=1, max_size=9).map(" ".join)
TEXTS = st.lists(SENTENCES, max_size=6).map(lambda parts: ". ".join(p.capitalize() for p in parts))


def agrees(a, b):
    slow = answer(a, b)
    seeds, passages, wide = steps_of(prepare_text(a, ORIGINAL), prepare_text(b, ORIGINAL))
    fast = compare(a, b, compat=True)
    assert (fast.verdict, sorted(fast.spans)) == (slow["verdict"], sorted(slow["spans"]))
    assert (seeds, passages, wide) == (slow["seeds"], slow["four"], slow["many"])
    return fast.verdict


def test_random_texts_get_the_same_answer():
    draw = random.Random(11)
    seen = {agrees(*text_pair(draw)) for _ in range(60)}
    assert seen == {"none", "verbatim", "idea", "candidate"}


@given(TEXTS, TEXTS)
def test_any_text_gets_the_same_answer(a, b):
    agrees(a, b)


@given(TEXTS, TEXTS, st.sampled_from([DEFAULT, ORIGINAL]))
def test_spans_lie_in_the_texts_and_a_match_is_symmetric_in_its_seeds(a, b, chosen):
    pa, pb = prepare_text(a, chosen), prepare_text(b, chosen)
    found = compare_prepared(pa, pb)
    assert (found.verdict == "none") == (not found.spans)
    for a0, a1, b0, b1 in found.spans:
        assert 0 <= a0 < a1 <= len(a)
        assert 0 <= b0 < b1 <= len(b)
    swapped = {(j, i) for i, j in steps_of(pb, pa)[0]}
    assert swapped == set(steps_of(pa, pb)[0])


def test_a_prepared_text_survives_another_process():
    a, b = text_pair(random.Random(4))
    copies = [pickle.loads(pickle.dumps(prepare_text(text))) for text in (a, b)]
    assert compare_prepared(*copies) == compare(a, b)


def test_words_are_located_as_in_the_reference():
    draw = random.Random(3)
    for _ in range(60):
        text = text_pair(draw)[0]
        expected = words(text)
        _, starts, ends = word_positions(text, ORIGINAL, han=False)
        assert [*zip(starts, ends, strict=True)] == [(s, e) for _, s, e in expected]


def slow_runs(a, b, least):
    """Every maximal common run whose words, each one long, are more than `least`."""
    found = []
    for i, j in product(range(len(a)), range(len(b))):
        if a[i] != b[j] or (i and j and a[i - 1] == b[j - 1]):
            continue
        n = 1
        while i + n < len(a) and j + n < len(b) and a[i + n] == b[j + n]:
            n += 1
        if n > least:
            found.append(((i, i + n - 1), (j, j + n - 1)))
    return found


CODES = st.lists(st.integers(0, 2), max_size=25).map(lambda codes: np.array(codes, dtype=np.int64))


@given(CODES, CODES, st.integers(0, 6))
def test_hashed_runs_are_the_runs_of_a_table(a, b, least):
    places = np.arange(len(a) + 1, dtype=np.float64)
    assert common_runs(a, b, places[:-1], places[1:], least) == slow_runs(a, b, least)


@given(CODES, CODES, st.integers(1, 4))
def test_matches_are_all_places_where_the_same_codes_begin(a, b, width):
    if width > min(len(a), len(b)):
        return
    grams = [[tuple(s[i : i + width]) for i in range(len(s) - width + 1)] for s in (a, b)]
    expected = [(i, j) for i, x in enumerate(grams[0]) for j, y in enumerate(grams[1]) if x == y]
    assert sorted(zip(*matching_positions(a, b, width), strict=True)) == expected


PLACES = st.tuples(st.integers(0, 6), st.integers(1, 4)).map(lambda p: (p[0], p[0] + p[1]))


@given(st.lists(st.tuples(PLACES, PLACES), max_size=8, unique=True))
def test_runs_inside_another_one_of_the_generated_text_go(places):
    runs = [(*a, *b) for a, b in places]

    def inside(k, m):
        return k != m and runs[m][2] <= runs[k][2] and runs[m][3] >= runs[k][3]

    numbers = range(len(runs))
    free = [runs[k] for k in numbers if not any(inside(k, m) for m in numbers)]
    assert outermost_runs(runs, compat=True) == free
    first = [
        k for k in numbers if not any(inside(k, m) and (m < k or not inside(m, k)) for m in numbers)
    ]
    assert outermost_runs(runs, compat=False) == [runs[k] for k in first]


@pytest.mark.parametrize("gap", [" ", "\n\n\n"])
def test_the_original_cuts_off_what_lies_between_joined_sentences(gap):
    text = f"He left.{gap}The applicant was detained for eleven months."
    assert prepare_text(text, ORIGINAL).ends.tolist() == [len(text) - len(gap)]
    assert prepare_text(text).ends.tolist() == [len(text)]
