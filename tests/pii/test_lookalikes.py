"""Strings in other spellings: what a reader takes for the same is found, and little else."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.pii.lookalikes import SPACE, folded_readings, forms

UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\ufe0f\u202e\U000e0041\x08"
ALIKE = {"a": "аɑ", "e": "е", "o": "оο", "p": "рρ", "c": "сϲ", "x": "х", "A": "АΑ", "H": "НΗ"}
"""Small and capital letters of Cyrillic and Greek."""


def stands(string, text):
    read = "\n".join(folded_readings(text))
    return any(form in read for form in forms(string))


@pytest.mark.parametrize(
    ("string", "text"),
    [
        ("Ann Lee", "ANN LEE"),
        ("ANN LEE", "by ann lee."),
        ("Ann Lee", "Ａｎｎ　Ｌｅｅ"),
        ("Ann Lee", "A\u200bn\u200dn Lee"),
        ("Ann Lee", "Ann\u200bLee"),
        ("Ann Lee", "Ann\u00a0\n Lee"),
        ("Ann Lee", "А\u200bnn Lее"),  # Cyrillic, with a zero-width space
        ("Ann Lee", "𝐀𝐧𝐧 𝓛𝓮𝓮"),
        ("Ann Lee", "Ⓐnn ᒪee"),
        ("Аnn Lее", "Ann Lee"),  # the masked one was the look-alike
        ("Ivan", "lvan"),
        ("Ivan", "1VAN"),
        ("Ivan", "іvan"),
        ("Smith", "SM1TH"),
        ("Smith", "Srnith"),
        ("Smith", "SΜITH"),  # Greek Mu
        ("Henry", "ΗENRY"),  # Greek Eta, whose small letter looks like an n
        ("Bob Olsen", "BOB 0LSEN"),
        ("José", "JOSE\u0301"),
        ("straße", "STRASSE"),
        ("a@b.org", "A@B.ORG"),
        ("07700 900123", "O77OO 9OO123"),
        ("王小明", "王\u200b小明"),
    ],
)
def test_other_spellings_are_found(string, text):
    assert stands(string, f"The claimant {text} sued.")


@pytest.mark.parametrize(
    ("string", "text"),
    [
        ("Ali", "All of us"),  # a capital I looks like an l, a small one does not
        ("11", "all"),
        ("100", "looking"),
        ("Ann Lee", "Anna Leeds"),
        ("Eva", "Ewa"),
        ("Müller", "Muller"),
        ("\u200b", "text\u200b"),
    ],
)
def test_other_words_are_not(string, text):
    assert not stands(string, text)


@given(
    st.text("abceopxAHnlrd ", min_size=1, max_size=12).filter(str.strip),
    st.data(),
)
def test_whatever_is_done_to_a_string_it_is_found(string, data):
    # Case first: look-alikes are of the case that is seen, and few have one of the other case.
    cased = data.draw(st.sampled_from([string, string.upper(), string.lower()]))
    text = ""
    for char in cased:
        text += data.draw(st.sampled_from([char, *ALIKE.get(char, "")]))
        text += data.draw(st.sampled_from(["", "", *UNSEEN.replace(SPACE, "")]))
    assert stands(string, f"x {text} x")


@given(st.text())
def test_a_text_has_the_forms_of_itself(text):
    assert stands(text, text) or not forms(text)


def test_time_grows_with_the_text_alone():
    def seconds(text):
        return min(timed(text) for _ in range(3))

    def timed(text):
        since = time.process_time()
        assert sum(map(len, folded_readings(text))) > 2 * len(text)
        return time.process_time() - since

    seconds("warm up")
    for piece in (
        "Ann Lee of Leeds, 1940; ",
        "Анн Ли из Лидса, \u200b",
        "王小明在" + "\u0301" * 30,
    ):
        # Eight times as much takes about eight times as long; of a square it would be 64.
        assert seconds(piece * 4_000) < 30 * seconds(piece * 500) + 0.05
