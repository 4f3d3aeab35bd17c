"""The fast Rouge-L with many texts is the slow one with each."""

import pytest
from fedaudit_plugins.defenses.self_generation.generation import SimilarityIndex, whole_text
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import Document
from fedaudit.metrics.text_similarity import rouge_l

TEXTS = st.lists(
    st.sampled_from(["Name", "name", "the", "bird", "鸟", "fish,", ""]), max_size=7
).map(" ".join)


@given(st.lists(TEXTS, max_size=4), TEXTS)
def test_it_is_the_highest_of_the_slow_scores(texts, text):
    slow = max((rouge_l(other, text) for other in texts), default=0.0)
    assert SimilarityIndex(texts)(text) == pytest.approx(slow)


def test_by_hand():
    # "name one bird" and "name the bird": two of three words on both sides
    assert SimilarityIndex(["Name the bird."])("Name one bird!") == pytest.approx(2 / 3)
    assert SimilarityIndex([])("Name one bird!") == 0
    assert SimilarityIndex(["..."])("...") == 0, "no words, nothing in common"


def test_an_example_is_its_fields_and_nothing_of_the_template():
    one = Document(id="a", text="### Response: c", instruction="a", input="b", output="c")
    assert whole_text(one) == "a\nb\nc"
