"""What keys tell is what the matchers of a plaintext audit find."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from fedaudit.extraction.matcher import StrictMatcher, ends_word
from fedaudit.joint import keys
from fedaudit.joint.keys import BASE, LITERAL, STRICT, TUNED
from fedaudit.metrics.extraction import Matcher
from fedaudit.pii.normalized_search import fold

ALPHABET = "aA bé\u0301-.1王 "
words = st.text(alphabet=ALPHABET, min_size=1, max_size=8)
targets = st.lists(words.map(str.strip).filter(bool), min_size=1, max_size=6, unique=True)


def answers(strings, common):
    asked = set(keys.asked_keys(strings))
    return keys.read_answers(strings, asked & set(common))


@given(targets, words, words)
def test_what_completions_begin_with_is_what_the_matchers_find(strings, tuned, base):
    common = [*keys.answer_keys(TUNED, tuned), *keys.answer_keys(BASE, base)]
    drawn = answers(strings, common).drawn
    for model, text in ((TUNED, tuned), (BASE, base)):
        assert drawn[model, LITERAL] == set(Matcher(strings).hits(text))
        assert drawn[model, STRICT] == set(StrictMatcher(strings).hits(text))


@given(targets, words)
def test_held_strings_are_those_that_stand_in_a_text_from_word_to_word(strings, text):
    held = answers(strings, keys.text_keys(text)).held
    for rule, form in ((LITERAL, str), (STRICT, fold)):
        whole = form(text)
        for string in strings:
            core = form(string)
            places = [i for i, char in enumerate(core) if char.isalnum()]
            if not places:
                assert string in held[rule]
                continue
            starts = [i for i in range(len(whole)) if ends_word(whole, i)]
            stops = [i for i in range(1, len(whole) + 1) if ends_word(whole, i)]
            pieces = {whole[i:j] for i, j in product(starts, stops) if i < j}
            if core in pieces and core[0].isalnum() and core[-1].isalnum():
                assert string in held[rule]
            if string in held[rule]:  # never more than a search for any piece would find
                assert core[places[0] : places[-1] + 1] in whole


def test_by_hand():
    common = [*keys.answer_keys(TUNED, " Anna Leeds!"), *keys.text_keys("To Bob Ray-Orr, 07/11.")]
    found = answers(["Anna", "ANNA", "Anna Lee", "Bob Ray", "bob ray-orr", "Ob", "07/11"], common)
    assert found.drawn[TUNED, LITERAL] == {"Anna", "Anna Lee"}
    assert found.drawn[TUNED, STRICT] == {"Anna", "ANNA"}
    assert found.drawn[BASE, STRICT] == set()
    assert found.held[LITERAL] == {"Bob Ray", "07/11"}
    assert found.held[STRICT] == {"Bob Ray", "bob ray-orr", "07/11"}


def test_a_lead_may_stand_before_a_string():
    assert answers(["Anna"], keys.answer_keys(TUNED, ":Anna.", (":",))).drawn[TUNED, STRICT]
    assert not answers(["Anna"], keys.answer_keys(TUNED, ":Anna.")).drawn[TUNED, STRICT]


def test_of_a_long_string_the_beginning_is_compared():
    text = "at " + "ab cd " * 20
    assert answers([text[3:80].strip()], keys.text_keys(text)).held[LITERAL]
    assert answers([text[3:43] + "other"], keys.text_keys(text)).held[LITERAL]
    assert not answers(["x" * 60], keys.text_keys(text)).held[LITERAL]
