from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import GenerationRequest
from fedaudit.engine.batching import STEP, by_length, padded_length, sample_batches

PROBES = st.lists(
    st.builds(
        GenerationRequest,
        prompt=st.integers(1, 40).map(lambda length: (7,) * length),
        samples=st.integers(0, 12),
        max_new_tokens=st.sampled_from([1, 10]),
    ),
    max_size=12,
)


@given(st.integers(1, 10_000))
def test_a_padded_length_is_the_next_multiple(length):
    assert padded_length(length) % STEP == 0
    assert length <= padded_length(length) < length + STEP


@given(PROBES, st.integers(1, 20), st.integers(1, 400))
def test_every_sample_of_every_probe_comes_exactly_once(requests, rows, tokens):
    found = Counter(
        (piece.index, sample)
        for batch in sample_batches(requests, rows, tokens)
        for piece in batch
        for sample in range(piece.first, piece.last)
    )
    wanted = {
        (i, sample) for i, request in enumerate(requests) for sample in range(request.samples)
    }
    assert found == Counter(wanted)


@given(PROBES, st.integers(1, 20), st.integers(1, 400))
def test_batches_keep_their_limits_and_the_longest_come_first(requests, rows, tokens):
    widths = []
    for batch in sample_batches(requests, rows, tokens):
        assert batch
        assert all(piece.first < piece.last for piece in batch)
        asked = [requests[piece.index] for piece in batch]
        # Rows of one padded length, so that no neighbour changes the shape.
        [(width, new)] = {(padded_length(len(p.prompt)), p.max_new_tokens) for p in asked}
        count = sum(piece.last - piece.first for piece in batch)
        assert count <= rows
        assert count == 1 or count * (width + new) <= tokens
        widths.append(width)
    assert widths == sorted(widths, reverse=True)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 300))
def test_sequences_are_batched_once_each_within_the_limit_longest_first(lengths, tokens):
    batches = list(by_length(lengths, tokens))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    widths = []
    for batch in batches:
        [width] = {padded_length(lengths[i]) for i in batch}
        assert len(batch) == 1 or len(batch) * width <= tokens
        widths.append(width)
    assert widths == sorted(widths, reverse=True)


def test_a_probe_with_more_samples_than_rows_is_cut():
    request = GenerationRequest(prompt=(1, 2), samples=7, max_new_tokens=1)
    batches = [[(p.first, p.last) for p in batch] for batch in sample_batches([request], 3, 1000)]
    assert batches == [[(0, 3)], [(3, 6)], [(6, 7)]]
