"""Which finds become the annotation."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import PiiSpan
from fedaudit.pii.spans import resolve


@st.composite
def finds(draw: st.DrawFn) -> list[tuple[float, PiiSpan]]:
    def find() -> tuple[float, PiiSpan]:
        start = draw(st.integers(0, 30))
        length, score = draw(st.integers(1, 8)), draw(st.sampled_from((0.4, 0.85, 1.0)))
        return score, PiiSpan(start, start + length, draw(st.sampled_from("AB")))

    return [find() for _ in range(draw(st.integers(0, 12)))]


@given(finds())
def test_result_is_sorted_free_of_overlap_and_from_the_input(found):
    kept = resolve(found)
    assert list(kept) == sorted(kept)
    assert all(left.end <= right.start for left, right in pairwise(kept))
    assert set(kept) <= {span for _, span in found}


@given(finds(), st.randoms(use_true_random=False))
def test_order_of_the_input_does_not_matter(found, rng: random.Random):
    shuffled = found.copy()
    rng.shuffle(shuffled)
    assert resolve(shuffled) == resolve(found)


@given(finds())
def test_what_is_left_out_overlaps_something_at_least_as_good(found):
    kept = resolve(found)
    best = {span: max(score for score, other in found if other == span) for _, span in found}
    for span in best.keys() - set(kept):
        rivals = [k for k in kept if k.start < span.end and span.start < k.end]
        assert max(best[rival] for rival in rivals) >= best[span]


def test_score_beats_length_beats_place_beats_label():
    def span(start: int, end: int, label: str = "A") -> PiiSpan:
        return PiiSpan(start, end, label)

    assert resolve([(0.9, span(0, 2)), (0.4, span(0, 9))]) == (span(0, 2),)
    assert resolve([(0.4, span(0, 2)), (0.4, span(0, 9))]) == (span(0, 9),)
    assert resolve([(0.4, span(1, 4)), (0.4, span(0, 3))]) == (span(0, 3),)
    assert resolve([(0.4, span(0, 3, "B")), (0.4, span(0, 3))]) == (span(0, 3),)


def test_neighbours_do_not_overlap():
    neighbours = (PiiSpan(0, 3, "A"), PiiSpan(3, 6, "A"))
    assert resolve([(0.4, span) for span in neighbours]) == neighbours


def test_nothing_found():
    assert resolve([]) == ()
