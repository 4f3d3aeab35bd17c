"""Document frequency: exact, however it is searched for, and summed up with its intervals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics import document_frequency as frequency
from fedaudit.metrics.document_frequency import (
    absent_strings,
    document_frequency,
    frequency_rows,
    present_strings,
)
from fedaudit.nano.generator import corpus

TEXTS = st.text("aab张\U0001f600\0\ud800", max_size=30)


def slow(strings, documents):
    return {string: sum(string in text for text in documents) for string in strings}


@given(st.lists(TEXTS, max_size=8), st.sets(TEXTS.filter(bool), max_size=12))
def test_it_is_what_searching_every_document_gives(documents, strings):
    assert document_frequency(strings, documents) == slow(strings, documents)


@given(st.lists(TEXTS, max_size=8), st.sets(TEXTS.filter(bool), max_size=12))
def test_a_string_is_present_or_absent(documents, strings):
    expected = {string for string, count in slow(strings, documents).items() if count}
    assert present_strings(strings, documents) == expected
    assert absent_strings(strings, documents) == strings - expected


@given(st.lists(TEXTS, min_size=1, max_size=6), st.randoms())
def test_chunks_and_order_do_not_matter(documents, draw):
    pieces = {text[at : at + 9] for text in documents for at in range(len(text))} - {""}
    expected = slow(pieces, documents)
    draw.shuffle(documents)
    before, frequency.CHUNK = frequency.CHUNK, 10
    try:
        assert document_frequency(pieces, documents) == expected
    finally:
        frequency.CHUNK = before


def test_strings_of_records_are_counted_by_documents_and_not_by_occurrences():
    found = list(corpus(cases=12, documents_per_case=6, seed=4))
    texts = [document.text for document in found]
    strings = {string for document in found for string, _ in document.strings()}
    counted = document_frequency([*strings, "not in there"], texts)
    assert counted == slow([*strings, "not in there"], texts)
    assert counted["not in there"] == 0
    assert max(counted.values()) > 1
    assert document_frequency(["aa"], ["aaaa", "aa b aa", "a"]) == {"aa": 2}


def test_strings_that_share_their_pieces_are_told_apart():
    strings = ["1 January 1980", "1 January 1981", "January", "1 January 198"]
    documents = ["born 1 January 1980", "on 1 January 1981 or 1 January 1980", "in January"]
    assert document_frequency(strings, documents) == dict(zip(strings, (2, 1, 3, 2), strict=True))


def test_nothing_to_look_for_or_nowhere_to_look():
    assert document_frequency([], ["a"]) == {}
    assert document_frequency(["a"], []) == {"a": 0}
    assert document_frequency(["abc"], ["", "ab"]) == {"abc": 0}
    with pytest.raises(ValueError, match="empty"):
        document_frequency([""], ["a"])


def test_progress_is_told_to_the_end():
    heard = []
    document_frequency(["a"], ["a"] * 5, lambda done, total: heard.append((done, total)))
    assert heard[-1] == (5, 5)


def test_rows_have_the_median_and_the_share_of_what_is_nowhere():
    found = dict(zip("abcdefgh", (0, 0, 0, 1, 3, 4, 9, 50), strict=True))
    middle, unseen = frequency_rows(found, "contextual", {"source": "tuned"})
    assert (middle.metric, middle.value, middle.n) == ("document_frequency", 2.0, 8)
    # n = 8: P(B = 0) = 1/256 = 0.4 %, P(B <= 1) = 9/256 = 3.5 % > 2.5 %: lowest and highest value
    assert (middle.low, middle.high) == (0.0, 50.0)
    assert (unseen.metric, unseen.hits, unseen.n, unseen.value) == ("unseen", 3, 8, 0.375)
    # Wilson by hand at 3 of 8: (0.375 + 0.2400912 -+ 1.959964 * sqrt(0.0292969 + 0.0150057))
    # / 1.4801824 = 0.4155510 -+ 0.2787044
    assert (unseen.low, unseen.high) == pytest.approx((0.1368466, 0.6942554), abs=1e-5)


def test_the_medians_interval_is_between_order_statistics():
    rows = frequency_rows({str(n): n for n in range(1, 26)}, "x", {})
    # n = 25: P(B <= 7) = 2.16 %, P(B <= 8) = 5.39 %: the 8th and the 18th value (tables)
    assert (rows[0].value, rows[0].low, rows[0].high) == (13.0, 8.0, 18.0)
    few = frequency_rows(dict.fromkeys("abcde", 1), "x", {})
    assert (few[0].value, few[0].low, few[0].high) == (1.0, None, None)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=60))
def test_the_interval_holds_the_median(values):
    middle, unseen = frequency_rows(dict(enumerate(values)), "x", {})
    if middle.low is not None:
        assert min(values) <= middle.low <= middle.value <= middle.high <= max(values)
    assert unseen.low <= unseen.value <= unseen.high


def test_without_strings_there_is_a_reason():
    for row in frequency_rows({}, "x", {}):
        assert row.value is None
        assert row.reason
