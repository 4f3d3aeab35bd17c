"""What answers give, as the papers count it and strictly, against looking at every string."""

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.extraction.matcher import SEPARATOR, StrictMatcher, TargetMatcher, split_reduced
from fedaudit.pii.normalized_search import fold

LETTERS = "abAé原1 -\u0301\u0323\u00a0ß각ᄀ\u1161カー\u3099ก\u0e34"
STRING = st.text(LETTERS, min_size=1, max_size=4).map(str.strip).filter(fold)


def strictly(text, strings):
    """Return what `text` begins with, one string after the other, character by character."""
    said, found = fold(text), set()
    for string in strings:
        wanted = fold(string)
        if not said.startswith(wanted):
            continue
        after = said[len(wanted) : len(wanted) + 1]
        if after and after in "\u0301\u0323\u1161\u11a8ー\u3099\u0e34":  # the letter goes on
            continue
        spaced = "LATIN", "DIGIT", "COMBINING"
        word = [
            bool(char)
            and unicodedata.name(char).startswith(spaced)
            and unicodedata.category(char)[0] in "LMN"
            for char in (wanted[-1], after)
        ]
        if not all(word):
            found.add(string)
    return found


def test_between_chinese_characters_any_word_may_end():
    assert list(StrictMatcher(["吉𠮷"]).hits("吉𠮷𠮷原")) == ["吉𠮷"]


@pytest.mark.parametrize(
    ("string", "answer"),
    [
        ("김철수", "김철수는 1980년"),  # a particle is written onto the name
        ("김철수", unicodedata.normalize("NFD", "김철수가")),
        ("マリア", "マリアさんは"),
        ("さくら", "さくらは"),
        ("สมชาย", "สมชายไป"),
        ("ສົມ", "ສົມໄປ"),
        ("សុខ", "សុខទៅ"),
        ("အောင်", "အောင်သည်"),
        ("Anna", "Annaさん"),
        ("葛", "葛\U000e0100"),  # the same character in another shape
    ],
)
def test_where_words_run_on_a_string_needs_nothing_behind_it(string, answer):
    assert list(StrictMatcher([string]).hits(answer)) == [string]
    assert TargetMatcher([string]).reduce(answer) in (string, f"{SEPARATOR}{string}")


@pytest.mark.parametrize(
    ("string", "answer"),
    [
        ("철수", "철순이"),  # a consonant more makes another syllable
        ("マリカ", "マリガ"),  # so do two dots
        ("マリ", "マリー"),
        ("มาล", "มาลี"),  # and a vowel that is written above
        ("राम", "रामा"),
        ("๐๘๑", "๐๘๑๒"),  # digits are a number in every script
    ],
)
def test_no_string_ends_within_a_letter_or_a_syllable(string, answer):
    assert not list(StrictMatcher([string]).hits(answer))


@settings(deadline=None)
@given(st.lists(STRING, max_size=6), st.text(LETTERS, max_size=10))
def test_strict_matching_is_that_of_each_string_alone(strings, text):
    assert set(StrictMatcher(strings).hits(text)) == strictly(text, strings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Ann Lee, who", {"Ann", "Ann Lee"}),
        ("ann  lee", {"Ann", "Ann Lee"}),
        ("Ann Leeds", {"Ann"}),
        ("Annex", set()),
        ("in Ann", set()),
        ("ＡＮＮ！", {"Ann"}),
        ("Ann\u0301", set()),  # an accent makes another letter of it
        ("Jose\u0301 left", {"José"}),
        ("Josés", set()),
        ("张三丰", {"张三"}),  # Chinese puts nothing between words
    ],
)
def test_whole_words_by_hand(text, said):
    assert set(StrictMatcher(["Ann", "Ann Lee", "José", "张三"]).hits(text)) == said


@settings(deadline=None)
@given(st.lists(STRING, max_size=6), st.lists(st.text(LETTERS, max_size=10), max_size=4))
def test_reduced_answers_say_the_same_and_can_be_packed(strings, texts):
    among, strict = TargetMatcher(strings), StrictMatcher(strings)
    reduced = [among.reduce(text) for text in texts]
    for text, short in zip(texts, reduced, strict=True):
        begun, given_strictly = split_reduced(short)
        assert set(strict.hits(given_strictly)) == set(strict.hits(text))
        assert begun == max(
            (s for s in strings if text.lstrip().startswith(s)), key=len, default=""
        )
    packed = json.loads(json.dumps(among.pack(reduced)))
    assert among.unpack(packed, len(texts)) == reduced


def test_an_answer_in_parts():
    among = TargetMatcher(["West", "West Ham", "east"])
    # It begins with West Ham, but the only word of it is West.
    assert split_reduced(among.reduce("West Hampton")) == ("West Ham", "West")
    assert among.reduce("West Hampton") == f"West Ham{SEPARATOR}West"
    assert split_reduced(among.reduce("EAST")) == ("", "east")
    assert among.reduce("east.") == "east"
    assert split_reduced(among.reduce("eastern")) == ("east", "")
    assert among.reduce("North") == ""
