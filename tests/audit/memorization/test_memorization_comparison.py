"""Comparing in processes gives what comparing one by one gives."""

import random
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from memorized import sentence, text

from fedaudit.audit.memorization import matching
from fedaudit.audit.memorization.matching import compare_all
from fedaudit.metrics.overlap import DEFAULT, ORIGINAL, compare

SUFFIXES = [text(f"s{n}", 3) for n in range(6)]
TEXTS = [
    f"{text(f't{n}', 2)} {SUFFIXES[n % 6].split('. ')[1]}. {sentence(f'e{n}')}" for n in range(9)
]
PAIRS = [(suffix, one) for suffix in SUFFIXES for one in TEXTS]


@cache
def alone(pair, *, compat=False):
    return compare(*pair, compat=compat)


def slowly(pairs, *, compat=False):
    every = {pair: alone(pair, compat=compat) for pair in pairs}
    return {pair: overlap for pair, overlap in every.items() if overlap.verdict != "none"}


def test_it_is_the_comparison_of_every_pair():
    found = compare_all(PAIRS, DEFAULT, workers=1)
    assert found == slowly(PAIRS)
    assert len(found) == len(TEXTS)
    assert {one.verdict for one in found.values()} == {"verbatim"}
    assert compare_all(PAIRS, ORIGINAL, workers=1) == slowly(PAIRS, compat=True)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(PAIRS), max_size=12), st.integers(1, 5))
def test_neither_order_nor_chunks_matter(pairs, chunk):
    expected = slowly(set(pairs))
    before = matching.CHUNK
    try:
        matching.CHUNK = chunk
        assert compare_all(pairs, DEFAULT, workers=1) == expected
    finally:
        matching.CHUNK = before


def test_two_processes_say_the_same_and_progress_is_told(monkeypatch):
    monkeypatch.setattr(matching, "CHUNK", 9)
    monkeypatch.setattr(matching, "MIN_PARALLEL_PAIRS", 0)
    heard = []
    pairs = list(PAIRS)
    random.Random(1).shuffle(pairs)
    found = compare_all(pairs, DEFAULT, workers=2, progress=lambda *at: heard.append(at))
    assert found == slowly(PAIRS)
    assert heard == [(9 * (n + 1), 54) for n in range(6)]


def test_every_suffix_is_prepared_once(monkeypatch):
    seen = []
    matching._READY.clear()

    def counting(texts, settings):
        seen.extend(texts)
        return prepare(texts, settings)

    prepare = matching.prepare_texts
    monkeypatch.setattr(matching, "prepare_texts", counting)
    compare_all(PAIRS, DEFAULT, workers=1)
    assert sorted(seen) == sorted([*SUFFIXES, *TEXTS])


def test_nothing_compared_is_nothing_found():
    assert compare_all([], DEFAULT) == {}
