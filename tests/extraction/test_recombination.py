"""Strings made of the pieces of others: by hand, and what they keep of the string they are like."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.extraction.recombination import (
    Recombiner,
    piece_shape,
    shape_signature,
    split_pieces,
    words_by_shape,
)


def test_pieces_and_shapes_by_hand():
    assert split_pieces("Ann O'Neil, 12/03 原a") == [
        *("Ann", " ", "O", "'", "Neil", ",", " ", "12", "/", "03", " ", "原", "a")
    ]
    assert [
        piece_shape(piece) for piece in ("Ann", "ANN", "ann", "A", "12", "原", "-", "McRay")
    ] == [*("Aa", "AA", "aa", "AA", "92", "漢", "-", "Aa")]
    assert shape_signature("𠮷田") == ("漢", "漢")
    assert shape_signature("김수 さマー") == (
        *("HANGUL", "HANGUL", " ", "HIRAGANA", "KATAKANA", "Aa KATAKANA-HIRAGANA"),
    )
    assert shape_signature("Иван é ОЛЕГ") == ("Aa CYRILLIC", " ", "aa", " ", "AA CYRILLIC")
    assert shape_signature("Ann-12") == ("Aa", "-", "92")


def test_words_of_a_corpus_in_order_of_appearance():
    texts = ["Ann saw 12 原, ann saw", "BBC Ann Bob"]
    assert words_by_shape(texts) == {
        "Aa": ["Ann", "Bob"],
        "aa": ["saw", "ann"],
        "漢": ["原"],
        "AA": ["BBC"],
    }


def test_words_give_way_to_those_in_the_same_place():
    made = {
        Recombiner(["Ann Lee", "Bob Fox"], {}).make("Ann Lee", random.Random(seed))
        for seed in range(99)
    }
    assert made == {"Ann Lee", "Ann Fox", "Bob Lee", "Bob Fox"}


def test_no_piece_gives_way_to_one_of_another_script():
    words = words_by_shape(["Ann Иван Пётр 王 김수"])
    made = {Recombiner([], words).make("Олег 이", random.Random(seed)) for seed in range(99)}
    assert made == {f"{name} {sign}" for name in ("Иван", "Пётр") for sign in "김수"}


def test_digits_follow_laplaces_rule():
    # Of three numbers all begin with 7: (3 + 1) / (3 + 10) of what is made does, too.
    recombiner, rng = Recombiner(["71", "72", "73"], {}), random.Random(0)
    made = [recombiner.make("79", rng) for _ in range(4000)]
    share = sum(one[0] == "7" for one in made) / len(made)
    assert abs(share - 4 / 13) < 4 * (4 / 13 * 9 / 13 / 4000) ** 0.5
    assert {one[1] for one in made} == set("0123456789")


def test_nothing_to_swap_leaves_a_string_as_it_is():
    assert Recombiner([], {}).make("asthma!", random.Random(0)) == "asthma!"


ALPHABET = "abAB 19-原本."


@settings(deadline=None)
@given(
    st.lists(st.text(ALPHABET, min_size=1, max_size=9), min_size=1, max_size=5),
    st.text(ALPHABET, max_size=30),
    st.integers(0, 9),
)
def test_what_is_made_is_written_like_what_it_is_like(donors, text, seed):
    recombiner = Recombiner(donors, words_by_shape([text]))
    for string in donors:
        made = recombiner.make(string, random.Random(seed))
        assert shape_signature(made) == shape_signature(string)
        assert len(split_pieces(made)) == len(split_pieces(string))
        again = Recombiner(donors[::-1], words_by_shape([text]))
        assert again.make(string, random.Random(seed)) == made
