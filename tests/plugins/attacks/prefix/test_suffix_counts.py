from collections import Counter

import numpy as np
import pytest
from fedaudit_plugins.attacks.prefix.suffix_counts import suffixes
from hypothesis import given
from hypothesis import strategies as st

SEQUENCES = st.lists(
    st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.booleans()), max_size=12
)


def spelled(sequences, found):
    """Return (tokens, whole, count) of every suffix, in order."""
    rows = zip(found.order[found.first], found.length, found.is_whole, found.count, strict=True)
    return [
        (tuple(sequences[row][-length:]), bool(whole), int(count))
        for row, length, whole, count in rows
    ]


def slowly(sequences, whole, longest):
    """Count every suffix one by one, and sort them as the docstring says."""
    counts = Counter(
        (tuple(sequence[-length:]), bool(mark and length == len(sequence)))
        for sequence, mark in zip(sequences, whole, strict=True)
        for length in range(1, min(longest, len(sequence)) + 1)
    )
    ordered = sorted(counts, key=lambda one: (-counts[one], -len(one[0]), one[0][::-1], not one[1]))
    return [(tokens, mark, counts[tokens, mark]) for tokens, mark in ordered]


def test_suffixes_by_hand():
    sequences, whole = [[1, 2], [1, 2], [0, 1, 2], [2]], [True, True, False, True]
    assert spelled(sequences, suffixes(sequences, whole, 3)) == [
        ((2,), False, 3),
        ((1, 2), True, 2),
        ((0, 1, 2), False, 1),
        ((1, 2), False, 1),  # of the third: as long, but it begins elsewhere
        ((2,), True, 1),
    ]


@given(SEQUENCES, st.integers(1, 7))
def test_it_counts_as_one_by_one(marked, longest):
    sequences, whole = [s for s, _ in marked], [mark for _, mark in marked]
    found = suffixes(sequences, whole, longest)
    assert spelled(sequences, found) == slowly(sequences, whole, longest)
    assert found.count.sum() == sum(min(longest, len(s)) for s in sequences)


@given(SEQUENCES, st.integers(1, 7), st.randoms(use_true_random=False))
def test_the_order_of_the_sequences_changes_nothing(marked, longest, chance):
    mixed = list(marked)
    chance.shuffle(mixed)

    def found(pairs):
        sequences = [s for s, _ in pairs]
        return spelled(sequences, suffixes(sequences, [mark for _, mark in pairs], longest))

    assert found(mixed) == found(marked)


@pytest.mark.parametrize("ids", [(0, 255, 256), (65_535, 65_536, 16_777_216), (0, 1, 2**31 - 2)])
def test_tokens_are_compared_as_numbers(ids):
    """Their bytes are what is sorted: of any width, trailing zeros among them."""
    sequences = [[a, b] for a in ids for b in ids]
    found = suffixes(sequences, [False] * 9, 2)
    assert spelled(sequences, found) == slowly(sequences, [False] * 9, 2)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="longest"):
        suffixes([[1]], [False], 0)
    with pytest.raises(ValueError, match="below 0"):
        suffixes([[1, -1]], [False], 2)
    assert len(suffixes([], [], 5).count) == 0


def test_a_suffix_takes_a_few_bytes():
    rng = np.random.default_rng(0)
    sequences = rng.integers(0, 10**5, size=(100, 50)).tolist()
    found = suffixes(sequences, [False] * 100, 50)
    kept = (found.first, found.count, found.length, found.is_whole)
    assert len(found.count) > 4900
    assert sum(array.nbytes for array in kept) == 13 * len(found.count)
